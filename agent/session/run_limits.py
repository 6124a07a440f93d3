"""The limits of a run, and what it has used of them."""

from dataclasses import fields
from typing import Self

from ...actions.ports.events import Event, SubAgentEvent, UsageChanged
from ...state.application import Usage
from ...state.errors import BudgetLimit, TurnLimit
from ...state.lazy_dataclass import dataclass
from ..config.settings import Settings

_GO_ON = "Resume to go on; the count starts again at 0."


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run. Each is a setting of the same name."""

    max_turns: int | None = None
    """The most model calls."""
    max_budget_usd: float | None = None
    timeout_s: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def check(self, used: Usage) -> None:
        """Raise if the run, which has used this much, may not make a further model call.

        `used` includes what its sub-agents used.
        """
        if self.max_turns is not None and used.llm_calls >= self.max_turns:
            raise TurnLimit(f"The limit of {self.max_turns} model calls is reached.", _GO_ON)
        if self.max_budget_usd is None:
            return
        if used.cost_usd is None:
            raise BudgetLimit(
                "The cost of a model call is unknown (its answer was cut, or came without its usage), so the"
                " budget cannot be enforced.",
                _GO_ON,
            )
        if used.cost_usd >= self.max_budget_usd:
            raise BudgetLimit(
                f"The budget of {self.max_budget_usd:g} USD is used up (spent {used.cost_usd:.4f} USD).",
                _GO_ON,
            )


class RunUsage:
    """The tokens and the cost of one run so far, counted from its events."""

    def __init__(self) -> None:
        self.total = Usage()
        """The usage of the run, including that of its sub-agents."""
        self.of_open_agents = Usage()
        """The usage of the sub-agents of open calls. Their results will add it to the state."""
        self.in_turn: Usage | None = None
        """The usage of the whole turn; None before the first model call of the run."""

    def add(self, event: Event) -> None:
        """Add the usage that an event reports; most events report none."""
        if isinstance(event, UsageChanged):
            self.total += event.latest
            self.in_turn = event.usage
        elif isinstance(event, SubAgentEvent) and isinstance(event.event, UsageChanged):
            self.total += event.event.latest
            self.of_open_agents += event.event.latest
