"""A model call inside a plan step, as the step's first and as its further turns make it."""

from collections.abc import AsyncIterator
from typing import Any

from actions.decisions import FINISH_STEP, FinishStep, find_decision, why_unusable
from actions.events import Event, MessageAdded, ToolRequested
from actions.model_call import CALL_READS, converse, replied
from actions.model_port import Reply
from actions.ports import Ports
from actions.proposals import answer_all, count_bad_rounds, propose, record_wishes, with_unique_ids
from state.application import ApplicationState
from state.messages import Message, ToolUse
from state.plan import VibeStep

STEP_READS = ["vibe_plan", "chat_history", "execution_mode", *CALL_READS]
STEP_WRITES = ["vibe_plan", "active_step_id", "pending_tool_calls", "bad_rounds"]

_RECORDED = "The step is closed."


async def take_turn(
    before: ApplicationState, ports: Ports, step: VibeStep
) -> AsyncIterator[Event | dict[str, Any]]:
    """Yield events, then the state changes; no changes at all means that the request does not fit."""
    histories = (before.chat_history, step.chat_history)
    reply: Reply | None = None
    async for item in converse(before, ports, histories):
        if isinstance(item, Reply):
            reply = item
        else:
            yield item
    if reply is None:
        return
    message = with_unique_ids(reply.message, ports)
    changes = _judge(before, ports, step, reply, message)
    await record_wishes(message, changes["pending_tool_calls"], ports)
    if message.text:
        yield MessageAdded("assistant", message.text, step.step_id)
    for call in changes["pending_tool_calls"]:
        yield ToolRequested(call.call_id, call.tool, call.arguments, step.step_id)
    yield {**replied(before, ports, histories, reply), **changes, "active_step_id": step.step_id}


def _judge(
    before: ApplicationState, ports: Ports, step: VibeStep, reply: Reply, message: Message
) -> dict[str, Any]:
    """Return the state changes of the reply: the step is closed, or more calls are wanted."""
    finish = _finish_of(reply, message)
    if finish is not None:
        answers = {use.call_id: _RECORDED for use in message.tool_uses}
        history = step.chat_history.append(message, *answer_all(message, answers, ""))
        closed = step.model_copy(
            update={"chat_history": history, "status": finish.status, "analysis": finish.summary}
        )
        return {"vibe_plan": with_step(before, closed), "pending_tool_calls": (), "bad_rounds": 0}

    def misplaced(use: ToolUse) -> str:
        return why_unusable(use, FINISH_STEP)

    pending = propose(message.tool_uses, reply, ports, before.execution_mode, misplaced)
    going_on = step.model_copy(update={"chat_history": step.chat_history.append(message)})
    return {
        "vibe_plan": with_step(before, going_on),
        "pending_tool_calls": pending,
        "bad_rounds": count_bad_rounds(before, pending),
    }


def _finish_of(reply: Reply, message: Message) -> FinishStep | None:
    """Return how the step ends, if it ends: by `finish_step` alone, or by an answer in words."""
    if not message.tool_uses:
        status = "failed" if reply.finish == "refusal" else "completed"
        return FinishStep(status=status, summary=message.text.strip() or "No summary was given.")
    if len(message.tool_uses) > 1 or reply.finish == "length":
        return None
    found = find_decision(message, FINISH_STEP, FinishStep)
    return found[1] if found is not None else None


def with_step(state: ApplicationState, step: VibeStep) -> tuple[VibeStep, ...]:
    """Return the plan with the step of this id replaced."""
    return tuple(step if old.step_id == step.step_id else old for old in state.vibe_plan)
