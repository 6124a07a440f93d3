"""The outline of a plan that is written as Markdown: its goal, its steps, and what each of them may do."""

import re
from collections.abc import Sequence
from typing import NamedTuple

BUDGET = "budget"
PERMISSIONS = ("writes", "runs", "hosts", "tools", "agents")
"""The keys of what a step may do."""
GOAL = re.compile(r"#\s+(?:goal:\s*)?(\S.*)", re.IGNORECASE)
STEP = re.compile(r"##\s+(?:step\s+)?(?:\d{1,2}[.):]\s*)?(\S.*)", re.IGNORECASE)
ENTRY = re.compile(r"[-*]\s+(\w+):\s*(.*)")
"""A line such as `- writes: src/`."""


class PlanPart(NamedTuple):
    """The goal or a step of a plan as it is written: its lines of text, and its entries by key."""

    lines: Sequence[str]
    entries: Sequence[tuple[str, str]]


def outline_plan(text: str) -> tuple[PlanPart, Sequence[PlanPart]]:
    """Return the goal and the steps of a plan as written, without judging what they name."""
    parts: list[tuple[list[str], list[tuple[str, str]]]] = [([], [])]
    for line in map(str.strip, text.split("\n")):
        if found := STEP.fullmatch(line):
            parts.append(([found[1]], []))
        elif len(parts) == 1 and (found := GOAL.fullmatch(line)):
            parts[0][0].append(found[1])
        elif found := ENTRY.fullmatch(line):
            parts[-1][1].append((found[1].lower(), found[2]))
        elif line:
            parts[-1][0].append(line)
    goal, *steps = (PlanPart(*part) for part in parts)
    return goal, steps
