"""Takes the person's input: a message opens a turn, a slash command is answered at once."""

from collections.abc import Collection, Sequence
from typing import Any

from ..state.application import ApplicationState, Usage, VibeStep
from ..state.calls import Origin
from ..state.conversation.messages import (
    Message,
    UserContent,
    assistant_message,
    person_message,
    runtime_message,
)
from ..state.conversation.plan_notebook import NO_FACTS, PlanChange
from .ports import Ports
from .ports.events import MessageAdded, Notice
from .ports.message_router import RoutedMessage
from .turn.burr_action import Changes, graph_action
from .turn.calls.equipping import announce_tool_changes
from .turn.calls.tool_results import close_calls
from .turn.calls.user_command import OwnCall, propose_user_command
from .turn.commands import answer_command
from .turn.flows.flow_turn import answer_by_command, begin_flow, route_message, route_to_speaker
from .turn.plan.hints import hint_left_plan
from .turn.plan.notebook import begin_by_person, end_by_person, file_plan
from .turn.plan.step_turn import MAX_SUMMARY_CHARS, step_line, with_step
from .turn.steering import (
    STEERING_FIELDS,
    add_hub_messages,
    add_observed,
    add_steering_to_chat,
    find_person_messages,
)

_NEW_TURN: dict[str, Any] = {
    "workflow_mode": "chat",
    "phase": "idle",
    "current_goal": None,
    "vibe_plan": (),
    "approved_plan": None,
    "plan_usage": None,
    "active_step_id": None,
    "parallel_steps": (),
    "pending_tool_calls": (),
    "last_round_denied": False,
    "replans": 0,
    "overflow_from": None,
    "return_to": None,
    "bad_rounds": 0,
    "rejected_answers": 0,
    "compressions": 0,
    "turn_usage": Usage(),
    "exit_chat": False,
    "turn_open": True,
    "note": "",
    "flow": None,
    "plan_facts": NO_FACTS,
    "plan_change": None,
}


def _begin_turn(state: ApplicationState, closed: ApplicationState) -> dict[str, Any]:
    """Return the state changes of a new turn. A plan that held until now is over, and kept as an earlier one.

    `closed` is the state after the end of the last turn.
    """
    return {**_end_plan(state), **file_plan(closed)}


def _end_plan(state: ApplicationState) -> dict[str, Any]:
    """Return the changes that end a plan. An approved one is kept for the comparison with the next one."""
    over = {} if state.approved_plan is None else {"earlier_plan": state.approved_plan}
    return {**_NEW_TURN, **over}


@graph_action(
    reads=[
        "chat_history",
        "turn_open",
        "vibe_plan",
        "active_step_id",
        "parallel_steps",
        "pending_tool_calls",
        "equipment",
        "run_options",
        "graph_version",
        "hand_off",
        "hub_position",
        "current_goal",
        "approved_plan",
        "plan_facts",
        "past_plans",
        "execution_mode",
        "page",
        *STEERING_FIELDS,
    ],
    writes=[
        "chat_history",
        "user_input",
        "execution_mode",
        "equipment",
        "graph_version",
        "hand_off",
        "hub_position",
        "earlier_plan",
        "past_plans",
        "page",
        *STEERING_FIELDS,
        *_NEW_TURN,
    ],
    waits_for="message",
    proposes_calls=True,
    step_kind="message",
)
async def prompt(
    state: ApplicationState,
    ports: Ports,
    user_input: UserContent,
    noted: str = "",
    runs: Origin | None = None,
    own_call: OwnCall | None = None,
    observes: bool = False,
    hub_messages: Sequence[Message] = (),
    plan_change: PlanChange | None = None,
) -> Changes:
    """Start a turn with a message, answer a slash command, or propose a call of the person.

    `noted`: the notice of a command that has run already; the step only records it. `runs`: the origin of
    `user_input` if it is a shell command after a `!`, or describes `own_call`. `observes`: only observed
    messages are added.
    `hub_messages`: messages of a hub, which come before this one. `plan_change`: how the person changes the
    plan: the turn begins with another one, or the plan ends.
    """
    if observes:
        return await add_observed(state, ports, hub_messages)
    given_message = user_input.strip() if isinstance(user_input, str) else user_input
    if runs is not None and isinstance(given_message, str):
        closed = await _close_open_turn(state, ports)
        return {
            **_begin_turn(state, closed),
            "turn_open": False,
            "page": closed.page,
            **await propose_user_command(given_message, runs, closed, ports, own_call),
        }
    message = person_message(given_message)
    text = message.display_text
    if plan_change is not None:
        return await _change_plan(message, plan_change, state, ports)
    if noted:
        ports.emit(Notice(noted))
        return {"user_input": text}
    if isinstance(given_message, str) and given_message.startswith("/"):
        answer = answer_command(text, state, ports.router is not None)
        if answer is not None:
            ports.emit(Notice(answer.notice))
            return {"user_input": text, **answer.changes}
    # The agent that has the conversation has flows of its own.
    is_for_agent = state.hand_off is None or text.startswith("/")
    routed = await route_message(given_message, state, ports) if is_for_agent else None
    if routed is not None and routed.match.is_command:
        return await _run_command_of_flow(routed, text, state, ports)
    return await _open_turn(message, routed, state, ports, hub_messages)


