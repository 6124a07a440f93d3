"""Displays the current work, one row each: running calls, thinking, or only a sign of activity."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from .folds import Fold
from .terminal import Glyphs, shorten
from .text.sanitize import plain
from .text.times import format_seconds, whole_seconds

_TAIL_LINES = 12
_TAIL_CHARS = 4000
_WORTH_A_TAIL = 12
"""The fewest columns for the text after a title; with less room it is left out."""
_MOST_THOUGHT_CHARS = 200_000
_MOST_CALLS = 6
"""The most calls with a row; further calls are only counted."""


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A row of the console: `text`, then `more`, then `end`; `rest` marks where a text was shortened.

    `text` is shortened so that `more` has room, for which up to half of the row is reserved.
    """

    text: str
    end: str
    role: str
    rest: str
    more: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(0, options.max_width - cell_len(self.end))
        wanted = cell_len(self.more)
        kept = min(wanted, room - room // 2)
        text = shorten(self.text, room - kept if kept >= min(wanted, _WORTH_A_TAIL) else room, self.rest)
        left = room - cell_len(text)
        more = shorten(self.more, left, self.rest) if left >= min(wanted, _WORTH_A_TAIL) else ""
        yield Text.assemble((text, self.role), (more, "quiet"), (self.end, "quiet"), no_wrap=True)


@dataclass(slots=True)
class RunningCall:
    title: str
    began: float
    output: str = ""
    """The last characters of the output so far."""

    def add(self, chunk: str) -> None:
        self.output = (self.output + chunk)[-_TAIL_CHARS:]

    @property
    def tail(self) -> list[str]:
        return [line for line in plain(self.output).expandtabs(4).split("\n") if line.strip()][-_TAIL_LINES:]


@dataclass(slots=True)
class Thoughts:
    """The model's thinking until it answers or calls a tool."""

    began: float = 0.0
    parts: list[str] = field(default_factory=list[str])
    chars: int = 0

    def add(self, text: str, now: float) -> None:
        if not self.parts:
            self.began = now
        if self.chars < _MOST_THOUGHT_CHARS:
            self.parts.append(text)
            self.chars += len(text)

    def end(self, now: float) -> Fold | None:
        """Return the thinking, or None if there was none, and reset."""
        text = "".join(self.parts).strip("\n")
        heading = f"thought for {format_seconds(max(0.0, now - self.began))}"
        self.parts, self.chars = [], 0
        return Fold(heading, text, role="thought") if text.strip() else None


@dataclass(slots=True)
class WorkView:
    """The running calls, the plan step they belong to, and the time since when no text arrived."""

    glyphs: Glyphs
    calls: dict[str, RunningCall] = field(default_factory=dict[str, RunningCall])
    thinking: Thoughts = field(default_factory=Thoughts)
    step: str = ""
    waiting_since: float = field(default_factory=time.monotonic)
    shows_output: bool = False

    def lines(self, now: float) -> list[LiveRow]:
        frames = self.glyphs.spinner
        frame = frames[int(now * 2) % len(frames)]
        rows = list(self._call_rows(frame, now))
        if not rows:
            doing, since = "working", self.waiting_since
            if self.thinking.parts:
                doing, since = "thinking", self.thinking.began
            rows.append(self._row(f"{frame} {doing}", f" {whole_seconds(int(max(0, now - since)))}", "quiet"))
        if self.step:
            rows.append(self._row(self.step, "", "quiet"))
        return rows

    def _call_rows(self, frame: str, now: float) -> Iterator[LiveRow]:
        running = list(self.calls.values())
        for call in running[:_MOST_CALLS]:
            tail = call.tail
            more = f" {self.glyphs.bar} {tail[-1].strip()}" if tail and not self.shows_output else ""
            took = f" {format_seconds(max(0, now - call.began))}"
            yield LiveRow(f"{frame} {call.title}", took, "busy", self.glyphs.rest, more)
            if self.shows_output:
                yield from (self._row(f"  {self.glyphs.bar} {line}", "", "quiet") for line in tail)
        if len(running) > _MOST_CALLS:
            yield self._row(f"  and {len(running) - _MOST_CALLS} more calls", "", "quiet")

    def _row(self, text: str, end: str, role: str) -> LiveRow:
        return LiveRow(text, end, role, self.glyphs.rest)
