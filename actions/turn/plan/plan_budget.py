"""The budgets of an approved plan and of its steps: counts what they use, and ends the run at a limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ....state.application import ApplicationState, PlanUsage
from ....state.conversation.approved_plan import ApprovedPlan, PlanBudget
from ....state.conversation.usage import Usage
from ....state.errors import BudgetLimit

_GO_ON = "Resume to give it the same amount again, or send a message, which ends the plan."


class _Count(NamedTuple):
    """The limit of one budget, and how much of it was used."""

    field: str
    """The field of `PlanUsage` with what is counted."""
    name: str
    budget: PlanBudget
    used: Usage


def begin_counting(plan: ApprovedPlan) -> dict[str, Any]:
    """Return the state changes that count the budgets of a plan from now on; None stops an earlier count."""
    has_budget = plan.budget is not None or any(step.budget is not None for step in plan.steps)
    return {"plan_usage": PlanUsage() if has_budget else None}


def begin_step_count(state: ApplicationState) -> dict[str, Any]:
    """Return the state changes that count the budget of the next step from now on."""
    if state.plan_usage is None:
        return {}
    return {"plan_usage": state.plan_usage.model_copy(update={"step": Usage()})}


def require_plan_budget(state: ApplicationState, running: Usage) -> None:
    """Raise `BudgetLimit` if the work of the plan has used up a budget.

    `running` is what sub-agents of open calls used, which the state does not contain yet.
    """
    for count in _list_counts(state, running):
        if problem := _why_over(count):
            raise BudgetLimit(problem, _GO_ON)


def renew_spent_budgets(state: ApplicationState, running: Usage) -> dict[str, Any]:
    """Return the state changes that restart each budget that is used up; empty without one.

    A person who resumes such a run agrees to the same amount once more. `running` is what sub-agents of open
    calls used. Their results will add it to the state, so that it is subtracted now.
    """
    spent = [count.field for count in _list_counts(state, running) if _why_over(count)]
    if not spent or state.plan_usage is None:
        return {}
    start = Usage() - running.count_unknown_as_zero()
    return {"plan_usage": state.plan_usage.model_copy(update=dict.fromkeys(spent, start))}


def _list_counts(state: ApplicationState, running: Usage) -> Iterator[_Count]:
    """Yield the budgets that limit the next model call: that of the plan, until its turn ends, and that of
    the present step.
    """
    used, plan = state.plan_usage, state.approved_plan
    if used is None or plan is None or not state.turn_open:
        return
    if plan.budget is not None:
        yield _Count("plan", "the plan", plan.budget, used.plan + running)
    step = state.present_step if state.phase == "working" else None
    if step is not None and step.budget is not None:
        yield _Count("step", f"step {step.step_id} of the plan", step.budget, used.step + running)


def _why_over(count: _Count) -> str:
    """Return why no further model call is allowed, as a sentence; empty if one is."""
    budget, used = count.budget, count.used
    if budget.cost_usd is not None:
        if used.cost_usd is None:
            return (
                f"The cost of a model call is unknown, so the budget of {count.name}, {budget.cost_usd:g}"
                " USD, cannot be enforced. A plan may name tokens instead."
            )
        # Sums of prices are a little off.
        if round(used.cost_usd, 9) >= budget.cost_usd:
            spent = f"{used.cost_usd:.4f} USD are spent"
            return f"The budget of {count.name}, {budget.cost_usd:g} USD, is used up: {spent}."
    if budget.tokens is None:
        return ""
    if used.input_tokens is None or used.output_tokens is None:
        return f"The tokens of a model call are unknown, so the budget of {count.name} cannot be enforced."
    tokens = used.input_tokens + used.output_tokens
    if tokens < budget.tokens:
        return ""
    return f"The budget of {count.name}, {budget.tokens:,} tokens, is used up: {tokens:,} are used."
