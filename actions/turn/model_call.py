"""Makes the model call of an action: checks that the request fits, streams the reply and records the cost."""

import time
from dataclasses import field, replace
from typing import Any, Protocol, runtime_checkable

from ...state.application import ApplicationState, Usage
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import Block, Message, Text, Thinking, ToolUse
from ...state.conversation.transcript import Transcript
from ...state.errors import ContextFull, ModelError, SandburError
from ...state.lazy_dataclass import dataclass
from ...state.process.clock import now
from ...state.process.crashpoints import reach
from ...state.trace import Failure, ModelCalled, RequestShape
from ..masking.references import mask_arguments
from ..ports import (
    Discarded,
    MaskedStream,
    Masker,
    Model,
    ModelRequest,
    Ports,
    Reply,
    ToolChoiceKind,
    implements,
)
from ..ports.events import RETRIES, Notice, TextDelta, ThinkingDelta, UsageChanged
from .output.format import OutputFormat

_MAX_NOTICES = 20
_INTERRUPTED = Failure(code="interrupted", message="The call was interrupted.")


@dataclass(slots=True)
class _CallMeasures:
    fixed_sha256: str
    began: float = field(default_factory=time.monotonic)
    began_at: str = field(default_factory=now)
    first_ms: int | None = None
    pieces: int = 0
    notices: list[str] = field(default_factory=list[str])
    retries: int = 0
    discarded: Usage = field(default_factory=Usage)

    def note(self, notice: Notice) -> None:
        self.retries += notice.kind in RETRIES
        self.notices += [notice.message] if len(self.notices) < _MAX_NOTICES else []

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000)


async def call_model(
    state: ApplicationState, ports: Ports, request: ModelRequest, is_aside: bool = False
) -> Reply:
    """Call the model, emit its deltas and return the reply. The trace record is added before the return.

    `is_aside`: no delta is emitted and no history gets the reply, so the trace record contains the reply. The
    trace record also contains a reply that hooks will judge, because the process may die while they run.
    """
    seen, masked = (
        _CallMeasures(ports.requests.offer(state.equipment).sha256),
        _LiveText(ports, state.active_step_id),
    )
    reply: Reply | None = None
    error: Failure | None = _INTERRUPTED
    try:
        async for item in ports.model.stream(request):
            if isinstance(item, TextDelta | ThinkingDelta):
                seen.pieces += 1
                if seen.first_ms is None:
                    seen.first_ms = seen.duration_ms
                if not is_aside:
                    masked.emit(item)
                continue
            masked.end()
            match item:
                case Reply():
                    item = replace(item, message=_without_secrets(item.message, ports))
                    seen.discarded += item.discarded
                    reply, error = replace(item, discarded=seen.discarded), None
                    kept = item.message if is_aside or _is_judged(item.message, ports) else None
                    _record(ports, request, seen, finish=item.finish, usage=item.usage, reply=kept)
                case Discarded():
                    seen.discarded += item.usage
                    ports.emit(UsageChanged(state.turn_usage + seen.discarded, item.usage))
                case Notice():
                    seen.note(item)
                    ports.emit(item)
    except SandburError as failed:
        error = Failure(code=failed.code, message=ports.masker.text(failed.message))
        raise
    finally:
        masked.end()
        if error is not None:
            _record(ports, request, seen, error=error)
    return require_reply(reply, ports.model.name)


def require_reply(reply: Reply | None, model: str) -> Reply:
    """Return the reply of a stream; raises `ModelError` if it ended without one."""
    if reply is None:
        what = f"The stream of the model {model} ended without a Reply."
        raise ModelError(what, "The last event of a stream has to be one.")
    return reply


def _is_judged(reply: Message, ports: Ports) -> bool:
    return ports.hooks is not None and ports.hooks.judges(reply)


