"""What every graph step took: time in models and tools, tokens, cost."""

from datetime import datetime

from agent.report.account import Happened, ModelUsed, RunBoundary, StepCost
from state.store.step_drafts import StepDraft
from state.usage import Usage


class StepCosts:
    """Told of everything in order; waiting between runs belongs to no step."""

    def __init__(self) -> None:
        self.steps: list[StepCost] = []
        self._since = ""
        """When the step that comes next could begin."""
        self._model_ms = 0

    def trace(self, happened: Happened) -> None:
        match happened.what:
            case RunBoundary(is_end=False):
                self._since = happened.at
            case ModelUsed(call):
                self._model_ms += call.duration_ms
            case _:
                pass

    def add(self, draft: StepDraft, tool_ms: int) -> None:
        before = Usage.model_validate(draft.before.get("usage") or {})
        after = Usage.model_validate(draft.after.get("usage") or {})
        took_ms = between_ms(self._since, draft.at)
        # Reads run at the same time: together they took no longer than the step.
        tool_ms = min(tool_ms, took_ms) if self._since else tool_ms
        cost = None
        if after.cost_usd is not None:
            cost = max(after.cost_usd - (before.cost_usd or 0.0), 0.0)
        self.steps.append(
            StepCost(
                seq=draft.seq,
                action=draft.action,
                at=draft.at,
                model_ms=self._model_ms,
                tool_ms=tool_ms,
                other_ms=max(took_ms - self._model_ms - tool_ms, 0),
                tokens_in=max((after.input_tokens or 0) - (before.input_tokens or 0), 0),
                tokens_out=max((after.output_tokens or 0) - (before.output_tokens or 0), 0),
                cost_usd=cost,
            )
        )
        self._model_ms = 0
        self._since = draft.at


def between_ms(start: str, end: str) -> int:
    """Return the milliseconds between two stored times; 0 if one is not known."""
    try:
        return max(
            int((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000), 0
        )
    except (ValueError, TypeError):
        return 0
