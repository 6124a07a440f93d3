"""The model's thinking: streamed as lines, or summed up in one line that a key unfolds."""

import time
from dataclasses import field

from rich.console import Console

from ....actions.ports.events import ThinkingDelta
from ....state.lazy_dataclass import dataclass
from ..text.sanitize import plain
from ..text.times import format_seconds
from .folds import Fold, Folds
from .scrollback import Scrollback

_MOST_THOUGHT_CHARS = 200_000


@dataclass(slots=True)
class _Thoughts:
    """The text of the thinking until the model answers or calls a tool."""

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
        """Return the thinking, and reset."""
        text = "".join(self.parts).strip("\n")
        heading = f"thought for {format_seconds(max(0.0, now - self.began))}"
        self.parts, self.chars = [], 0
        return Fold(heading, text, role="thought") if text.strip() else None


class ThinkingView:
    """Prints the thinking of one session. Outside of a chat it is left out, unless it is streamed."""

    def __init__(
        self, console: Console, scrollback: Scrollback, folds: Folds, *, is_chat: bool, is_streamed: bool
    ) -> None:
        self._console = console
        self._scrollback = scrollback
        self._folds = folds
        self._is_chat = is_chat
        self._is_streamed = is_streamed
        self._thoughts = _Thoughts()
        self._line = ""
        """The line that is not complete yet."""

    @property
    def began(self) -> float | None:
        """The start of the current thinking on the monotonic clock; None: the model is not thinking."""
        return self._thoughts.began if self._thoughts.parts else None

    def add(self, event: ThinkingDelta) -> None:
        self._thoughts.add(event.delta, time.monotonic())
        if self._is_streamed:
            self._print(event.delta)

    def end(self) -> None:
        """Print one line about the thinking, if there was any; a key shows the text."""
        if not self._thoughts.parts:
            return
        if self._line:
            self._print("\n")
        fold = self._thoughts.end(time.monotonic())
        if fold is None or not (self._is_chat or self._is_streamed):
            return
        if not self._is_streamed:
            self._folds.add(fold)
        self._scrollback.print([("thought", fold.heading)], is_work=True)

    def toggle(self) -> None:
        """Stream the thinking from now on, beginning with the current one; or only sum it up."""
        self._is_streamed = not self._is_streamed
        message = "Thinking is shown." if self._is_streamed else "Thinking is summed up in one line."
        self._scrollback.print([("quiet", message)])
        if self._is_streamed and self._thoughts.parts:
            self._print("".join(self._thoughts.parts))

    def _print(self, text: str) -> None:
        """Print complete lines, and on a terminal also full rows."""
        *lines, self._line = (self._line + text).split("\n")
        if self._console.is_terminal and len(self._line) > self._console.width:
            full, _, _ = self._line[: self._console.width + 1].rpartition(" ")
            if full:
                lines, self._line = [*lines, full], self._line[len(full) + 1 :]
        if lines:
            self._scrollback.print((("thought", plain(line)) for line in lines), prose=True)
