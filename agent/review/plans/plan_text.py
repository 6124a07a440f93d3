"""Reads a plan from Markdown: a heading with the goal, a heading for each step, and what each step may do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ....actions.turn.plan.decision_tools import MAX_STEPS, explain_wrong_order
from ....actions.turn.plan.plan_outline import BUDGET, ENTRY, GOAL, STEP
from ....state.conversation.approved_plan import ApprovedPlan, ApprovedStep, PlanBudget

MOST_CHARS = 40_000
EXPECTS, AFTER = "expects", "after"
NOTHING = "nothing"
FORM = """\
# The goal in one sentence
- budget: 0.50 USD, 200,000 tokens
## 1. The first step
- expects: what shows that it is done
- writes: src/, docs/install.md
- runs: pytest -q
- hosts: pypi.org
- tools: create_issue
- agents: reviewer
- after: numbers of the earlier steps that it needs, or `nothing`; without it, all of them
- budget: 20,000 tokens
"""
_AMOUNT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,12})(\.\d{1,6})?\s*(usd|tokens)", re.IGNORECASE)
_QUOTED = re.compile(r"`([^`]+)`")

Compilers = Mapping[str, Callable[[str], Iterator[str]]]
"""Key, such as `writes` -> a function that turns one value into allow rules, or raises `UnreadablePlan`."""


class UnreadablePlan(ValueError):
    """A text is no plan. The message names the line and says what to write instead."""


class _Step:
    def __init__(self, title: str) -> None:
        self.lines = [title]
        self.expects = ""
        self.allows: dict[str, None] = {}
        self.after: tuple[int, ...] | None = None
        self.budget: PlanBudget | None = None

    def build(self) -> ApprovedStep:
        text = "\n".join(self.lines).strip()
        return ApprovedStep(
            description=text,
            expects=self.expects,
            allows=tuple(self.allows),
            after=self.after,
            budget=self.budget,
        )


class _Entry(NamedTuple):
    key: str
    values: tuple[str, ...]


def parse_plan(text: str, compilers: Compilers) -> ApprovedPlan:
    """Return the plan in a text, with what its steps may do as allow rules. Raises `UnreadablePlan`."""
    if len(text) > MOST_CHARS:
        raise UnreadablePlan(f"The plan has {len(text):,} characters; at most {MOST_CHARS:,} are read.")
    goal, steps = _Step(""), list[_Step]()
    # Other line ends do not end a line on the screen.
    for number, line in enumerate(map(str.strip, text.replace("\r\n", "\n").split("\n")), 1):
        _require_visible(line, number)
        if found := STEP.fullmatch(line):
            steps.append(_Step(found[1]))
        elif found := GOAL.fullmatch(line):
            if goal.lines[0]:
                raise UnreadablePlan(f"Line {number}: a plan has one goal. Begin each step with `## `.")
            goal.lines[0] = found[1]
        elif line and not steps and not (goal.lines[0] and _is_about_plan(line)):
            raise UnreadablePlan(f"Line {number}: {_quote(line)} precedes the first step, `## STEP`.")
        elif line:
            _add_line(goal, steps, line, number, compilers)
    _require_parts(goal.lines[0], steps)
    built = tuple(step.build() for step in steps)
    return ApprovedPlan(
        text=text.strip(), goal=goal.lines[0], expects=goal.expects, steps=built, budget=goal.budget
    )


def _require_visible(line: str, number: int) -> None:
    """Raise `UnreadablePlan` for a line that a page or a screen may not show as it is read."""
    if not line.replace("\t", " ").isprintable():
        raise UnreadablePlan(f"Line {number} has characters that a screen does not show. Remove them.")
    if line.startswith(("<!--", "```")):
        raise UnreadablePlan(f"Line {number}: a plan has no comments and no code blocks.")


def _require_parts(goal: str, steps: Sequence[_Step]) -> None:
    if not goal:
        raise UnreadablePlan("The plan has no goal. Begin it with a line `# GOAL`.")
    if not steps:
        raise UnreadablePlan("The plan has no step. Begin each step with a line `## STEP`.")
    if len(steps) > MAX_STEPS:
        raise UnreadablePlan(f"The plan has {len(steps)} steps; at most {MAX_STEPS} are possible.")


def _add_line(goal: _Step, steps: Sequence[_Step], line: str, number: int, compilers: Compilers) -> None:
    step = steps[-1] if steps else goal
    try:
        entry = _parse_entry(line)
        if entry is None:
            step.lines.append(line)
        else:
            _add_entry(step, entry, len(steps), compilers)
    except UnreadablePlan as problem:
        raise UnreadablePlan(f"Line {number}: {problem}") from None


def _add_entry(step: _Step, entry: _Entry, number: int, compilers: Compilers) -> None:
    """Add what a line says about step `number`, or about the whole plan."""
    if entry.key == EXPECTS:
        step.expects = " ".join(filter(None, (step.expects, *entry.values)))
    elif entry.key == AFTER:
        step.after = _read_numbers(entry.values, number, step.after or ())
    elif entry.key == BUDGET:
        if step.budget is not None:
            raise UnreadablePlan("there is a budget already. Write both amounts in one line.")
        step.budget = _parse_budget(entry.values[0] if entry.values else "")
    elif entry.key in compilers:
        for value in entry.values:
            step.allows |= dict.fromkeys(compilers[entry.key](value))
    else:
        known = ", ".join((EXPECTS, AFTER, *compilers, BUDGET))
        raise UnreadablePlan(f"there is no key {_quote(entry.key)}. The keys are: {known}.")


def _read_numbers(values: Sequence[str], number: int, known: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the steps that step `number` comes after, with those `known` already."""
    if [value.lower() for value in values] == [NOTHING]:
        return tuple(known)
    wrong = next((value for value in values if not re.fullmatch(r"[0-9]{1,2}", value)), None)
    if wrong is not None or not values:
        what = f"{_quote(wrong)} is" if wrong else "there is"
        raise UnreadablePlan(
            f"{what} no number of an earlier step. Write `- after: 1, 2` or `- after: {NOTHING}`."
        )
    after = tuple(map(int, values))
    if why := explain_wrong_order(number, after):
        raise UnreadablePlan(f"{why}.")
    return tuple(dict.fromkeys((*known, *after)))


