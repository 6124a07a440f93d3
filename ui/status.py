"""What is going on right now, as the lines of the live region."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ui.sanitize import one_line, plain
from ui.terminal import Glyphs

if TYPE_CHECKING:
    from rich.text import Text

_TAIL_LINES = 3
_TAIL_CHARS = 2000


@dataclass(slots=True)
class RunningCall:
    title: str
    began: float
    output: str = ""
    """The end of what it printed so far."""

    def add(self, chunk: str) -> None:
        self.output = (self.output + chunk)[-_TAIL_CHARS:]


@dataclass(slots=True)
class Status:
    """The running calls, the step they belong to, and since when the model is silent."""

    glyphs: Glyphs
    calls: dict[str, RunningCall] = field(default_factory=dict[str, RunningCall])
    step: str = ""
    waiting_since: float = field(default_factory=time.monotonic)

    def lines(self) -> "list[Text]":
        from rich.text import Text

        now = time.monotonic()
        frames = self.glyphs.spinner
        frame = frames[int(now * 10) % len(frames)]
        shown: list[Text] = []
        for call in self.calls.values():
            shown.append(_line(f"{frame} {call.title}", f" {elapsed(now - call.began)}", "cyan"))
            tail = [line for line in plain(call.output).split("\n") if line.strip()][-_TAIL_LINES:]
            shown += [_line(f"  {self.glyphs.bar} {line}", "", "dim") for line in tail]
        if not shown:
            shown.append(_line(f"{frame} working", f" {elapsed(now - self.waiting_since)}", "dim"))
        if self.step:
            shown.append(_line(one_line(self.step), "", "dim"))
        return shown


def elapsed(seconds: float) -> str:
    """Return a duration as a person writes it."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{int(seconds)}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def _line(text: str, end: str, style: str) -> "Text":
    from rich.text import Text

    return Text.assemble((text, style), (end, "dim"), no_wrap=True, overflow="ellipsis")
