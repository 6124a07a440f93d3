"""What one run may use before it stops, resumable."""

from dataclasses import dataclass

from state.errors import BudgetLimit, TurnLimit
from state.usage import Usage

_GO_ON = "Resume to go on; the limit counts anew."


@dataclass(frozen=True, slots=True)
class Limits:
    max_turns: int | None = None
    """Model calls."""
    max_budget_usd: float | None = None
    timeout_s: float | None = None

    def check(self, before: Usage, now: Usage) -> None:
        """Raise if a further model call would go over what the run may use; totals are the session's."""
        if self.max_turns is not None and now.llm_calls - before.llm_calls >= self.max_turns:
            raise TurnLimit(f"The limit of {self.max_turns} model calls is reached.", _GO_ON)
        if self.max_budget_usd is None or before.cost_usd is None:
            return
        if now.cost_usd is None:
            raise BudgetLimit(
                "The provider stopped reporting its usage, so the budget cannot be kept.", _GO_ON
            )
        spent = now.cost_usd - before.cost_usd
        if spent >= self.max_budget_usd:
            raise BudgetLimit(
                f"The budget of {self.max_budget_usd:g} USD is used up (spent {spent:.4f} USD).", _GO_ON
            )