def _is_about_plan(line: str) -> bool:
    """Return whether a line below the goal says something about the whole plan."""
    found = ENTRY.fullmatch(line)
    return found is not None and found[1].lower() in (EXPECTS, BUDGET)


def _parse_budget(text: str) -> PlanBudget:
    """Return the amounts in a text such as `0.50 USD, 20,000 tokens`."""
    amounts: dict[str, float] = {}
    for part in re.split(r",\s+|\s+and\s+", text.strip("` ")):
        found = _AMOUNT.fullmatch(part)
        amount = 0.0 if found is None else float(found[1].replace(",", "") + (found[2] or ""))
        unit = "" if found is None else found[3].lower()
        if amount <= 0 or unit in amounts or (unit == "tokens" and not amount.is_integer()):
            example = "Write one such as `0.50 USD` or `20,000 tokens`."
            raise UnreadablePlan(f"{_quote(text)} is no budget. {example}")
        amounts[unit] = amount
    tokens = amounts.get("tokens")
    return PlanBudget(cost_usd=amounts.get("usd"), tokens=None if tokens is None else int(tokens))


def _parse_entry(line: str) -> _Entry | None:
    """Return the key and the values of a line such as `- writes: a, b`; None for a line of another form."""
    found = ENTRY.fullmatch(line)
    if found is None:
        return None
    key, text = found[1].lower(), found[2].strip()
    if key in (EXPECTS, BUDGET):
        return _Entry(key, (text,) if text else ())
    if quoted := _QUOTED.findall(text):
        if _QUOTED.sub("", text).strip(" ,"):
            raise UnreadablePlan(f"{_quote(text)} has words beside those in backticks. Leave them out.")
        return _Entry(key, tuple(quoted))
    # A command may contain commas.
    values = (text,) if key == "runs" else tuple(part.strip() for part in text.split(","))
    return _Entry(key, tuple(filter(None, values)))


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