async def _open_turn(
    message: Message,
    routed: RoutedMessage | None,
    state: ApplicationState,
    ports: Ports,
    hub_messages: Sequence[Message],
    plan_change: PlanChange | None = None,
) -> Changes:
    """Return the changes that begin a turn with a message, including those of a flow or of a plan."""
    text = message.display_text
    advice = None if ports.hooks is None else await ports.hooks.on_prompt(text)
    if advice is not None and advice.refusal:
        ports.emit(Notice(f"A hook refused the message: {advice.refusal}"))
        return {"user_input": ""}
    # Steering messages that the last run did not take come before this message in the history.
    ended = await _close_open_turn(state, ports)
    if hint := "" if plan_change is not None else hint_left_plan(ended, ports.toolbox):
        ended = ended.model_copy(update={"chat_history": ended.chat_history.append(runtime_message(hint))})
    closed = await add_steering_to_chat(ended, ports)
    closed = closed.model_copy(update=add_hub_messages(closed, hub_messages))
    history = closed.chat_history
    if state.run_options.instructions:
        history = history.append(runtime_message(state.run_options.instructions))
    history = history.append(message)
    if advice is not None and advice.context:
        history = history.append(runtime_message(advice.context))
    ports.emit(MessageAdded("user", text))
    if closed.equipment != state.equipment:
        announce_tool_changes(state.equipment, closed.equipment, ports)
    names = ("equipment", "inbox_taken", "hand_off", "hub_position", "page")
    kept = {name: getattr(closed, name) for name in names}
    changes = {**_begin_turn(state, ended), "user_input": text, "chat_history": history, **kept}
    if plan_change is not None:
        return {**changes, **begin_by_person(ended, plan_change, ports)}
    routed = routed or route_to_speaker(closed, ports)
    if routed is None:
        return changes
    return {**changes, **await begin_flow(routed, closed.model_copy(update=changes), ports)}


async def _change_plan(
    message: Message, change: PlanChange, state: ApplicationState, ports: Ports
) -> Changes:
    """Begin a turn with a plan, or end the plan."""
    if change.command in ("begin", "reopen"):
        return await _open_turn(message, None, state, ports, (), change)
    closed = await _close_open_turn(state, ports)
    kept = {"equipment": closed.equipment, "hand_off": closed.hand_off, "page": closed.page}
    changes = end_by_person(closed, change, ports)
    return {**_end_plan(state), **kept, "user_input": message.display_text, **changes}


async def _run_command_of_flow(
    routed: RoutedMessage, text: str, state: ApplicationState, ports: Ports
) -> Changes:
    """Close an open turn and run the slash command of a flow as if it had been typed."""
    closed = await _close_open_turn(state, ports)
    changes = {
        **_begin_turn(state, closed),
        "turn_open": False,
        "user_input": text,
        "chat_history": closed.chat_history,
        "page": closed.page,
    }
    return {**changes, **answer_by_command(routed, closed.model_copy(update=changes), ports)}


async def _close_open_turn(state: ApplicationState, ports: Ports) -> ApplicationState:
    """Close an interrupted turn: every call gets a result, and the history records the interruption."""
    if not state.turn_open and not state.pending_tool_calls:
        return state

    is_open = state.turn_open
    steps = {step.step_id for step in state.open_parallel_steps}
    state = await close_calls(state, ports)
    if not is_open:
        return state  # The person's own shell command was interrupted.
    if steps:
        return _close_parallel_steps(state, steps)
    step = state.active_step
    note = "(interrupted before an answer)"
    if step is not None:
        note = f"Step {step.step_id} interrupted: {step.description}{_quote_partial_answer(step)}"
        stopped = step.model_copy(update={"status": "failed", "analysis": "interrupted"})
        state = state.model_copy(update={"vibe_plan": with_step(state, stopped)})
    messages = () if step is None else find_person_messages(step)
    history = state.chat_history.append(*messages, assistant_message(note, "runtime"))
    return state.model_copy(update={"chat_history": history})


def _close_parallel_steps(state: ApplicationState, steps: Collection[str]) -> ApplicationState:
    """Record how each of the steps that ran side by side ended; each has its result already."""
    lines = [step_line(step) for step in state.vibe_plan if step.step_id in steps]
    notes = [assistant_message(line, "runtime") for line in (*lines, "(interrupted before an answer)")]
    return state.model_copy(update={"chat_history": state.chat_history.append(*notes)})


def _quote_partial_answer(step: VibeStep) -> str:
    """Return the text that the model had written when the step was interrupted, or an empty text."""
    history = list(step.chat_history)
    if not history or not history[-1].is_cut_mark:
        return ""

    text = history[-2].text
    return f"\nIt had said so far: {text[:MAX_SUMMARY_CHARS]}"
