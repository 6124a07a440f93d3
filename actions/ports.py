"""What the actions need from outside: a model, tools, a gate, a journal; bound in `agent/graph.py`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from actions.events import Notice, TextDelta, ThinkingDelta
from state.application import ExecutionMode
from state.calls import Effect, JournaledCall
from state.messages import Message, Outcome, ToolResult
from state.transcript import Transcript
from state.usage import Usage


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """How a tool is described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""


FinishReason = Literal["stop", "tool_calls", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. System prompt and tools are the same objects all session long."""

    system: str
    tools: tuple[ToolSpec, ...]
    histories: tuple[Transcript, ...]
    """Read one after the other: the global history, then the active step's."""
    forced_tool: str | None = None
    """The model must call this tool (adapters only offer it where forcing is refused)."""

    @property
    def messages(self) -> Iterable[Message]:
        for history in self.histories:
            yield from history

    @property
    def size_bytes(self) -> int:
        return sum(history.size_bytes for history in self.histories)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole model message; the last item of a stream."""

    message: Message
    finish: FinishReason
    usage: Usage
    """Of this call alone, `llm_calls` = 1; None where the provider did not say."""


ModelEvent = TextDelta | ThinkingDelta | Notice | Reply


class Model(Protocol):
    """A language model behind one of the wire formats; retries are inside and visible as notices."""

    @property
    def name(self) -> str:
        """`provider/model`, as in `-m`."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that a request and its answer may take."""
        ...

    async def aclose(self) -> None: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield deltas, then exactly one `Reply`.

        Raises `ContextFull`, `Overloaded`, `CredentialsError` or `ModelError`. A stream that is cut or ends
        without a proper finish reason is never a reply: it is tried again, then raised.
        """
        ...


class BadArguments(Exception):
    """The model's arguments do not fit the tool; the message tells the model what to change."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool gives back. A failure is an outcome too, not an exception."""

    outcome: Outcome
    content: str
    """What the model reads, already capped."""
    full_output: bytes | None = None
    """The whole output where `content` is a cut of it; kept in the store."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a running tool may use."""

    call_id: str
    cwd: Path
    roots: tuple[Path, ...]
    """The workspace and the added folders."""
    emit: Callable[[str], None]
    """Show live output."""


class Tool(Protocol):
    """One tool. `arguments` is what `parse` returned."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def effect(self) -> Effect: ...
    def parse(self, arguments: str) -> Any:
        """Return validated arguments from the model's JSON text; raises `BadArguments`."""
        ...

    def subject(self, arguments: Any) -> str:
        """Return what rules match against: the command, the path or the pattern."""
        ...

    def paths(self, arguments: Any) -> Sequence[str]:
        """Return every path the call names, as written; empty if it is not about files."""
        ...

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do it. When cancelled, leave no process behind and let the cancellation through."""
        ...


Toolbox = Mapping[str, Tool]


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Literal["allow", "ask", "deny"]
    reason: str
    by_rule: bool = False


class Gate(Protocol):
    def judge(self, tool: Tool, arguments: Any, mode: ExecutionMode) -> Verdict: ...


class Journal(Protocol):
    """The durable record of tool calls."""

    async def proposed(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        """Record the wish; committed with the step that proposes it."""
        ...

    async def started(self, call_id: str, tool: str, effect: Effect, arguments: str) -> None:
        """Record that the side effect begins, and commit; nothing runs before this returned."""
        ...

    async def finished(self, result: ToolResult, flush: bool) -> None:
        """Record a result; with `flush` now, else with the session's next commit, whichever that is."""
        ...

    async def kept(self, call_id: str, output: bytes) -> None:
        """Store the whole output of a call whose result shows a part, with the session's next commit."""
        ...

    async def recorded(self, call_ids: Iterable[str]) -> dict[str, JournaledCall]:
        """Return what is known of these calls."""
        ...

    def has_seen(self, call_id: str) -> bool:
        """Tell whether the session used this id before."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything the actions of one session are bound to."""

    model: Model
    system: str
    toolbox: Toolbox
    tool_specs: tuple[ToolSpec, ...]
    """Working and decision tools, in the order in which every request lists them."""
    gate: Gate
    journal: Journal
    cwd: Path
    roots: tuple[Path, ...]
    """The workspace and the added folders."""
    fixed_bytes: int
    """What system prompt and tools add to every request."""
    compress_at: float = 0.8
    """Share of the model's window that a request may fill."""
    max_replans: int = 3
    max_concurrent_reads: int = 8
