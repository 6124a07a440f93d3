"""Keeps texts that were too long for the screen, so that a key can display them in full."""

from collections import deque
from collections.abc import Iterator

from ....actions.workspace.paths import format_count
from ....state.lazy_dataclass import dataclass
from ..text.diffs import Line, number_diff
from ..text.sanitize import plain

MOST_CHARS = 2_000_000
_MOST_FOLDS = 100
_MOST_LINES = 2000
"""The most lines of one text to print; more would block the chat."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A text of which only a part is on the screen."""

    heading: str
    text: str
    is_diff: bool = False
    role: str = "quiet"

    def lines(self) -> Iterator[Line]:
        """Yield the heading and the lines of the text; of a very long text only its first and last lines."""
        yield "heading", self.heading
        lines = (
            list(number_diff(self.text))
            if self.is_diff
            else [(self.role, line) for line in plain(self.text).split("\n")]
        )
        more = len(lines) - _MOST_LINES
        if more <= 0:
            yield from lines
            return
        yield from lines[: _MOST_LINES // 2]
        yield "caution", f"... {format_count(more, 'line')} left out here ..."
        yield from lines[-_MOST_LINES // 2 :]


class Folds:
    """The newest folded texts; the oldest are dropped when there are too many texts or characters."""

    def __init__(self) -> None:
        self._kept: deque[Fold] = deque(maxlen=_MOST_FOLDS)
        self._chars = 0
        self.has_new = False
        """True while the newest text has not been displayed."""

    def add(self, fold: Fold) -> None:
        if len(self._kept) == _MOST_FOLDS:
            self._chars -= len(self._kept[0].text)
        self._kept.append(fold)
        self._chars += len(fold.text)
        self.has_new = True
        while self._chars > MOST_CHARS and len(self._kept) > 1:
            self._chars -= len(self._kept.popleft().text)

    def last(self, count: int) -> list[Fold]:
        """Return the last `count` texts, the oldest of them first."""
        self.has_new = False
        return list(self._kept)[-count:] if count > 0 else []
