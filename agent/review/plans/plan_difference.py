"""Describes how a proposed plan differs from the plan that a person approved before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from itertools import zip_longest

from ....actions.turn.plan.plan_outline import PERMISSIONS
from ....state.conversation.approved_plan import ApprovedPlan, ApprovedStep, PlanBudget
from .plan_text import NOTHING, UnreadablePlan, parse_plan

_WIDER, _ADDED, _REMOVED, _CHANGED = "!", "+", "-", "~"
_SAME = "It is the plan that was approved before, unchanged."
_REORDERED = f"{_CHANGED} its lines are in another order"
_NO_STEP = ApprovedStep(description="")

_StepPair = tuple[str, ApprovedStep, ApprovedStep]
"""The words that name a step, the step of the earlier plan, and that of the proposed one."""


def describe_difference(earlier: ApprovedPlan, text: str) -> str:
    """Return the differences between an approved plan and the text of another one, one a line.

    The lines with `!`, which allow more than before, come first; `+` and `-` add and remove something, `~`
    changes it. Raises `UnreadablePlan` if `text` is no plan.
    """
    new = parse_plan(text, _AS_WRITTEN)
    try:
        old = parse_plan(earlier.text, _AS_WRITTEN)
    except UnreadablePlan:  # the stored text has no secrets, and may be no plan any more
        return f"The plan that was approved before, {earlier.digest[:12]}, cannot be compared."
    if old.model_copy(update={"text": ""}) == new.model_copy(update={"text": ""}):
        return _SAME
    lines = sorted(_list_changes(old, new), key=lambda line: line[0] != _WIDER) or [_REORDERED]
    return "\n".join([f"Compared with the approved plan {earlier.digest[:12]}:", *lines])


def _keep(key: str, value: str) -> Iterator[str]:
    yield f"{key}: {value}"


_AS_WRITTEN: Mapping[str, Callable[[str], Iterator[str]]] = {key: partial(_keep, key) for key in PERMISSIONS}
"""Compilers that keep each permission in the words of the plan."""


def _list_changes(old: ApprovedPlan, new: ApprovedPlan) -> Iterator[str]:
    if old.goal != new.goal:
        yield f"{_CHANGED} goal: {new.goal} (it was: {old.goal})"
    if old.expects != new.expects:
        yield f"{_CHANGED} expects of the plan: {new.expects or NOTHING} (it was: {old.expects or NOTHING})"
    yield from _compare_budgets("the plan", old.budget, new.budget)
    for name, before, after in _pair_steps(old.steps, new.steps):
        yield from _describe_step(name, before, after)
        yield from (f"{_WIDER} allows more in {name}: {one}" for one in _subtract(after, before))
        yield from (f"{_REMOVED} allows less in {name}: {one}" for one in _subtract(before, after))
        if _NO_STEP not in (before, after):
            yield from _compare_budgets(name, before.budget, after.budget)
            if before.after != after.after:
                orders = _describe_order(after), _describe_order(before)
                yield f"{_CHANGED} {name} comes after {' instead of '.join(orders)}"


def _pair_steps(old: Sequence[ApprovedStep], new: Sequence[ApprovedStep]) -> Iterator[_StepPair]:
    """Yield the steps of both plans in order, each beside the step that it replaces."""
    matcher = SequenceMatcher(None, list(map(_title_of, old)), list(map(_title_of, new)), autojunk=False)
    for _, first_old, end_old, first_new, end_new in matcher.get_opcodes():
        places = range(first_old, end_old), range(first_new, end_new)
        for before, after in zip_longest(*places):
            name = f"the earlier step {before + 1}" if after is None else f"step {after + 1}"
            yield (
                name,
                _NO_STEP if before is None else old[before],
                _NO_STEP if after is None else new[after],
            )


def _describe_step(name: str, before: ApprovedStep, after: ApprovedStep) -> Iterator[str]:
    """Yield how the words of a step differ."""
    if before is _NO_STEP:
        yield f"{_ADDED} {name}: {_title_of(after)}"
    elif after is _NO_STEP:
        yield f"{_REMOVED} {name}: {_title_of(before)}"
    elif _title_of(before) != _title_of(after):
        yield f"{_CHANGED} {name}: {_title_of(after)} (it was: {_title_of(before)})"
    elif (before.description, before.expects) != (after.description, after.expects):
        yield f"{_CHANGED} {name}: {_title_of(after)} (its text changed)"


def _subtract(step: ApprovedStep, other: ApprovedStep) -> Iterator[str]:
    """Yield the permissions of a step that the other one does not have."""
    return (one for one in step.allows if one not in other.allows)


def _describe_order(step: ApprovedStep) -> str:
    """Return the steps that have to end before a step, in words."""
    if step.after is None:
        return "all earlier steps"
    return ", ".join(map(str, step.after)) or NOTHING


def _title_of(step: ApprovedStep) -> str:
    return step.description.partition("\n")[0]


def _compare_budgets(name: str, before: PlanBudget | None, after: PlanBudget | None) -> Iterator[str]:
    """Yield each amount that differs. A larger budget, or none, allows more."""
    old, new = before or PlanBudget(), after or PlanBudget()
    for unit, was, now in (("USD", old.cost_usd, new.cost_usd), ("tokens", old.tokens, new.tokens)):
        if was == now:
            continue
        is_wider = now is None or (was is not None and now > was)
        amounts = " instead of ".join("no limit" if one is None else f"{one:,} {unit}" for one in (now, was))
        yield f"{_WIDER if is_wider else _REMOVED} the budget of {name}: {amounts}"
