"""Asks the model to split the goal into plan steps, and to revise the pending steps after a step failed."""

from ..state.application import ApplicationState, VibeStep
from ..state.conversation.messages import Message, runtime_message
from ..state.conversation.transcript import Transcript
from .ports import Ports, Reply
from .ports.events import MessageAdded, PlanChanged
from .turn.burr_action import Changes, graph_action
from .turn.calls.proposals import answer_all, make_ids_unique, record_wishes
from .turn.model_call import CALL_READS, REPLY_FIELDS, CutReply, KeptReply, apply_reply, ask, overflow
from .turn.plan.approved import find_last_number, name_steps_before
from .turn.plan.decision_tools import (
    PLAN_FINISHED,
    SUBMIT_PLAN,
    PlannedStep,
    SubmitPlan,
    find_decision,
    steps_from_text,
    why_unusable,
)
from .turn.session_page import show_page_in_chat
from .turn.steering import STEERING_FIELDS, add_steering_to_chat

MAX_TRIES = 3
_ACCEPTED = "The plan is accepted; its steps are worked through one by one."
_PLEASE = f"No plan was found in this. Call {SUBMIT_PLAN.name} with the steps."


@graph_action(
    reads=["chat_history", "current_goal", "vibe_plan", *CALL_READS, *STEERING_FIELDS],
    writes=["chat_history", "vibe_plan", "phase", "bad_rounds", *REPLY_FIELDS, *STEERING_FIELDS],
    asks_model="turn",
    step_kind="plan",
    stop_note="It stopped while the model was planning.",
)
async def vibe_planner(
    state: ApplicationState, ports: Ports, cut: CutReply = (), kept: KeptReply = None
) -> Changes:
    """Ask the model for the steps that still have to be done."""
    state = show_page_in_chat(await add_steering_to_chat(state, ports, bool(cut)))
    taken: Changes = {"inbox_taken": state.inbox_taken}
    if cut:
        ports.emit(MessageAdded("assistant", cut[0].text))
        return {"chat_history": state.chat_history.append(*cut), **taken}
    histories = (state.chat_history,)
    reply = await ask(state, ports, histories, SUBMIT_PLAN.name, kept=kept)
    if reply is None:
        return overflow(state, "vibe_planner")
    message = make_ids_unique(reply.message, ports)
    changes = _plan_steps(state, reply, message)
    await record_wishes(message, (), ports)
    if "vibe_plan" in changes:
        ports.emit(PlanChanged(changes["vibe_plan"]))
    return {**apply_reply(state, ports, histories, reply), **changes, **taken}


def _plan_steps(before: ApplicationState, reply: Reply, message: Message) -> Changes:
    """Return the state changes for the new plan, or those that ask the model again for a usable plan."""
    history = before.chat_history.append(message)
    steps, accepted = _read_plan(message) if reply.finish != "length" else ([], {})
    is_revision = any(step.status != "pending" for step in before.vibe_plan)
    tries = before.bad_rounds + 1
    if not steps and not (is_revision and accepted):
        if tries < MAX_TRIES:
            return {"chat_history": _ask_again(history, message), "bad_rounds": tries}
        steps = [PlannedStep(description=before.current_goal or message.text or "Do what the user asked.")]
    history = history.append(*answer_all(message, accepted, "Not run: only a plan was requested."))
    started = tuple(step for step in before.vibe_plan if step.status != "pending")
    last = find_last_number(started)
    added = tuple(
        VibeStep(
            step_id=str(last + number),
            description=step.description,
            after=name_steps_before(step.after, last),
        )
        for number, step in enumerate(steps, 1)
    )
    changes: Changes = {"vibe_plan": (*started, *added), "bad_rounds": 0}
    if added:
        return {**changes, "chat_history": history, "phase": "working"}
    return {**changes, "chat_history": history.append(runtime_message(PLAN_FINISHED)), "phase": "answering"}


def _read_plan(message: Message) -> tuple[list[PlannedStep], dict[str, str]]:
    """Return the steps of a plan, and the results of the calls that submitted the plan, by call id."""
    found = find_decision(message, SUBMIT_PLAN, SubmitPlan)
    if found is not None:
        use, plan = found
        return plan.steps, {use.call_id: _ACCEPTED}
    return steps_from_text(message.text), {}


def _ask_again(history: Transcript, message: Message) -> Transcript:
    problem = next(
        (why_unusable(use, SUBMIT_PLAN) for use in message.tool_uses if use.tool == SUBMIT_PLAN.name), _PLEASE
    )
    if message.tool_uses:
        return history.append(*answer_all(message, {}, problem))
    return history.append(runtime_message(problem))
