"""Makes a model call inside a plan step, for the first turn and for later turns."""

from ....state.application import ApplicationState, VibeStep
from ....state.conversation.messages import Message, assistant_message
from ...ports import Ports, Reply
from ...ports.events import MessageAdded, ToolRequested
from ..burr_action import Changes
from ..calls.proposals import answer_all, count_bad_rounds, make_ids_unique, propose, record_wishes
from ..model_call import CALL_READS, CutReply, KeptReply, apply_reply, ask, overflow
from ..session_page import show_page
from ..steering import STEERING_FIELDS, take_steering
from .approved import find_last_number
from .decision_tools import FINISH_STEP, FinishStep, find_decision

STEP_READS = ["vibe_plan", "approved_plan", "chat_history", "execution_mode", *CALL_READS, *STEERING_FIELDS]
MAX_SUMMARY_CHARS = 4000
STEP_WRITES = ["vibe_plan", "active_step_id", "pending_tool_calls", "bad_rounds", *STEERING_FIELDS]

_RECORDED = "The step is closed."


async def take_turn(
    before: ApplicationState,
    ports: Ports,
    step: VibeStep,
    action: str,
    cut: CutReply = (),
    kept: KeptReply = None,
) -> Changes:
    """Return the state changes of one turn in a step, or those of `overflow` if the request does not fit."""
    history, newest = await take_steering(before, ports, step.chat_history, step.step_id, bool(cut))
    history = show_page(before, history, (before.chat_history,))
    step = step.model_copy(update={"chat_history": history})
    taken: Changes = {"active_step_id": step.step_id, "inbox_taken": newest}
    if cut:
        ports.emit(MessageAdded("assistant", cut[0].text, step.step_id))
        longer = step.model_copy(update={"chat_history": step.chat_history.append(*cut)})
        return {"vibe_plan": with_step(before, longer), **taken}
    histories = (before.chat_history, step.chat_history)
    reply = await ask(before, ports, histories, kept=kept)
    if reply is None:
        return overflow(before, action)
    message = make_ids_unique(reply.message, ports)
    changes = await _judge(before, ports, step, reply, message)
    await record_wishes(message, changes["pending_tool_calls"], ports)
    if message.text:
        ports.emit(MessageAdded("assistant", message.display_text, step.step_id))
    for call in changes["pending_tool_calls"]:
        ports.emit(ToolRequested(call.call_id, call.tool, call.arguments, step.step_id))
    return {**apply_reply(before, ports, histories, reply), **changes, **taken}


async def _judge(
    before: ApplicationState, ports: Ports, step: VibeStep, reply: Reply, message: Message
) -> Changes:
    """Return the state changes of a reply: the step ends, or calls become pending."""
    finish = _finish_of(reply, message)
    if finish is not None:
        answers = {use.call_id: _RECORDED for use in message.tool_uses}
        history = step.chat_history.append(message, *answer_all(message, answers, ""))
        closed = step.model_copy(
            update={"chat_history": history, "status": finish.status, "analysis": finish.summary}
        )
        return {"vibe_plan": with_step(before, closed), "pending_tool_calls": (), "bad_rounds": 0}
    pending = await propose(message.tool_uses, reply, ports, before, FINISH_STEP)
    going_on = step.model_copy(update={"chat_history": step.chat_history.append(message)})
    return {
        "vibe_plan": with_step(before, going_on),
        "pending_tool_calls": pending,
        "bad_rounds": count_bad_rounds(before, pending),
    }


def _finish_of(reply: Reply, message: Message) -> FinishStep | None:
    """Return how the step ends, by a call of the decision tool alone or by a text answer; None if it does not
    end.
    """
    if not message.tool_uses:
        status = "failed" if reply.finish == "refusal" else "completed"
        return FinishStep(status=status, summary=message.text.strip() or "No summary was given.")
    if len(message.tool_uses) > 1 or reply.finish == "length":
        return None
    found = find_decision(message, FINISH_STEP, FinishStep)
    return found[1] if found is not None else None


def end_step_of_parent(state: ApplicationState, reply: Reply, message: Message) -> FinishStep | None:
    """Return how a call of the decision tool ends the run of a session that works on a step of its parent.

    None: the session has no such step, or the reply is another one.
    """
    return _finish_of(reply, message) if state.run_options.step and message.tool_uses else None


def close_turn_of_step(state: ApplicationState, message: Message, finish: FinishStep) -> Changes:
    """Return the state changes that end the turn with the summary of the step as its answer.

    The plan of the session gets the step, so that the run ends as one whose step failed or is completed.
    """
    started = tuple(step for step in state.vibe_plan if step.status != "pending")
    step = VibeStep(
        step_id=str(find_last_number(started) + 1),
        description=state.run_options.step,
        status=finish.status,
        analysis=finish.summary,
    )
    answers = {use.call_id: _RECORDED for use in message.tool_uses}
    answered = state.chat_history.append(message, *answer_all(message, answers, ""))
    return {
        "chat_history": answered.append(assistant_message(finish.summary, "runtime")),
        "vibe_plan": (*started, step),
        "turn_open": False,
        "phase": "idle",
        "bad_rounds": 0,
    }


def step_line(step: VibeStep) -> str:
    """Return the line about an ended step that the global history gets."""
    summary = " ".join(step.analysis.split())[:MAX_SUMMARY_CHARS]
    return f"Step {step.step_id} {step.status}: {summary}"


def with_step(state: ApplicationState, step: VibeStep) -> tuple[VibeStep, ...]:
    """Return the plan in which `step` replaces the step with the same id."""
    return tuple(step if old.step_id == step.step_id else old for old in state.vibe_plan)
