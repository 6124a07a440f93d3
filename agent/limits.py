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

    def check(self, used: Usage) -> None:
        """Raise if the run, which has used this much, may not make a further model call."""
        if self.max_turns is not None and used.llm_calls >= self.max_turns:
            raise TurnLimit(f"The limit of {self.max_turns} model calls is reached.", _GO_ON)
        if self.max_budget_usd is None:
            return
        if used.cost_usd is None:
            raise BudgetLimit("The provider did not report its usage, so no budget can be kept.", _GO_ON)
        if used.cost_usd >= self.max_budget_usd:
            raise BudgetLimit(
                f"The budget of {self.max_budget_usd:g} USD is used up (spent {used.cost_usd:.4f} USD).",
                _GO_ON,
            )
