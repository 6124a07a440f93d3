"""The records of runs beside the steps: who ran them, their model calls, how they ended."""

from functools import partial
from operator import is_, not_
from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer

from .application import Usage
from .conversation.messages import Message, Record
from .session import EVERY_TOOL, USUAL_COMPACTION, CompactionRules, ToolChoice


class RequestShape(Record):
    """The parts of a request. The histories themselves are in the state before the step."""

    fixed_sha256: str
    """The digest of the system prompt and the tools."""
    histories: tuple[tuple[int, int], ...]
    """The number of messages and the bytes of each history, in the order of the request."""
    forced_tool: str | None = None
    output: str = Field("", exclude_if=not_)
    """The digest of the required format of the final answer; empty if there was none."""


class Failure(Record):
    code: str
    message: str


class Conditions(Record):
    """The rules and limits of a run. The session may have other ones now."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=not_)
    catastrophic: Literal["ask", "run"] = Field("ask", exclude_if=lambda action: action == "ask")
    cwd: str
    add_dirs: tuple[str, ...] = ()
    context_window: int
    """The context window of the model in tokens."""
    compress_at: float
    """The share of the window that a request could fill."""
    compaction: CompactionRules = Field(USUAL_COMPACTION, exclude_if=lambda rules: rules == USUAL_COMPACTION)
    counts_tokens: bool = Field(False, exclude_if=not_)
    """Whether the provider counted the tokens of requests before they were sent, so that they were not only
    estimated.
    """
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    ephemeral: dict[str, int] = Field(default_factory=dict[str, int], exclude_if=not_)
    """Maps a tool to the number of its results that stayed in requests, if not all did."""
    tools: dict[str, str] = Field(default_factory=dict[str, str])
    """Maps a tool to the digest of its description for the model."""
    flow_tools: tuple[str, ...] = Field((), exclude_if=not_)
    """The tools that only flows call; no model gets them."""
    notebook: str = Field("", exclude_if=not_)
    """The tool by which the model changed its plan; empty: it had none."""
    plan_digest: str = Field("", exclude_if=not_)
    """In the session of a sub-agent that works on a step of an approved plan: the digest of that plan."""
    plan_rules: tuple[str, ...] = Field((), exclude_if=not_)
    """The allow rules of that step, which held only during this run."""
    versions: dict[str, str] = Field(default_factory=dict[str, str], exclude_if=lambda tools: not tools)
    """Maps a tool to the version that its author set. Tools without a version are not listed."""


class RecordedSettings(Record):
    """What the row of a session contained, so that a later change of the row is found and named."""

    tenant: str = ""
    parent_id: str | None = None
    """The session and the step that a fork continues."""
    parent_seq: int | None = None
    fields: dict[str, str] = Field(default_factory=dict[str, str])
    """Maps each setting that is not the usual one to a short digest of its value."""


class RunBegan(Record):
    kind: Literal["run_began"] = "run_began"
    action: str
    """The first action of the run."""
    mode: str
    model: str
    version: str
    """The version of Sandbur."""
    by: str
    """The person who started the run, as user@host."""
    changes: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The state fields that changed outside of any action since the last step, as JSON values."""
    conditions: Conditions | None = None
    """The conditions of the run; None in records of versions that did not store them."""
    trace_id: str = ""
    """The id of the exported trace of this run, 32 hex digits; empty if it was not exported."""
    settings_sha256: str = ""
    """The digest of the session's settings; empty in records of versions that did not store it."""
    settings: RecordedSettings | None = Field(default=None, exclude_if=partial(is_, None))
    """The settings field by field; None in records of versions that did not store them."""


class SessionImported(Record):
    """Marks an import. All records before this one were recorded in another store."""

    kind: Literal["imported"] = "imported"
    by: str
    """The person who imported the session, as user@host."""
    settings_sha256: str
    settings: RecordedSettings | None = Field(default=None, exclude_if=partial(is_, None))


class SettingsStored(Record):
    """The settings of a session that was created without a run, or whose settings changed without one."""

    kind: Literal["settings"] = "settings"
    settings_sha256: str
    settings: RecordedSettings


_DISCARDED = "The partial answer above is discarded."
"""A stored text. In records without `retries`, every notice with other words means a retry."""


class ModelCalled(Record):
    """One call of a model, recorded after its end. It belongs to the next step."""

    kind: Literal["model_called"] = "model_called"
    model: str
    """The requested model as `provider/model`. A fallback model is named in `notices`."""
    began_at: str
    """The time of the start: UTC, ISO 8601."""
    first_ms: int | None = None
    """The milliseconds until the first piece of text or thinking; None if there was none."""
    duration_ms: int
    """The duration of all tries and of the waits between them, in milliseconds."""
    pieces: int = 0
    """The number of streamed pieces of text and thinking."""
    notices: tuple[str, ...] = ()
    """The notices to the person about retries and fallbacks."""
    retries: int | None = None
    """The number of retries; None if there are no notices, and in records of versions that did not
    store it.
    """
    finish: str | None = None
    """The reason for the end of the reply; None if there was no reply."""
    usage: Usage = Usage()
    """The usage of the reply."""
    discarded: Usage = Usage()
    """The usage of tries with an interrupted or empty answer."""
    request: RequestShape
    reply: Message | None = Field(default=None, exclude_if=partial(is_, None))
    """The reply, if no history contains it or if hooks judge it first; else None."""
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
        """Dump the reply with the tags of its blocks. The tags are defaults, but a parser needs them."""
        return None if reply is None else reply.model_dump(mode="json", exclude_none=True)


class RunEnded(Record):
    """The last record of a run. If it is missing, the process died."""

    kind: Literal["run_ended"] = "run_ended"
    status: str
    action: str
    """The next action. If the run ended with an error, it is the action that failed."""
    duration_ms: int = 0
    error: Failure | None = None
    is_recorded: bool = False
    """Whether the run only recorded decisions, and the next run goes on with them."""


class FlowStarted(Record):
    """A flow or a skill trigger that matched a message; it belongs to the next step."""

    kind: Literal["flow_started"] = "flow_started"
    name: str
    does: str
    """What the match does: the `kind` of its `FlowMatch`."""
    why: str
    """The trigger that matched, as a clause for people."""


TraceRecord = Annotated[
    RunBegan | ModelCalled | RunEnded | SessionImported | SettingsStored | FlowStarted,
    Field(discriminator="kind"),
]
