"""A plan as a person approves it: the steps, and what each step may do without a further question."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property, partial
from operator import is_, not_

from pydantic import Field

from .content import Record

INSIDE_PLAN, OUTSIDE_PLAN = "the approved plan allows it", "outside the plan"
"""How the reason of a verdict begins, for a call that an approved plan allows, and for one that it does not
name.
"""


class PlanBudget(Record):
    """The most that the work of a plan, or of one step, may use before a person has to agree again."""

    cost_usd: float | None = Field(default=None, exclude_if=partial(is_, None))
    """US dollars; None for no limit."""
    tokens: int | None = Field(default=None, exclude_if=partial(is_, None))
    """Input and output tokens together; None for no limit."""


class ApprovedStep(Record):
    description: str
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the step is done."""
    allows: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Allow rules that hold until the step has ended."""
    after: tuple[int, ...] | None = Field(default=None, exclude_if=partial(is_, None))
    """The numbers of the earlier steps, from 1, that have to end before; None: all earlier steps."""
    budget: PlanBudget | None = Field(default=None, exclude_if=partial(is_, None))


class ApprovedPlan(Record):
    text: str
    """The Markdown that the person approved."""
    goal: str
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the goal is reached."""
    steps: tuple[ApprovedStep, ...]
    budget: PlanBudget | None = Field(default=None, exclude_if=partial(is_, None))
    """The budget of the whole plan."""

    @property
    def binds(self) -> bool:
        """Return whether the plan needs the decision of a person: it allows something, or has a budget."""
        budgets = (self.budget, *(step.budget for step in self.steps))
        return any(step.allows for step in self.steps) or any(budget is not None for budget in budgets)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the plan. Plans that differ in anything have different digests."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()