class _LiveText:
    """Emits streamed text without secrets. The end of a piece may be held back until the next piece."""

    def __init__(self, ports: Ports, step_id: str | None) -> None:
        self._ports = ports
        self._step_id = step_id
        self._kind: type[TextDelta | ThinkingDelta] | None = None
        self._stream: MaskedStream | None = None

    def emit(self, piece: TextDelta | ThinkingDelta) -> None:
        """Emit a piece of text. A piece of another kind ends the text before it."""
        if self._kind is not type(piece):
            self.end()
            self._kind, self._stream = type(piece), self._ports.masker.stream()
        assert self._stream is not None
        text = self._stream.feed(piece.delta) if self._ports.requests.masks_replies else piece.delta
        if self._kind is TextDelta:
            reach("stream_mid")
            if text:
                self._ports.emit(TextDelta(text, self._step_id))
        elif text:
            self._ports.emit(ThinkingDelta(text))

    def end(self) -> None:
        """Emit the text that was held back, because the text ends here."""
        if self._stream is not None and (text := self._stream.end()):
            is_text = self._kind is TextDelta
            self._ports.emit(TextDelta(text, self._step_id) if is_text else ThinkingDelta(text))
        self._kind, self._stream = None, None


def _without_secrets(message: Message, ports: Ports) -> Message:
    """Return the reply with its secrets masked. A masked reply loses the provider's own form of the
    message.
    """
    if not ports.requests.masks_replies:
        return message
    blocks = tuple(_block_without_secrets(block, ports.masker) for block in message.blocks)
    if blocks == message.blocks:
        return message
    return Message(role=message.role, origin=message.origin, blocks=blocks)


def _block_without_secrets(block: Block, masker: Masker) -> Block:
    if isinstance(block, Text | Thinking):
        text = masker.text(block.text)
        return block if text == block.text else block.model_copy(update={"text": text})
    if not isinstance(block, ToolUse):
        return block
    masked = mask_arguments(block.arguments, masker)
    if masked == block.arguments:
        return block
    return block.model_copy(update={"arguments": masked, "masked": True})


def _record(ports: Ports, request: ModelRequest, seen: _CallMeasures, **end: Any) -> None:
    histories = tuple((len(history), history.size_bytes) for history in request.histories)
    shape = RequestShape(
        fixed_sha256=seen.fixed_sha256,
        histories=histories,
        forced_tool=request.forced_tool,
        output=request.output.digest if request.output is not None else "",
    )
    ports.trace.add(
        ModelCalled(
            model=ports.model.name,
            began_at=seen.began_at,
            first_ms=seen.first_ms,
            duration_ms=seen.duration_ms,
            pieces=seen.pieces,
            notices=tuple(seen.notices),
            retries=seen.retries if seen.notices else None,
            discarded=seen.discarded,
            request=shape,
            **end,
        )
    )


CutReply = tuple[Message, ...]
"""The input of an action whose model call was interrupted: the partial reply, and the mark that follows it.
Empty if the action must ask the model.
"""
KeptReply = Reply | None
"""The input of an action whose reply was recorded by a process that died before the step's commit; None if
the action must ask the model.
"""
MAX_COMPRESSIONS = 2
MAX_BAD_ROUNDS = 5
_LEARNED_RANGE = (0.05, 1.0)


async def ask(
    state: ApplicationState,
    ports: Ports,
    histories: tuple[Transcript, ...],
    choice: str | None = None,
    output: OutputFormat | None = None,
    kept: Reply | None = None,
) -> Reply | None:
    """Ask the model and emit its deltas. Return None if the request does not fit the context window.

    `choice` is the name of a tool that the model must call, `required` (any tool) or `none`. `kept` is the
    reply that an earlier process recorded before it died; with it, the model is not asked again. Raises
    `ModelError` after `MAX_BAD_ROUNDS` unusable replies in a row.
    """
    if kept is not None:
        ports.emit(TextDelta(kept.message.display_text, state.active_step_id))
        used = kept.usage + kept.discarded
        ports.emit(UsageChanged(state.turn_usage + used, used))
        return kept
    if state.bad_rounds >= MAX_BAD_ROUNDS:
        raise ModelError(
            f"The model sent unusable tool calls {state.bad_rounds} times in a row.",
            "Resume to try again, perhaps with another model.",
        )
    specs = ports.requests.offer(state.equipment).specs
    general, forced_tool = to_tool_choice(choice)
    request = ModelRequest(
        ports.requests.system, specs, histories, forced_tool, output,
        tool_choice=general, strict_tools=ports.requests.strict_tools,
    )  # fmt: skip
    if not await _fits(state, ports, request):
        return None
    reach("request_before_send")
    try:
        reply = await call_model(state, ports, request)
    except ContextFull:
        return None
    reach("reply_before_commit")
    ports.emit(UsageChanged(state.turn_usage + reply.usage + reply.discarded, reply.usage))
    if _is_judged(reply.message, ports):
        await ports.trace.flush()
        reach("reply_kept")
    return reply


