"""What is recorded of a run beside its steps: who ran it, what its model calls took, how it ended."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer

from .application import Usage
from .conversation.messages import Message, Record
from .session import EVERY_TOOL, ToolChoice


class RequestShape(Record):
    """What a request was made of; the histories themselves are in the state before the step."""

    fixed_sha256: str
    """Of the system prompt and the tools."""
    histories: tuple[tuple[int, int], ...]
    """Messages and bytes of each history, in the order of the request."""
    forced_tool: str | None = None
    output: str = Field("", exclude_if=lambda digest: not digest)
    """Digest of the form that an answer in words was to have; empty: it had none."""


class Failure(Record):
    code: str
    message: str


class Conditions(Record):
    """What a run was judged by and limited to; a session may have other rules and models by now."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = Field((), exclude_if=lambda rules: not rules)
    catastrophic: Literal["ask", "run"] = Field("ask", exclude_if=lambda said: said == "ask")
    cwd: str
    add_dirs: tuple[str, ...] = ()
    context_window: int
    """Of the model, in tokens."""
    compress_at: float
    """Share of the window that a request was allowed to fill."""
    counts_tokens: bool = Field(False, exclude_if=lambda counts: not counts)
    """Whether requests were counted, and not only estimated, before they were sent."""
    tool_choice: ToolChoice = Field(default=EVERY_TOOL, exclude_if=lambda choice: choice == EVERY_TOOL)
    ephemeral: dict[str, int] = Field(default_factory=dict[str, int], exclude_if=lambda tools: not tools)
    """Name -> how many results of the tool stayed in requests, of those that do not all stay."""
    tools: dict[str, str] = Field(default_factory=dict[str, str])
    """Name -> digest of how the tool was described to the model."""


class RunBegan(Record):
    kind: Literal["run_began"] = "run_began"
    action: str
    """The first action of the run."""
    mode: str
    model: str
    version: str
    """Of Sandbur."""
    by: str
    """Who ran it: user@host."""
    changes: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State fields that were changed since the last step, outside of any action: JSON values."""
    conditions: Conditions | None = None
    """None in runs of versions that did not record them."""
    trace_id: str = ""
    """Of the trace that this run was exported in: 32 hex digits; empty if it was not."""
    settings_sha256: str = ""
    """The digest of the session's settings; empty in runs of versions that did not record it."""


class SessionImported(Record):
    """What came before was written elsewhere, and taken in with these settings."""

    kind: Literal["imported"] = "imported"
    by: str
    """Who took it in: user@host."""
    settings_sha256: str


_DISCARDED = "The partial answer above is discarded."
"""Stored bytes: in records without `retries`, each other notice was one."""


class ModelCalled(Record):
    """One call of a model, recorded after its end; it belongs to the step that comes next."""

    kind: Literal["model_called"] = "model_called"
    model: str
    """`provider/model` that was asked; a stand-in is named in `notices`."""
    began_at: str
    """UTC, ISO 8601."""
    first_ms: int | None = None
    """Until the first piece of text or thinking; None if none came."""
    duration_ms: int
    """All tries and the waits between them."""
    pieces: int = 0
    """Pieces of text and thinking that streamed in."""
    notices: tuple[str, ...] = ()
    """Retries and stand-ins, as the person was told of them."""
    retries: int | None = None
    """How often it began once more; None without notices, and in records of versions that did not count."""
    finish: str | None = None
    """None if no reply came."""
    usage: Usage = Usage()
    """Of the reply."""
    discarded: Usage = Usage()
    """Of the tries whose answer was cut or empty."""
    request: RequestShape
    reply: Message | None = Field(default=None, exclude_if=lambda reply: reply is None)
    """Set where no history takes the reply in, or only after hooks have judged it."""
    error: Failure | None = None

    @property
    def used(self) -> Usage:
        return self.usage + self.discarded

    @property
    def retry_count(self) -> int:
        if self.retries is not None:
            return self.retries
        return sum(notice != _DISCARDED for notice in self.notices)

    @field_serializer("reply")
    def _whole(self, reply: Message | None) -> dict[str, Any] | None:
        """Keep the tags of its blocks, which are defaults: without them it cannot be read."""
        return None if reply is None else reply.model_dump(mode="json", exclude_none=True)


class RunEnded(Record):
    """The last record of a run; a run without one was ended by the death of its process."""

    kind: Literal["run_ended"] = "run_ended"
    status: str
    action: str
    """The action that would come next; with an error: the one that failed."""
    duration_ms: int = 0
    error: Failure | None = None


TraceRecord = Annotated[RunBegan | ModelCalled | RunEnded | SessionImported, Field(discriminator="kind")]
