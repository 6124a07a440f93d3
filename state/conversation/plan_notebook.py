"""The records of the plan notebook: facts about the current plan, earlier plans, and changes of a plan."""

from __future__ import annotations

from functools import partial
from operator import is_, not_
from typing import Literal

from pydantic import Field

from .approved_plan import ApprovedPlan
from .content import Record

StepStatus = Literal["pending", "in_progress", "completed", "failed", "skipped", "abandoned"]
"""The state of a step. `skipped`: a person took it out of the plan before it began. `abandoned`: the plan
ended before it.
"""

PlanEnd = Literal["", "done", "abandoned"]
"""How the model, a person or a program ended a plan; empty: it has not ended."""
PastStatus = Literal["done", "abandoned", "unfinished"]

MOST_PAST_PLANS = 20
"""The most earlier plans that a state holds. The store keeps the steps of all of them."""


class NotedStep(Record):
    """A step that a revision adds to the plan."""

    description: str
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the step is done."""
    after: tuple[int, ...] | None = Field(default=None, exclude_if=partial(is_, None))
    """The numbers of the earlier new steps, from 1, that have to end before; None: all earlier steps."""


class PlanFacts(Record):
    """What is known about the current plan beside its goal and its steps."""

    name: str = Field(default="", exclude_if=not_)
    """The name under which it is saved; empty: it has none."""
    expects: str = Field(default="", exclude_if=not_)
    """The result that shows that the goal is reached; empty: the plan does not say."""
    end: PlanEnd = Field(default="", exclude_if=not_)
    outcome: str = Field(default="", exclude_if=not_)
    """What came of the plan, as the one who ended it describes it."""


NO_FACTS = PlanFacts()


class PastStep(Record):
    description: str
    status: StepStatus
    expects: str = Field(default="", exclude_if=not_)
    outcome: str = Field(default="", exclude_if=not_)
    """The beginning of the summary of the step."""


class PastPlan(Record):
    """A plan that the session worked on before the current one."""

    number: int
    """Counts the plans of the session, from 1."""
    goal: str
    status: PastStatus
    """`unfinished`: it was interrupted or failed, so that it can be taken up again."""
    steps: tuple[PastStep, ...]
    name: str = Field(default="", exclude_if=not_)
    expects: str = Field(default="", exclude_if=not_)
    outcome: str = Field(default="", exclude_if=not_)
    approved_text: str = Field(default="", exclude_if=not_)
    """The Markdown that a person approved; empty: the plan was not approved. It allows nothing any more."""


class PlanChange(Record):
    """One change of the plan."""

    command: Literal["revise", "finish", "abandon", "reopen", "begin"]
    """`revise`: other steps replace those that have not begun; `finish`, `abandon`: the plan ends; `reopen`:
    an earlier plan becomes the current one; `begin`: a saved plan does."""
    steps: tuple[NotedStep, ...] = Field(default=(), exclude_if=not_)
    """For `revise`: the steps that are still to do. For `begin`: the steps of a plan that does not bind."""
    goal: str = Field(default="", exclude_if=not_)
    """For `begin`: the goal of a plan that does not bind."""
    name: str = Field(default="", exclude_if=not_)
    """A new name of the plan; empty: it keeps its name."""
    expects: str = Field(default="", exclude_if=not_)
    """A new expected outcome of the plan; empty: it keeps its own."""
    text: str = Field(default="", exclude_if=not_)
    """For `finish` the outcome, for `abandon` the reason."""
    number: int = Field(default=0, exclude_if=not_)
    """For `reopen`: the number of the earlier plan."""
    plan: ApprovedPlan | None = Field(default=None, exclude_if=partial(is_, None))
    """For `begin` and `reopen`: the plan with its permissions, which a person approved just now. A change
    that a tool makes has none."""
