"""How a tool ends the run: its result says so, whoever reads it, so that a resume ends it as well."""

from collections.abc import Mapping

from ...state.application import ENDED_BY_TOOL, ApplicationState
from ...state.messages import ToolResult, assistant_said
from ..events import MessageAdded, Notice, PlanChanged, StepChanged
from ..ports import Ports
from .burr_action import Changes
from .steering import heard_in
from .step_turn import step_line, with_step

NOT_RUN = "Not run: {tool} has ended the run."


def ending(results: Mapping[int, ToolResult]) -> ToolResult | None:
    """Return the result that ends the run: of those of one reply that would, the first."""
    return next((results[place] for place in sorted(results) if results[place].ends_run is not None), None)


def ended(state: ApplicationState, ports: Ports, answer: str) -> Changes:
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
        history = history.append(*heard_in(step), assistant_said(step_line(closed), "runtime"))
        # Its history stays loaded: the last results in it are not on disk yet.
        plan = tuple(one for one in with_step(state, closed) if one.status != "pending")
        changes |= {"vibe_plan": plan, "active_step_id": None}
        ports.emit(MessageAdded("assistant", step_line(closed)))
        ports.emit(StepChanged(closed.step_id, closed.status, answer))
        if len(plan) < len(state.vibe_plan):
            ports.emit(Notice("The run ends here: the steps that are left are not started."))
            ports.emit(PlanChanged(plan))
    ports.emit(MessageAdded("assistant", answer))
    return {**changes, "chat_history": history.append(assistant_said(answer, "runtime"))}
