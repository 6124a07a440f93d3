"""Records of runs beside the steps: who ran them, their model calls, how they ended."""

from functools import partial
from operator import is_, not_
from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer

from .application import Usage
from .conversation.messages import Message, Record
from .session import EVERY_TOOL, USUAL_COMPACTION, CompactionRules, ToolChoice


class RequestShape(Record):
    """The parts of a request; the histories themselves are in the state before the step."""

    fixed_sha256: str
    """Digest of the system prompt and the tools."""
    histories: tuple[tuple[int, int], ...]
    """Number of messages and bytes of each history, in the order of the request."""
    forced_tool: str | None = None
    output: str = Field("", exclude_if=not_)
    """Digest of the required form of the final answer; empty if there was none."""


class Failure(Record):
    code: str
    message: str


class Conditions(Record):
    """Rules and limits of a run; the session may have other ones now."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=not_)
    catastrophic: Literal["ask", "run"] = Field("ask", exclude_if=lambda action: action == "ask")
    cwd: str
    add_dirs: tuple[str, ...] = ()
    context_window: int
    """Context window of the model, in tokens."""
    compress_at: float
    """The share of the window that a request could fill."""
    compaction: CompactionRules = Field(USUAL_COMPACTION, exclude_if=lambda rules: rules == USUAL_COMPACTION)
    counts_tokens: bool = Field(False, exclude_if=not_)
    """True if requests were counted by the provider before they were sent, not only estimated."""
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    ephemeral: dict[str, int] = Field(default_factory=dict[str, int], exclude_if=not_)
    """Tool name -> how many of its results stayed in requests, if not all."""
    tools: dict[str, str] = Field(default_factory=dict[str, str])
    """Tool name -> digest of its description for the model."""
    flow_tools: tuple[str, ...] = Field((), exclude_if=not_)
    """The tools that only flows call; no model gets them."""
    versions: dict[str, str] = Field(default_factory=dict[str, str], exclude_if=lambda tools: not tools)
    """Tool name -> the version that its author gives it, if any."""


class RunBegan(Record):
    kind: Literal["run_began"] = "run_began"
    action: str
    """The first action of the run."""
    mode: str
    model: str
    version: str
    """The version of Sandbur."""
    by: str
    """Who started it: user@host."""
    changes: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State fields that changed outside of any action since the last step, as JSON values."""
    conditions: Conditions | None = None
    """None in records of versions without it."""
    trace_id: str = ""
    """Id of the exported trace of this run: 32 hex digits; empty if it was not exported."""
    settings_sha256: str = ""
    """Digest of the session's settings; empty in records of versions without it."""


class SessionImported(Record):
    """Marks an import: everything before was recorded elsewhere."""

    kind: Literal["imported"] = "imported"
    by: str
    """Who imported it: user@host."""
    settings_sha256: str


_DISCARDED = "The partial answer above is discarded."
"""Stored text: in records without `retries`, all other notices were retries."""


class ModelCalled(Record):
    """One call of a model, recorded after its end; it belongs to the next step."""

    kind: Literal["model_called"] = "model_called"
    model: str
    """The requested `provider/model`; a fallback model is named in `notices`."""
    began_at: str
    """UTC, ISO 8601."""
    first_ms: int | None = None
    """Milliseconds until the first piece of text or thinking; None if none came."""
    duration_ms: int
    """Duration of all tries and the waits between them."""
    pieces: int = 0
    """Number of streamed pieces of text and thinking."""
    notices: tuple[str, ...] = ()
    """Notices to the person about retries and fallbacks."""
    retries: int | None = None
    """Number of retries; None without notices, and in records of versions without it."""
    finish: str | None = None
    """None if there was no reply."""
    usage: Usage = Usage()
    """Usage of the reply."""
    discarded: Usage = Usage()
    """Usage of tries with an interrupted or empty answer."""
    request: RequestShape
    reply: Message | None = Field(default=None, exclude_if=partial(is_, None))
    """Set if no history has the reply, or if hooks judge it before."""
    error: Failure | None = None

    @property
    def total_usage(self) -> Usage:
        return self.usage + self.discarded

    @property
    def retry_count(self) -> int:
        if self.retries is not None:
            return self.retries
        return sum(notice != _DISCARDED for notice in self.notices)

    @field_serializer("reply")
    def _dump_reply(self, reply: Message | None) -> dict[str, Any] | None:
        """Dump the reply with the tags of its blocks, which are defaults: it needs them to be parsed."""
        return None if reply is None else reply.model_dump(mode="json", exclude_none=True)


class RunEnded(Record):
    """The last record of a run; it is missing if the process died."""

    kind: Literal["run_ended"] = "run_ended"
    status: str
    action: str
    """The next action; with an error, the action that failed."""
    duration_ms: int = 0
    error: Failure | None = None


class FlowStarted(Record):
    """A flow or a skill trigger that matched a message; it belongs to the next step."""

    kind: Literal["flow_started"] = "flow_started"
    name: str
    does: str
    """What the match does: the `kind` of its `FlowMatch`."""
    why: str
    """The trigger that matched, as a clause for people."""


TraceRecord = Annotated[
    RunBegan | ModelCalled | RunEnded | SessionImported | FlowStarted, Field(discriminator="kind")
]
