"""Makes the model call that begins a turn: the reply is an answer, tool calls or a plan."""

from collections.abc import Sequence

from ..state.application import ApplicationState
from ..state.calls import PendingCall
from ..state.conversation.messages import Message
from .ports import Ports, Reply
from .ports.events import MessageAdded, Notice, ToolRequested
from .turn.burr_action import Changes, graph_action
from .turn.calls.proposals import answer_all, count_bad_rounds, make_ids_unique, propose, record_wishes
from .turn.model_call import CALL_READS, REPLY_FIELDS, CutReply, KeptReply, apply_reply, ask, overflow
from .turn.output.answer_check import (
    Closing,
    check_answer,
    find_output_format,
    find_repair_tool,
    is_free,
    refuse_further_tries,
)
from .turn.output.format import OutputFormat
from .turn.plan.decision_tools import START_PLAN, SUBMIT_PLAN, StartPlan, find_decision
from .turn.plan.step_turn import close_turn_of_step, end_step_of_parent
from .turn.run_end import ask_hooks_to_continue, rewrite_answer
from .turn.session_page import show_page_in_chat
from .turn.steering import STEERING_FIELDS, add_steering_to_chat
from .turn.tool_choice import refuse_calls, use_up_tool_choice

_PLAN_STARTED = f"A plan is made first. Now call {SUBMIT_PLAN.name} with its steps."
_NOT_RUN = "Not run: a plan is made first."
_WRITES = [
    "chat_history",
    "workflow_mode",
    "phase",
    "current_goal",
    "pending_tool_calls",
    "turn_open",
    "vibe_plan",
]


@graph_action(
    reads=[
        "chat_history",
        "execution_mode",
        "phase",
        "workflow_mode",
        "rejected_answers",
        "run_options",
        "graph_version",
        "vibe_plan",
        "approved_plan",
        "earlier_plan",
        *CALL_READS,
        *STEERING_FIELDS,
    ],
    writes=[
        *_WRITES,
        *REPLY_FIELDS,
        *STEERING_FIELDS,
        "bad_rounds",
        "rejected_answers",
        "run_options",
        "graph_version",
    ],
    asks_model="turn",
    proposes_calls=True,
    stop_note="It stopped while the model was answering.",
)
async def router(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Ask the model what to do with the newest message or results."""
    state = show_page_in_chat(await add_steering_to_chat(state, ports, bool(cut)))
    taken: Changes = {"inbox_taken": state.inbox_taken}
    if cut:
        ports.emit(MessageAdded("assistant", cut[0].text))
        return {"chat_history": state.chat_history.append(*cut), **taken}
    histories = (state.chat_history,)
    forced, output = _find_required_form(state, ports)
    reply = await ask(state, ports, histories, forced or state.run_options.tool_choice, output, kept)
    if reply is None:
        return overflow(state, "router")
    message = await rewrite_answer(reply, _with_unique_ids(reply.message, ports), ports)
    closed = None if is_free(state, ports) else await _close_turn(state, ports, reply, message)
    changes = await _route(state, ports, reply, message) if closed is None else closed.changes
    changes |= use_up_tool_choice(state, message)
    pending: tuple[PendingCall, ...] = changes.get("pending_tool_calls", ())
    await _record_wishes(message, pending, ports)
    if message.text:
        ports.emit(MessageAdded("assistant", message.display_text))
    if reply.finish == "length" and not message.tool_uses:
        ports.emit(Notice("The answer was cut at the model's output limit.", "truncation"))
    if reply.finish == "refusal":
        ports.emit(Notice("The model refused to answer.", "refusal"))
    if closed is not None and closed.notice:
        ports.emit(Notice(closed.notice))
    if closed is not None and closed.answer:
        ports.emit(MessageAdded("assistant", closed.answer))
    for call in pending:
        ports.emit(ToolRequested(call.call_id, call.tool, call.arguments))
    return {**apply_reply(state, ports, histories, reply), **changes, **taken}


def _with_unique_ids(message: Message, ports: Ports) -> Message:
    if not message.tool_uses:
        return message

    return make_ids_unique(message, ports)


async def _record_wishes(message: Message, pending: Sequence[PendingCall], ports: Ports) -> None:
    if message.tool_uses:
        await record_wishes(message, pending, ports)


def _find_required_form(state: ApplicationState, ports: Ports) -> tuple[str | None, OutputFormat | None]:
    """Return the tool that the model must call now, and the format that a text answer must have."""
    if is_free(state, ports):
        return None, None

    refuse_further_tries(state, ports)
    return find_repair_tool(state, ports), find_output_format(state, ports)


async def _close_turn(
    before: ApplicationState, ports: Ports, reply: Reply, message: Message
) -> Closing | None:
    """Check the answer in a reply if the run requires a format or the done tool; otherwise return None."""
    closed = await check_answer(before, ports, reply, message)
    if closed is None or closed.held is None:
        return closed
    more = await _find_continuation(before, ports, closed.answer or message.text)
    if more is None:
        return closed
    return closed._replace(changes={"chat_history": closed.held.append(more), "bad_rounds": 0}, answer="")


async def _find_continuation(state: ApplicationState, ports: Ports, answer: str) -> Message | None:
    """Return the message with which a hook continues the turn, or None if the turn ends."""
    if ports.hooks is None:
        return None

    return await ask_hooks_to_continue(state, ports, answer)


async def _route(before: ApplicationState, ports: Ports, reply: Reply, message: Message) -> Changes:
    """Return the state changes for a reply: an answer, tool calls or a plan."""
    history = before.chat_history.append(message)
    if not message.tool_uses:
        if reply.finish == "stop" and (more := await _find_continuation(before, ports, message.text)):
            return {"chat_history": history.append(more), "bad_rounds": 0}
        return {"chat_history": history, "turn_open": False, "phase": "idle", "bad_rounds": 0}

    if (refused := refuse_calls(before, message)) is not None:
        return refused
    if (finish := end_step_of_parent(before, reply, message)) is not None:
        closed = close_turn_of_step(before, message, finish)
        more = await _find_continuation(before, ports, finish.summary)
        if more is None:
            ports.emit(MessageAdded("assistant", finish.summary))
            return closed
        return {"chat_history": closed["chat_history"].append(more), "bad_rounds": 0}
    may_plan = ports.turn.has_planning and before.phase == "idle" and reply.finish != "length"
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
    pending = await propose(message.tool_uses, reply, ports, before, decision)
    return {
        "chat_history": history,
        "workflow_mode": "vibe" if before.workflow_mode == "vibe" else "ops",
        "pending_tool_calls": pending,
        "bad_rounds": count_bad_rounds(before, pending),
    }
