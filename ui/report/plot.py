"""The plot of a report: time, tokens and cost of every step, as SVG of our own."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from ...agent.history.insight.account import StepCost
from .words import cost, duration, number

_WIDTH, _LEFT, _RIGHT = 960, 64, 8
_PANEL, _GAP, _TOP, _BOTTOM = 110, 38, 22, 34
_MOST_BARS = 120
_MOST_WIDE = 40.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """One step, or several in a row."""

    first: int
    last: int
    actions: tuple[str, ...]
    model_ms: int
    tool_ms: int
    other_ms: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    is_cost_known: bool

    @property
    def steps(self) -> str:
        if self.first == self.last:
            return f"Step {self.first}: {self.actions[0]}"
        return f"Steps {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    parts: tuple[tuple[str, str, Callable[[_Bar], float]], ...]
    """CSS class, name and value of each part of a bar, from the bottom up."""
    unit: Callable[[float], str]


_TIME = _Panel(
    "Time",
    (
        ("p-model", "models", lambda bar: bar.model_ms),
        ("p-tool", "tools", lambda bar: bar.tool_ms),
        ("p-other", "Sandbur itself", lambda bar: bar.other_ms),
    ),
    duration,
)
_TOKENS = _Panel(
    "Tokens",
    (
        ("p-in", "in", lambda bar: bar.tokens_in),
        ("p-out", "out", lambda bar: bar.tokens_out),
    ),
    lambda value: _short(value),
)
_COST = _Panel("Cost", (("p-cost", "US dollars", lambda bar: bar.cost_usd),), lambda value: _dollars(value))


def plot(steps: Sequence[StepCost]) -> str:
    """Return the SVG element; empty without steps."""
    if not steps:
        return ""
    bars = _bars(steps)
    panels = [_TIME, _TOKENS, *([_COST] if any(bar.cost_usd for bar in bars) else [])]
    height = _TOP + len(panels) * (_PANEL + _GAP) - _GAP + _BOTTOM
    content = "".join(
        part
        for place, panel in enumerate(panels)
        for part in _drawn(panel, bars, _TOP + place * (_PANEL + _GAP))
    )
    axis = "".join(_step_axis(bars, height - _BOTTOM))
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="Time, tokens and cost of every step">{content}{axis}</svg>'
    )


def _bars(steps: Sequence[StepCost]) -> list[_Bar]:
    size = math.ceil(len(steps) / _MOST_BARS)
    return [_bar(steps[start : start + size]) for start in range(0, len(steps), size)]


def _bar(steps: Sequence[StepCost]) -> _Bar:
    return _Bar(
        first=steps[0].seq,
        last=steps[-1].seq,
        actions=tuple(step.action for step in steps[:1]),
        model_ms=sum(step.model_ms for step in steps),
        tool_ms=sum(step.tool_ms for step in steps),
        other_ms=sum(step.other_ms for step in steps),
        tokens_in=sum(step.tokens_in for step in steps),
        tokens_out=sum(step.tokens_out for step in steps),
        cost_usd=sum(step.cost_usd or 0.0 for step in steps),
        is_cost_known=all(step.cost_usd is not None for step in steps),
    )


def _drawn(panel: _Panel, bars: Sequence[_Bar], top: int) -> Iterator[str]:
    most = max(sum(value(bar) for _, _, value in panel.parts) for bar in bars)
    end, ticks = _scale(most)
    size = bars[0].last - bars[0].first + 1
    title = f"{panel.title} per {'step' if size == 1 else f'{size} steps'}"
    yield f'<text class="p-title" x="{_LEFT}" y="{top - 8}">{escape(title)}</text>'
    yield from _legend(panel, top)
    for tick in ticks:
        y = top + _PANEL - _PANEL * tick / end
        yield f'<line class="p-grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="p-tick p-end" x="{_LEFT - 6}" y="{y + 4:.1f}">{escape(panel.unit(tick))}</text>'
    pitch = min((_WIDTH - _LEFT - _RIGHT) / len(bars), _MOST_WIDE)
    for place, bar in enumerate(bars):
        x = _LEFT + place * pitch
        yield f"<g><title>{escape(_tooltip(bar))}</title>"
        yield f'<rect class="p-hover" x="{x:.1f}" y="{top}" width="{pitch:.1f}" height="{_PANEL}"/>'
        yield from _stack(panel, bar, x + pitch * 0.1, pitch * 0.8, top, end)
        yield "</g>"


def _stack(panel: _Panel, bar: _Bar, x: float, width: float, top: int, end: float) -> Iterator[str]:
    y = float(top + _PANEL)
    for name, _, value in panel.parts:
        size = _PANEL * value(bar) / end
        if size > 0:
            size = max(size, 0.8)
            y -= size
            yield f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{size:.1f}"/>'


def _legend(panel: _Panel, top: int) -> Iterator[str]:
    x = _WIDTH - _RIGHT
    for name, text, _ in reversed(panel.parts):
        x -= len(text) * 7
        yield f'<text class="p-tick" x="{x}" y="{top - 8}">{escape(text)}</text>'
        yield f'<rect class="{name}" x="{x - 15}" y="{top - 17}" width="10" height="10"/>'
        x -= 32


def _step_axis(bars: Sequence[_Bar], y: int) -> Iterator[str]:
    pitch = min((_WIDTH - _LEFT - _RIGHT) / len(bars), _MOST_WIDE)
    every = max(math.ceil(len(bars) / 12), 1)
    yield f'<line class="p-axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
    for place in range(0, len(bars), every):
        x = _LEFT + (place + 0.5) * pitch
        yield f'<text class="p-tick p-mid" x="{x:.1f}" y="{y + 15}">{bars[place].first}</text>'
    yield f'<text class="p-tick p-end" x="{_WIDTH - _RIGHT}" y="{y + 30}">step</text>'


def _scale(most: float) -> tuple[float, list[float]]:
    """Return the end of an axis and its ticks: 1, 2 or 5 times a power of ten apart."""
    if most <= 0:
        return 1.0, [0.0]
    rough = most / 3
    power = 10 ** math.floor(math.log10(rough))
    width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    count = math.ceil(most / width)
    return width * count, [width * place for place in range(count + 1)]


def _tooltip(bar: _Bar) -> str:
    spent = cost(bar.cost_usd) if bar.is_cost_known else f"at least {cost(bar.cost_usd)}"
    return (
        f"{bar.steps}\nmodels {duration(bar.model_ms)}, tools {duration(bar.tool_ms)},"
        f" Sandbur {duration(bar.other_ms)}\n"
        f"tokens {number(bar.tokens_in)} in, {number(bar.tokens_out)} out\ncost {spent}"
    )


def _short(value: float) -> str:
    if value >= 10**6:
        return f"{value / 10**6:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _dollars(value: float) -> str:
    return f"${value:g}" if value >= 0.0001 or not value else f"${value:.0e}"
