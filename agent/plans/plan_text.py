"""Reads a plan from Markdown: a heading with the goal, a heading for each step, and what each step may do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...actions.turn.plan.decision_tools import MAX_STEPS
from ...state.conversation.approved_plan import ApprovedPlan, ApprovedStep

MOST_CHARS = 40_000
EXPECTS = "expects"
FORM = """\
# The goal in one sentence
## 1. The first step
- expects: what shows that it is done
- writes: src/, docs/install.md
- runs: pytest -q
- hosts: pypi.org
- tools: create_issue
- agents: reviewer
"""
_GOAL = re.compile(r"#\s+(?:goal:\s*)?(\S.*)", re.IGNORECASE)
_STEP = re.compile(r"##\s+(?:step\s+)?(?:\d{1,2}[.):]\s*)?(\S.*)", re.IGNORECASE)
_ENTRY = re.compile(r"[-*]\s+(\w+):\s*(.*)")
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

    def build(self) -> ApprovedStep:
        text = "\n".join(self.lines).strip()
        return ApprovedStep(description=text, expects=self.expects, allows=tuple(self.allows))


class _Entry(NamedTuple):
    key: str
    values: tuple[str, ...]


def parse_plan(text: str, compilers: Compilers) -> ApprovedPlan:
    """Return the plan in a text, with what its steps may do as allow rules. Raises `UnreadablePlan`."""
    if len(text) > MOST_CHARS:
        raise UnreadablePlan(f"The plan has {len(text):,} characters; at most {MOST_CHARS:,} are read.")
    goal, expects, steps = "", "", list[_Step]()
    # Other line ends do not end a line on the screen.
    for number, line in enumerate(map(str.strip, text.replace("\r\n", "\n").split("\n")), 1):
        _require_visible(line, number)
        if found := _STEP.fullmatch(line):
            steps.append(_Step(found[1]))
        elif found := _GOAL.fullmatch(line):
            if goal:
                raise UnreadablePlan(f"Line {number}: a plan has one goal. Begin each step with `## `.")
            goal = found[1]
        elif goal and not steps and (entry := _parse_expects(line)):
            expects = " ".join(filter(None, (expects, *entry.values)))
        elif line and not steps:
            raise UnreadablePlan(f"Line {number}: {_quote(line)} precedes the first step, `## STEP`.")
        elif line:
            _add_line(steps[-1], line, number, compilers)
    _require_parts(goal, steps)
    made = tuple(step.build() for step in steps)
    return ApprovedPlan(text=text.strip(), goal=goal, expects=expects, steps=made)


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


def _add_line(step: _Step, line: str, number: int, compilers: Compilers) -> None:
    try:
        entry = _parse_entry(line)
    except UnreadablePlan as problem:
        raise UnreadablePlan(f"Line {number}: {problem}") from None
    if entry is None:
        step.lines.append(line)
    elif entry.key == EXPECTS:
        step.expects = " ".join(filter(None, (step.expects, *entry.values)))
    elif entry.key not in compilers:
        known = ", ".join((EXPECTS, *compilers))
        raise UnreadablePlan(f"Line {number}: there is no key {_quote(entry.key)}. The keys are: {known}.")
    else:
        try:
            for value in entry.values:
                step.allows |= dict.fromkeys(compilers[entry.key](value))
        except UnreadablePlan as problem:
            raise UnreadablePlan(f"Line {number}: {problem}") from None


def _parse_expects(line: str) -> _Entry | None:
    """Return the entry of a line `- expects: ...`; None for any other line."""
    found = _ENTRY.fullmatch(line)
    return _parse_entry(line) if found is not None and found[1].lower() == EXPECTS else None


def _parse_entry(line: str) -> _Entry | None:
    """Return the key and the values of a line such as `- writes: a, b`; None for a line of another form."""
    found = _ENTRY.fullmatch(line)
    if found is None:
        return None
    key, text = found[1].lower(), found[2].strip()
    if key == EXPECTS:
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
