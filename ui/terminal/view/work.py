"""The current work in live rows: running calls, thinking, or only a sign of activity."""

import time
from collections.abc import Iterator

from ..terminal import Glyphs
from ..text.times import whole_seconds
from .calls_view import CallsView
from .footer import LiveRow
from .plan_view import PlanView
from .thinking import ThinkingView


class WorkView:
    """There is always a row: without a running call it shows for how long the model thinks or is silent."""

    def __init__(self, glyphs: Glyphs, calls: CallsView, thinking: ThinkingView, plan: PlanView) -> None:
        self._glyphs = glyphs
        self._calls = calls
        self._thinking = thinking
        self._plan = plan
        self.waiting_since = time.monotonic()

    def rows(self, moment: float) -> Iterator[LiveRow]:
        rows = list(self._calls.rows(moment, _spinner_sign(self._glyphs, moment)))
        yield from rows or [self._activity(moment)]
        if step := self._plan.step_below:
            yield LiveRow(step, "", "quiet", self._glyphs.rest)

    def _activity(self, moment: float) -> LiveRow:
        began = self._thinking.began
        if began is None:
            return activity_row(self._glyphs, "working", self.waiting_since, moment)
        return activity_row(self._glyphs, "thinking", began, moment)


def activity_row(glyphs: Glyphs, doing: str, since: float, moment: float) -> LiveRow:
    """Return a row with a spinner, what is done, and for how long."""
    took = f" {whole_seconds(int(max(0, moment - since)))}"
    return LiveRow(f"{_spinner_sign(glyphs, moment)} {doing}", took, "quiet", glyphs.rest)


def _spinner_sign(glyphs: Glyphs, moment: float) -> str:
    return glyphs.spinner[int(moment * 2) % len(glyphs.spinner)]