_USED_IF_COUNTED, _USED_IF_ESTIMATED = 1.0, 2.0
"""The share of the window from which on a request is known not to fit, by how its tokens are known."""


async def _fits(state: ApplicationState, ports: Ports, request: ModelRequest) -> bool:
    """Return whether the request will probably fit the usable share of the model's window.

    After a compression only a request is refused that is known not to fit: an estimate may be wrong, so it
    counts from twice the window on.
    """
    shares = (
        (_USED_IF_COUNTED, _USED_IF_ESTIMATED) if state.compressions else (ports.requests.compress_at,) * 2
    )
    tokens = (
        await ports.requests.token_counter.count_tokens(request)
        if ports.requests.token_counter is not None
        else None
    )
    if tokens is not None:
        return tokens <= ports.model.context_window * shares[0]
    tokens = _count_request_bytes(state, ports, request.histories) * state.tokens_per_byte
    return tokens <= ports.model.context_window * shares[1]


def _count_request_bytes(state: ApplicationState, ports: Ports, histories: tuple[Transcript, ...]) -> int:
    return ports.requests.offer(state.equipment).size_bytes + sum(history.size_bytes for history in histories)


def apply_reply(
    state: ApplicationState, ports: Ports, histories: tuple[Transcript, ...], reply: Reply
) -> dict[str, Any]:
    """Return the state changes of every reply: the usage, and the measured number of tokens per byte."""
    learned = state.tokens_per_byte
    if reply.usage.input_tokens:
        low, high = _LEARNED_RANGE
        learned = min(
            high, max(low, reply.usage.input_tokens / _count_request_bytes(state, ports, histories))
        )
    used = reply.usage + reply.discarded
    return {
        **state.add_usage(used),
        "tokens_per_byte": learned,
        "compressions": 0,
    }


CALL_READS = [
    "usage", "turn_usage", "plan_usage", "tokens_per_byte", "compressions", "active_step_id", "bad_rounds",
    "equipment", "page",
]  # fmt: skip
"""The state fields that `ask` and `apply_reply` read."""
REPLY_FIELDS = ["usage", "turn_usage", "plan_usage", "tokens_per_byte", "compressions", "overflow_from"]
"""The state fields that `apply_reply` and `overflow` write."""


def to_tool_choice(choice: str | None) -> tuple[ToolChoiceKind, str | None]:
    """Return the general choice, and the tool that the model must call, or None if it may choose."""
    match choice:
        case "required" | "none" | "auto":
            return choice, None
        case _:
            return "auto", choice or None


def overflow(state: ApplicationState, action: str) -> dict[str, Any]:
    """Return the state changes that send the graph to the compressor and then back to `action`."""
    if state.compressions >= MAX_COMPRESSIONS:
        raise ContextFull(
            "The conversation does not fit into the model's window, even after a compression.",
            "Resume with a model that has a larger window: -m PROVIDER/MODEL",
        )
    return {"overflow_from": action}


@runtime_checkable
class ReadsFiles(Protocol):
    """A model that knows which files it accepts."""

    def refusal_of(self, file: AttachedFile) -> str | None:
        """Return a sentence that says why the model cannot take this file; empty if it can, None if it is not
        known.
        """
        ...


def refusal_of(model: Model, file: AttachedFile) -> str | None:
    """Return a sentence that says why a model cannot take this file; empty if it can, None if it is not
    known.
    """
    return model.refusal_of(file) if implements(model, ReadsFiles) else None


def reads(model: Model, file: AttachedFile) -> bool:
    """Return whether a model is known to accept this file."""
    return refusal_of(model, file) == ""


class WrappedModel:
    """Forwards calls to another model. A subclass overrides methods to change them."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def context_window(self) -> int:
        return self._model.context_window

    async def aclose(self) -> None:
        await self._model.aclose()

    def refusal_of(self, file: AttachedFile) -> str | None:
        """Return why the wrapped model cannot take this file; implements `ReadsFiles`."""
        return refusal_of(self._model, file)
