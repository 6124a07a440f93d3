"""The one model call that both decides and does: an answer, tool calls, or a plan."""

from ..state.application import ApplicationState
from ..state.calls import PendingCall
from ..state.messages import Message
from .events import MessageAdded, Notice, ToolRequested
from .ports import Ports, Reply
from .turn.burr_action import Changes, graph_action
from .turn.decision_tools import START_PLAN, StartPlan, find_decision
from .turn.model_call import CALL_READS, REPLIED_FIELDS, Cut, ask, overflow, replied
from .turn.proposals import answer_all, count_bad_rounds, propose, record_wishes, with_unique_ids

_PLAN_STARTED = "A plan is made first. Now call submit_plan with its steps."
_NOT_RUN = "Not run: a plan is made first."
_WRITES = ["chat_history", "workflow_mode", "phase", "current_goal", "pending_tool_calls", "turn_open"]


@graph_action(
    reads=["chat_history", "execution_mode", "phase", "workflow_mode", *CALL_READS],
    writes=[*_WRITES, *REPLIED_FIELDS, "bad_rounds"],
)
async def router(state: ApplicationState, ports: Ports, cut: Cut = ()) -> Changes:
    """Ask the model what to do with the newest message or results."""
    if cut:
        ports.emit(MessageAdded("assistant", cut[0].text))
        return {"chat_history": state.chat_history.append(*cut)}
    histories = (state.chat_history,)
    reply = await ask(state, ports, histories)
    if reply is None:
        return overflow(state, "router")
    message = with_unique_ids(reply.message, ports)
    changes = _route(state, ports, reply, message)
    pending: tuple[PendingCall, ...] = changes.get("pending_tool_calls", ())
    await record_wishes(message, pending, ports)
    if message.text:
        ports.emit(MessageAdded("assistant", message.text))
    if reply.finish == "length" and not message.tool_uses:
        ports.emit(Notice("The answer was cut at the model's output limit.", "truncation"))
    if reply.finish == "refusal":
        ports.emit(Notice("The model refused to answer.", "refusal"))
    for call in pending:
        ports.emit(ToolRequested(call.call_id, call.tool, call.arguments))
    return {**replied(state, ports, histories, reply), **changes}


def _route(before: ApplicationState, ports: Ports, reply: Reply, message: Message) -> Changes:
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
    decision = START_PLAN if may_plan else None
    pending = propose(message.tool_uses, reply, ports, before.execution_mode, decision)
    return {
        "chat_history": history,
        "workflow_mode": "vibe" if before.workflow_mode == "vibe" else "ops",
        "pending_tool_calls": pending,
        "bad_rounds": count_bad_rounds(before, pending),
    }
