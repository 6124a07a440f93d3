"""What takes the place of damaged messages, so that a history stays one that every provider accepts."""

from collections.abc import Sequence

from state.calls import PendingCall
from state.messages import Message, ToolResult, ToolUse, assistant_said, runtime_said, tool_answered

_TEXT = "(A record of this session was damaged on disk. What stood here is lost.)"


def filled(
    messages: Sequence[Message | None], before: Sequence[Message], pending: Sequence[PendingCall]
) -> list[Message]:
    """Return `messages` with a stand-in for each None.

    `before` is what precedes them, `pending` the calls that the last of them asks for.
    """
    whole = list(before)
    for place, message in enumerate(messages):
        is_last = place == len(messages) - 1
        if message is not None:
            whole.append(message)
        elif is_last and pending:
            whole.append(_asking([(call.call_id, call.tool) for call in pending]))
        else:
            whole.append(_stand_in(whole, messages[place + 1 :]))
    return whole[len(before) :]


def is_stand_in(message: Message | None) -> bool:
    """Tell whether a message that asks for calls is not the model's own."""
    return message is not None and message.origin == "runtime" and bool(message.tool_uses)


def _stand_in(before: Sequence[Message], after: Sequence[Message | None]) -> Message:
    unanswered = _unanswered(before)
    answered = {result.call_id for result in _leading_results(after)}
    missing = [use for use in unanswered if use.call_id not in answered]
    if missing:
        return _lost_result(missing[0])
    asked = {use.call_id for use in unanswered}
    orphans = [result for result in _leading_results(after) if result.call_id not in asked]
    if orphans:
        return _asking([(result.call_id, result.tool) for result in orphans])
    if before and before[-1].role == "user":
        return assistant_said(_TEXT, "runtime")
    return runtime_said(_TEXT)


def _unanswered(before: Sequence[Message]) -> list[ToolUse]:
    """Return the calls of the newest model message that have no result yet."""
    done: set[str] = set()
    for message in reversed(before):
        if message.role != "tool":
            return [use for use in message.tool_uses if use.call_id not in done]
        done |= {block.call_id for block in message.blocks if isinstance(block, ToolResult)}
    return []


def _leading_results(after: Sequence[Message | None]) -> list[ToolResult]:
    """Return the results that follow directly; other damaged messages may stand between them."""
    found: list[ToolResult] = []
    for message in after:
        if message is None:
            continue
        if message.role != "tool":
            break
        found += [block for block in message.blocks if isinstance(block, ToolResult)]
    return found


def _asking(calls: Sequence[tuple[str, str]]) -> Message:
    uses = tuple(ToolUse(call_id=call_id, tool=tool, arguments="{}") for call_id, tool in calls)
    return Message(role="assistant", origin="runtime", blocks=uses)


def _lost_result(use: ToolUse) -> Message:
    content = "The record of this result was damaged on disk. Verify the effect before you repeat the call."
    return tool_answered(ToolResult(call_id=use.call_id, tool=use.tool, outcome="unknown", content=content))
