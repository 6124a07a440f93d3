"""The one model call that both decides and does: an answer, tool calls, or a plan."""

from typing import Any

from actions.decisions import START_PLAN, StartPlan, find_decision, why_unusable
from actions.events import Event, MessageAdded, Notice, ToolRequested
from actions.model_call import CALL_READS, REPLIED_FIELDS, converse, overflow, replied
from actions.model_port import Reply
from actions.ports import Ports
from actions.proposals import answer_all, count_bad_rounds, propose, record_wishes, with_unique_ids
from actions.stream import AppState, Stream, done, graph_action, show
from state.application import ApplicationState
from state.calls import PendingCall
from state.messages import Message, ToolUse

_PLAN_STARTED = "A plan is made first. Now call submit_plan with its steps."
_NOT_RUN = "Not run: a plan is made first."
_WRITES = ["chat_history", "workflow_mode", "phase", "current_goal", "pending_tool_calls", "turn_open"]


@graph_action(
    reads=["chat_history", "execution_mode", "phase", "workflow_mode", *CALL_READS],
    writes=[*_WRITES, *REPLIED_FIELDS, "bad_rounds"],
)
async def router(state: AppState, ports: Ports) -> Stream:
    """Ask the model what to do with the newest message or results."""
    before = state.data
    histories = (before.chat_history,)
    reply: Reply | None = None
    async for item in converse(before, ports, histories):
        if isinstance(item, Reply):
            reply = item
        else:
            yield show(item)
    if reply is None:
        yield done(state, **overflow(before, "router"))
        return
    message = with_unique_ids(reply.message, ports)
    changes = _route(before, ports, reply, message)
    await record_wishes(message, changes.get("pending_tool_calls", ()), ports)
    for event in _events(reply, message, changes):
        yield show(event)
    yield done(state, **replied(before, ports, histories, reply), **changes)


def _route(before: ApplicationState, ports: Ports, reply: Reply, message: Message) -> dict[str, Any]:
    """Return the state changes of the reply: chat, ops or vibe."""
    history = before.chat_history.append(message)
    if not message.tool_uses:
        return {"chat_history": history, "turn_open": False, "phase": "idle", "bad_rounds": 0}
    may_plan = before.phase == "idle" and reply.finish != "length"
    found = find_decision(message, START_PLAN, StartPlan) if may_plan else None
    if found is not None:
        use, start = found
        return {
            "chat_history": history.append(*answer_all(message, {use.call_id: _PLAN_STARTED}, _NOT_RUN)),
            "workflow_mode": "vibe",
            "phase": "planning",
            "current_goal": start.goal,
            "bad_rounds": 0,
        }

    def misplaced(use: ToolUse) -> str:
        return why_unusable(use, START_PLAN if may_plan else None)

    pending = propose(message.tool_uses, reply, ports, before.execution_mode, misplaced)
    return {
        "chat_history": history,
        "workflow_mode": "vibe" if before.workflow_mode == "vibe" else "ops",
        "pending_tool_calls": pending,
        "bad_rounds": count_bad_rounds(before, pending),
    }


def _events(reply: Reply, message: Message, changes: dict[str, Any]) -> list[Event]:
    events: list[Event] = []
    if message.text:
        events.append(MessageAdded("assistant", message.text))
    if reply.finish == "length" and not message.tool_uses:
        events.append(Notice("The answer was cut at the model's output limit."))
    if reply.finish == "refusal":
        events.append(Notice("The model refused to answer."))
    pending: tuple[PendingCall, ...] = changes.get("pending_tool_calls", ())
    return [*events, *(ToolRequested(call.call_id, call.tool, call.arguments) for call in pending)]
