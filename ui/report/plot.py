"""The plot of a report: time, tokens and cost of every step, as SVG."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...agent.history.reports.run_report import StepCost
from .markup import Html, block, join, tag
from .words import cost, duration, number

_WIDTH, _LEFT, _RIGHT = 960, 64, 8
_PANEL, _GAP, _TOP, _BOTTOM = 110, 38, 22, 34
_MOST_BARS = 120
_MOST_WIDE = 40.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """One step, or several in a row."""

    total: StepCost
    """Its number and its action are those of the first step."""
    last: int
    is_cost_known: bool

    @property
    def tooltip(self) -> str:
        total = self.total
        which = f"Steps {total.seq} to {self.last}"
        if total.seq == self.last:
            which = f"Step {total.seq}: {total.action}"
        at_least = "" if self.is_cost_known else "at least "
        return (
            f"{which}\nmodels {duration(total.model_ms)}, tools {duration(total.tool_ms)},"
            f" Sandbur {duration(total.other_ms)}\n"
            f"tokens {number(total.tokens_in)} in, {number(total.tokens_out)} out\n"
            f"cost {at_least}{cost(total.cost_usd)}"
        )


def _bar(steps: Sequence[StepCost]) -> _Bar:
    total = StepCost(steps[0].seq, steps[0].action, steps[0].at)
    spent = 0.0
    for step in steps:
        total.model_ms += step.model_ms
        total.tool_ms += step.tool_ms
        total.other_ms += step.other_ms
        total.tokens_in += step.tokens_in
        total.tokens_out += step.tokens_out
        spent += step.cost_usd or 0.0
    total.cost_usd = spent
    return _Bar(total, steps[-1].seq, all(step.cost_usd is not None for step in steps))


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    parts: tuple[tuple[str, str, Callable[[StepCost], float | None]], ...]
    """CSS class, name and value of each part of a bar, from the bottom up."""
    unit: Callable[[float], str]


def _short(value: float) -> str:
    if value >= 10**6:
        return f"{value / 10**6:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _dollars(value: float) -> str:
    return f"${value:g}" if value >= 0.0001 or not value else f"${value:.0e}"


_TIME = _Panel(
    "Time",
    (
        ("p-model", "models", lambda step: step.model_ms),
        ("p-tool", "tools", lambda step: step.tool_ms),
        ("p-other", "Sandbur itself", lambda step: step.other_ms),
    ),
    duration,
)
_TOKENS = _Panel(
    "Tokens",
    (("p-in", "in", lambda step: step.tokens_in), ("p-out", "out", lambda step: step.tokens_out)),
    _short,
)
_COST = _Panel("Cost", (("p-cost", "US dollars", lambda step: step.cost_usd),), _dollars)


def plot(steps: Sequence[StepCost]) -> Html:
    """Return the SVG element; empty without steps."""
    if not steps:
        return Html()
    size = math.ceil(len(steps) / _MOST_BARS)
    bars = [_bar(steps[start : start + size]) for start in range(0, len(steps), size)]
    panels = [_TIME, _TOKENS, *([_COST] if any(step.cost_usd for step in steps) else [])]
    height = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + _BOTTOM
    drawn = (join(*_draw(panel, bars, _TOP + place * (_PANEL + _GAP))) for place, panel in enumerate(panels))
    return tag(
        "svg",
        *drawn,
        *_step_axis(bars, height - _BOTTOM),
        class_="plot",
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        aria_label="Time, tokens and cost of every step",
    )


def _text(classes: str, x: float, y: float, text: str) -> Html:
    return tag("text", text, class_=classes, x=round(x, 1), y=round(y, 1))


def _rect(classes: str, x: float, y: float, width: float, height: float) -> Html:
    return tag(
        "rect", class_=classes, x=round(x, 1), y=round(y, 1), width=round(width, 1), height=round(height, 1)
    )


def _across(classes: str, y: float) -> Html:
    return tag("line", class_=classes, x1=_LEFT, x2=_WIDTH - _RIGHT, y1=round(y, 1), y2=round(y, 1))


def _draw(panel: _Panel, bars: Sequence[_Bar], top: int) -> Iterator[Html]:
    most = max(sum(value(bar.total) or 0 for _, _, value in panel.parts) for bar in bars)
    end, ticks = _scale(most)
    size = bars[0].last - bars[0].total.seq + 1
    yield _text("p-title", _LEFT, top - 8, f"{panel.title} per {'step' if size == 1 else f'{size} steps'}")
    yield from _legend(panel, top)
    for tick in ticks:
        y = top + _PANEL - _PANEL * tick / end
        yield _across("p-grid", y)
        yield _text("p-tick p-end", _LEFT - 6, y + 4, panel.unit(tick))
    pitch = _pitch(bars)
    for place, bar in enumerate(bars):
        x = _LEFT + place * pitch
        hover = _rect("p-hover", x, top, pitch, _PANEL)
        stack = _stack(panel, bar, x + pitch * 0.1, pitch * 0.8, top, end)
        yield tag("g", tag("title", block(bar.tooltip)), hover, *stack)


def _pitch(bars: Sequence[_Bar]) -> float:
    return min((_WIDTH - _LEFT - _RIGHT) / len(bars), _MOST_WIDE)


def _stack(panel: _Panel, bar: _Bar, x: float, width: float, top: int, end: float) -> Iterator[Html]:
    y = float(top + _PANEL)
    for classes, _, value in panel.parts:
        size = _PANEL * (value(bar.total) or 0) / end
        if size > 0:
            size = max(size, 0.8)
            y -= size
            yield _rect(classes, x, y, width, size)


def _legend(panel: _Panel, top: int) -> Iterator[Html]:
    x = _WIDTH - _RIGHT
    for classes, text, _ in reversed(panel.parts):
        x -= len(text) * 7
        yield _text("p-tick", x, top - 8, text)
        yield _rect(classes, x - 15, top - 17, 10, 10)
        x -= 32


def _step_axis(bars: Sequence[_Bar], y: int) -> Iterator[Html]:
    pitch, every = _pitch(bars), math.ceil(len(bars) / 12)
    yield _across("p-axis", y)
    for place in range(0, len(bars), every):
        first = bars[place].total.seq
        yield _text("p-tick p-mid", _LEFT + (place + 0.5) * pitch, y + 15, str(first))
    yield _text("p-tick p-end", _WIDTH - _RIGHT, y + 30, "step")


def _scale(most: float) -> tuple[float, list[float]]:
    """Return the end of an axis and its ticks: 1, 2 or 5 times a power of ten apart."""
    if most <= 0:
        return 1.0, [0.0]
    rough = most / 3
    power = 10 ** math.floor(math.log10(rough))
    width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    count = math.ceil(most / width)
    return width * count, [width * place for place in range(count + 1)]
