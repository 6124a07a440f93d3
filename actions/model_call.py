"""One model call of an action: does it fit, what streams in, what it cost."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from actions.events import Event, TextDelta, UsageChanged
from actions.model_port import ModelRequest, Reply
from actions.model_trace import traced
from actions.ports import Ports
from state.application import ApplicationState
from state.crashpoints import reach
from state.errors import ContextFull, ModelError
from state.transcript import Transcript

MAX_COMPRESSIONS = 2
MAX_BAD_ROUNDS = 5
_LEARNED_RANGE = (0.05, 1.0)


async def converse(
    state: ApplicationState,
    ports: Ports,
    histories: tuple[Transcript, ...],
    forced_tool: str | None = None,
) -> AsyncIterator[Event | Reply]:
    """Yield what streams in, then the reply; no reply at all means that the request does not fit."""
    if state.bad_rounds >= MAX_BAD_ROUNDS:
        raise ModelError(
            f"The model sent unusable tool calls {state.bad_rounds} times in a row.",
            "Resume to try again, perhaps with another model.",
        )
    if not _fits(state, ports, histories):
        return
    request = ModelRequest(ports.system, ports.tool_specs, histories, forced_tool)
    step_id = state.active_step_id
    reach("request_before_send")
    try:
        async for item in traced(ports, request):
            if isinstance(item, Reply):
                reach("reply_before_commit")
                yield UsageChanged(state.turn_usage + item.usage, item.usage)
                yield item
            elif isinstance(item, TextDelta):
                reach("stream_mid")
                yield replace(item, step_id=step_id)
            else:
                yield item
    except ContextFull:
        return


def _fits(state: ApplicationState, ports: Ports, histories: tuple[Transcript, ...]) -> bool:
    """Tell whether the request is expected to stay below the used share of the model's window.

    Behind a compression that is not estimated but tried: estimates can be wrong for ever.
    """
    if state.compressions:
        return True
    sent_bytes = ports.fixed_bytes + sum(history.size_bytes for history in histories)
    return sent_bytes * state.tokens_per_byte <= ports.model.context_window * ports.compress_at


def replied(
    state: ApplicationState, ports: Ports, histories: tuple[Transcript, ...], reply: Reply
) -> dict[str, Any]:
    """Return the state changes that every reply brings: usage, and what it teaches about tokens."""
    learned = state.tokens_per_byte
    if reply.usage.input_tokens:
        low, high = _LEARNED_RANGE
        sent_bytes = ports.fixed_bytes + sum(history.size_bytes for history in histories)
        learned = min(high, max(low, reply.usage.input_tokens / sent_bytes))
    return {
        "usage": state.usage + reply.usage,
        "turn_usage": state.turn_usage + reply.usage,
        "tokens_per_byte": learned,
        "compressions": 0,
    }


CALL_READS = ["usage", "turn_usage", "tokens_per_byte", "compressions", "active_step_id", "bad_rounds"]
"""What `converse` and `replied` read."""
REPLIED_FIELDS = ["usage", "turn_usage", "tokens_per_byte", "compressions", "overflow_from"]
"""What `replied` and `overflow` write."""


def overflow(state: ApplicationState, action: str) -> dict[str, Any]:
    """Return the state changes that send the graph to the compressor and then back to `action`."""
    if state.compressions >= MAX_COMPRESSIONS:
        raise ContextFull(
            "The conversation does not fit into the model's window, even after compressing it.",
            "Resume with a model that has a larger window: -m PROVIDER/MODEL",
        )
    return {"overflow_from": action}
