"""What is left of a state where words may differ: tools asked for, outcomes, where the work stands."""

from typing import Any

from agent.replay.comparison import Difference, between
from agent.replay.states import Values
from state.application import ApplicationState
from state.messages import ToolResult
from state.transcript import Transcript

_PLAIN = ("workflow_mode", "execution_mode", "phase", "active_step_id", "turn_open", "last_round_denied")


def loose_differences(before: Values, recorded: Values, today: Values) -> list[Difference]:
    """Compare two states behind the same one, leaving words out."""
    old, new = (_outline(before, values) for values in (recorded, today))
    return [difference for name in old for difference in between(name, old[name], new[name])]


def _outline(before: Values, values: Values) -> dict[str, Any]:
    state = ApplicationState.model_construct(**values)
    was = ApplicationState.model_construct(**before)
    added = _added(was.active_history, state.active_history)
    if was.active_step_id != state.active_step_id:
        added = _added(was.chat_history, state.chat_history)
    return {
        "calls": [call.tool for call in state.pending_tool_calls],
        "outcomes": added,
        "finished steps": [
            f"{step.step_id} {step.status}"
            for step in state.vibe_plan
            if step.status in ("completed", "failed")
        ],
        **{name: values[name] for name in _PLAIN},
    }


def _added(before: Transcript, after: Transcript) -> list[str]:
    """Return tool and outcome of each result that came in."""
    if len(after) < len(before):
        return []
    messages = list(after)[len(before) :]
    results = (block for message in messages for block in message.blocks if isinstance(block, ToolResult))
    return [f"{result.tool} {result.outcome}" for result in results]
