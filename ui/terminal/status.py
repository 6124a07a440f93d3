"""The status line: those facts of the session for which the terminal has room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.cells import cell_len

from ...state.application import Usage
from ...state.lazy_dataclass import dataclass
from .terminal import Glyphs, shorten
from .text.sanitize import one_line

_WIDE = 60
"""From this many columns on, the mode is written in words."""
_MOST_MODEL_CELLS = 32
TRIAL = "trial"
"""What stands before the mode, and before the mark of the prompt, in a trial; also its role in the theme."""

Cell = tuple[str, str]
"""A role of the theme with a text."""


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The data of the status line. A value of None is left out, a cost of None is displayed as unknown."""

    mode: str
    model: str = ""
    session: str = ""
    sub_agent: str = ""
    """The name of the sub-agent whose session this is; empty in other sessions."""
    context_used: float | None = None
    """The part of the model's window that the last request took."""
    tokens: int | None = None
    cost_usd: float | None = None
    budget_left: float | None = None
    """US dollars."""
    sandbox: str = "off"
    context_window: int = 0
    """In tokens; 0: unknown."""
    model_calls: int = 0
    is_trial: bool = False
    """Whether files change only in a copy of the folder."""

    def after(self, latest: Usage) -> StatusFacts:
        """Return the facts after one more model call."""
        cost, taken, window = latest.cost_usd, count_all_tokens(latest), self.context_window
        return replace(
            self,
            context_used=taken / window if taken and window else self.context_used,
            tokens=None if taken is None else (self.tokens or 0) + taken,
            cost_usd=_add(self.cost_usd if self.model_calls else 0.0, cost),
            budget_left=_add(self.budget_left, -cost if cost is not None else None),
            model_calls=self.model_calls + latest.llm_calls,
        )


def count_all_tokens(usage: Usage) -> int | None:
    """Return all tokens, in and out; None if they are unknown."""
    sent, answered = usage.input_tokens, usage.output_tokens
    return None if sent is None or answered is None else sent + answered


def _add(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def status_cells(facts: StatusFacts, width: int, glyphs: Glyphs | None = None, keys: str = "") -> list[Cell]:
    """Return the status line for `width` columns. The least important parts are left out first, the mode
    never, and the badge of a trial only where it has no room beside the mode.

    `keys` is a text about the keys that work now, such as how to interrupt.
    """
    signs = glyphs or Glyphs()
    mode = _mode(facts.mode, width)
    dot = f" {signs.dot} "
    first = [(TRIAL, TRIAL), ("quiet", dot), mode] if facts.is_trial else [mode]
    first = first if _count_cells(first) <= width else [mode]
    room = width - _count_cells(first)
    chosen: set[int] = set()
    parts = list(_list_parts(facts, signs, keys))
    for number, (_, _, text) in sorted(enumerate(parts), key=lambda one: one[1][0]):
        taken = cell_len(dot + text)
        if taken <= room:
            room -= taken
            chosen.add(number)
    cells = [*first]
    for number, (_, role, text) in enumerate(parts):
        if number in chosen:
            cells += [("quiet", dot), (role, text)]
    return [(role, shorten(text, max(0, width), signs.rest)) for role, text in cells]


def _count_cells(cells: Iterable[Cell]) -> int:
    return sum(cell_len(text) for _, text in cells)


def _mode(mode: str, width: int) -> Cell:
    if mode == "yolo":
        return "yolo", "YOLO: nothing is asked" if width >= _WIDE else "YOLO"
    return "busy" if mode == "plan" else "plain", one_line(mode)


def _list_parts(facts: StatusFacts, glyphs: Glyphs, keys: str) -> Iterable[tuple[int, str, str]]:
    """Yield in screen order: priority, role, text."""
    if facts.model:
        yield 4, "quiet", shorten(one_line(facts.model), _MOST_MODEL_CELLS, glyphs.rest)
    if facts.session:
        yield 8, "quiet", one_line(facts.session)[:8]
    if facts.sub_agent:
        yield 1, "busy", f"sub-agent {shorten(one_line(facts.sub_agent), _MOST_MODEL_CELLS, glyphs.rest)}"
    if facts.context_used is not None:
        used = facts.context_used
        yield 2, "careful" if used >= 0.7 else "quiet", f"ctx {used:.0%}"
    if facts.model_calls and facts.tokens is not None:
        yield 6, "quiet", f"{short_count(facts.tokens)} tokens"
    if facts.model_calls:
        yield 3, "quiet", "cost unknown" if facts.cost_usd is None else money(facts.cost_usd)
    if facts.budget_left is not None:
        left = max(0.0, facts.budget_left)
        yield 5, "quiet" if left > 0.1 else "careful", f"{money(left)} left"
    yield 7, "quiet", "no sandbox" if facts.sandbox == "off" else f"sandbox {one_line(facts.sandbox)}"
    if keys:
        yield 1, "quiet", keys


def short_count(count: int) -> str:
    """Return a number in few characters."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if count >= 10 * size:
            return f"{count / size:.0f}{unit}"
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def money(dollars: float) -> str:
    """Return US dollars, small ones to the hundredth of a cent."""
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars else "$0"
