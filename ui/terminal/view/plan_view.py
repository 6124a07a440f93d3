"""The plan of a run: a list in the footer while it is worked on, and lines when it is settled."""

import time
from collections.abc import Iterator

from rich.console import Console

from ....actions.ports.events import PlanChanged, PlanResumed, StepChanged
from ....state.application import VibeStep
from ..lines import plan_lines, step_sign
from ..terminal import Glyphs, can_redraw
from ..text.sanitize import one_line
from .footer import LiveRow
from .plan_progress import MOST_STEPS, PlanProgress
from .scrollback import NARROW, Scrollback


class PlanView:
    """Shows each plan live, and prints it once when it is settled, replaced, or when a question follows."""

    def __init__(self, console: Console, scrollback: Scrollback, glyphs: Glyphs) -> None:
        self._console = console
        self._scrollback = scrollback
        self._glyphs = glyphs
        self._shows_list = True
        self.progress = PlanProgress(glyphs)

    def know(self, steps: tuple[VibeStep, ...]) -> None:
        """Remember a plan that is on the screen already."""
        self.progress.set(steps, is_open=False)

    def change(self, event: PlanChanged) -> None:
        if self.progress.is_open and self.progress.is_begun and not self.progress.is_same(event.steps):
            self._close()
        self.progress.set(event.steps)
        if not can_redraw(self._console):
            self._scrollback.print(plan_lines(event.steps, self._glyphs))

    def resume(self, event: PlanResumed) -> None:
        """Show a plan that is not on the screen yet, and name the current step of the run."""
        is_new = not self.progress.is_same(event.steps)
        self.progress.set(event.steps)
        if is_new and not can_redraw(self._console):
            self._scrollback.print(plan_lines(event.steps, self._glyphs))

    def change_step(self, event: StepChanged) -> None:
        """Print the heading of a step that begins, or the summary of one that ends."""
        progress = self.progress
        progress.change(event.step_id, event.status, time.monotonic())
        sign, style = step_sign(event.status, self._glyphs)
        number, total, _ = progress.place(event.step_id)
        if event.status == "in_progress":
            heading = ("heading", f"{sign} {progress.heading(event.step_id)}")
            # While the plan is visible below, and may be printed for a question, the line is enough.
            if self._is_live and not progress.is_reported:
                self._scrollback.hold(heading)
            else:
                self._scrollback.print([heading], prose=True)
            return
        summary = one_line(" ".join((event.summary or event.status).split()))
        self._scrollback.print([(style, f"{sign} Step {number}/{total}: {summary}"), ("", "")], prose=True)
        if progress.is_settled:
            self._close()

    def end_run(self, *, is_waiting: bool) -> None:
        """Print the plan at the end of a run; `is_waiting`: a question follows, and the plan goes on."""
        if not is_waiting:
            self._close()
        elif self._is_live and not self.progress.is_reported:
            # The following decision belongs to it.
            self.progress.is_reported = True
            self._scrollback.drop_held()
            self.print()

    def print(self) -> None:
        """Print the whole plan with its usage so far."""
        self._scrollback.print(self.progress.lines(time.monotonic()), prose=True)

    def toggle_list(self) -> None:
        """Show the live plan as a list, or only its current step."""
        self._shows_list = not self._shows_list

    def rows(self, moment: float) -> Iterator[LiveRow]:
        """Yield the rows of the list, if there is room for it."""
        if self._is_listed:
            for role, text, end in self.progress.rows(moment, self._most, self._console.width < NARROW):
                yield LiveRow(text, end, role, self._glyphs.rest)

    @property
    def step_below(self) -> str:
        """The heading of the current step where no list shows it; otherwise empty."""
        return "" if self._is_listed else self.progress.active

    @property
    def _is_live(self) -> bool:
        return self.progress.is_open and can_redraw(self._console)

    @property
    def _is_listed(self) -> bool:
        return self.progress.is_open and self._shows_list and self._most > 1

    @property
    def _most(self) -> int:
        """How many steps the list has room for."""
        return min(MOST_STEPS, (self._console.height - 8) // 2)

    def _close(self) -> None:
        """Print the plan permanently, if it was visible while it changed."""
        if self._is_live:
            self._scrollback.print([*self.progress.lines(time.monotonic()), ("", "")], prose=True)
        self.progress.is_open = False
