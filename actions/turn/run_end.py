"""How a turn ends, unless a hook lets it go on, and how a tool ends the run: its result says so, whoever
reads it, so that a resume ends it as well.
"""

import itertools
from collections.abc import Mapping

from ...state.application import ENDED_BY_TOOL, ApplicationState
from ...state.conversation.messages import Message, ToolResult, assistant_message, runtime_message
from ..ports import Ports
from ..ports.events import MessageAdded, Notice, PlanChanged, StepChanged
from .burr_action import Changes
from .steering import find_person_messages
from .step_turn import step_line, with_step

NOT_RUN = "Not run: {tool} has ended the run."

_GO_ON = "[The turn is not over: a hook of the user says why.]\n"


async def ask_hooks_to_continue(state: ApplicationState, ports: Ports, answer: str) -> Message | None:
    """Ask the hooks about an answer; return what the model is told if the turn is to go on, which is once."""
    if ports.hooks is None:
        return None
    turn = itertools.takewhile(lambda said: said.origin != "person", reversed(state.chat_history))
    step = () if state.active_step is None else state.active_step.chat_history
    told = (said for said in itertools.chain(turn, step) if said.origin == "runtime")
    is_second = any(said.text.startswith(_GO_ON) for said in told)
    reason = await ports.hooks.on_answer(answer, is_second)
    if is_second or not reason:
        return None
    ports.emit(Notice(f"A hook lets the turn go on: {reason}"))
    return runtime_message(f"{_GO_ON}{reason}")


def find_ending_result(results: Mapping[int, ToolResult]) -> ToolResult | None:
    """Return the result that ends the run: of those of one reply that would, the first."""
    return next((results[place] for place in sorted(results) if results[place].ends_run is not None), None)


def end_turn(state: ApplicationState, ports: Ports, answer: str) -> Changes:
    """Return the changes that close the turn with this answer; every call has its result already.

    A plan step ends with it as its summary, and the steps behind it are not started any more.
    """
    history = state.chat_history
    changes: Changes = {
        "turn_open": False,
        "phase": "idle",
        "graph_version": max(state.graph_version, ENDED_BY_TOOL),
    }
    step = state.active_step
    if step is not None:
        closed = step.model_copy(update={"status": "completed", "analysis": answer})
        history = history.append(*find_person_messages(step), assistant_message(step_line(closed), "runtime"))
        # Its history stays loaded: the last results in it are not on disk yet.
        plan = tuple(one for one in with_step(state, closed) if one.status != "pending")
        changes |= {"vibe_plan": plan, "active_step_id": None}
        ports.emit(MessageAdded("assistant", step_line(closed)))
        ports.emit(StepChanged(closed.step_id, closed.status, answer))
        if len(plan) < len(state.vibe_plan):
            ports.emit(Notice("The run ends here: the steps that are left are not started."))
            ports.emit(PlanChanged(plan))
    ports.emit(MessageAdded("assistant", answer))
    return {**changes, "chat_history": history.append(assistant_message(answer, "runtime"))}
