"""The forms of AG-UI 1.0: what a client sends, and the events that it gets."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from ...routes.forms import MOST_TEXT_CHARS, Label, SessionId

PROTOCOL_VERSION = "1.0"
_Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Text = Annotated[str, StringConstraints(max_length=MOST_TEXT_CHARS)]


class _Wire(BaseModel):
    """Names are in camel case. The protocol grows: unknown names are passed over."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_alias=True, validate_by_name=False, frozen=True, extra="ignore"
    )


class AgUiMessage(_Wire):
    """A message of the client's history. Only the last one is read further, with `AgUiContent`."""

    role: Label
    content: Any = None


class AgUiText(_Wire):
    type: Literal["text"]
    text: _Text


class AgUiSource(_Wire):
    type: Literal["data"]
    value: str


class AgUiFile(_Wire):
    type: Literal["image", "document", "audio", "video"]
    source: AgUiSource


AgUiPart = Annotated[AgUiText | AgUiFile, Field(discriminator="type")]
AgUiContent = _Text | Annotated[list[AgUiPart], Field(min_length=1, max_length=50)]


class AgUiAnswer(_Wire):
    """The payload of an answer to an interrupt: of an approval, or of a call with an unknown outcome."""

    approved: bool = False
    reason: _Text = ""
    edited_args: dict[str, Any] | None = None
    outcome: Literal["done", "failed", "rerun", "check"] | None = None
    result: _Text = ""


class AgUiResume(_Wire):
    interrupt_id: _Id
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class AgUiRun(_Wire):
    """`RunAgentInput`. The server has the history itself, so `state`, `tools` and `context` are not read."""

    thread_id: SessionId
    run_id: _Id
    messages: list[AgUiMessage]
    resume: Annotated[list[AgUiResume], Field(max_length=100)] | None = None


def make_event(kind: str, **fields: Any) -> dict[str, Any]:
    """Return an event with its fields in the names of the wire. A field that is None is left out."""
    return {"type": kind, **{to_camel(name): value for name, value in fields.items() if value is not None}}


def make_approval_schema(can_edit: bool) -> dict[str, Any]:
    """Return the JSON schema of an answer to an approval."""
    edited = {"editedArgs": {"type": "object"}} if can_edit else {}
    properties = {"approved": {"type": "boolean"}, "reason": {"type": "string"}, **edited}
    return {"type": "object", "properties": properties, "required": ["approved"]}


OUTCOME_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {"enum": ["done", "failed", "rerun", "check"]},
        "result": {"type": "string"},
    },
    "required": ["outcome"],
}
"""The JSON schema of an answer about a call whose outcome is unknown."""
