"""Shows the events of a run as lines for people, in a terminal or on stderr."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from ...actions.ports.events import (
    ApprovalNeeded,
    Event,
    FlowMatched,
    MessageAdded,
    Notice,
    PlanChanged,
    PlanResumed,
    RunFinished,
    RunStarted,
    StepChanged,
    SubAgentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolsChanged,
    ToolStarted,
    UsageChanged,
)
from ...agent.config.settings import Theme
from ...agent.extensions.extension import FindCitedFiles
from ...state.application import VibeStep
from ...state.calls import PendingCall
from .lines import Line, end_lines, flow_line, tools_line, usage_text
from .live import LiveRegion
from .status import StatusFacts, status_cells
from .terminal import glyphs_for
from .text.citation_links import Links, make_file_address
from .text.sanitize import plain
from .text.theme import LOOK, code_theme, put_on
from .text.times import format_seconds
from .view.answer import AnswerView
from .view.calls_view import CallsView
from .view.folds import Folds
from .view.footer import Footer
from .view.plan_view import PlanView
from .view.scrollback import Scrollback
from .view.sub_agents_view import SubAgentsView
from .view.thinking import ThinkingView
from .view.work import WorkView

_INTERRUPT = "Esc stops"
_WAITING = ("needs_approval", "needs_decision")


class Renderer:
    """The view of one session. With `answers` the model's text is displayed too, otherwise only its work.

    It dispatches the events to its parts: the scrollback takes lines that stay, the footer draws live rows
    below them, and the others show one subject each.
    """

    def __init__(self, console: Console, *, answers: bool, verbose: bool = False) -> None:
        self.console = console
        self.glyphs = glyphs_for(console.encoding)
        self.status: StatusFacts | None = None
        """The data of the status line; None: there is no status line."""
        self._answers = answers
        self._live = LiveRegion(console)
        self._folds = Folds()
        self._text = AnswerView(console, self._live)
        scrollback = self._scrollback = Scrollback(console, self._live)
        self._thinking = ThinkingView(console, scrollback, self._folds, is_chat=answers, is_streamed=verbose)
        self._calls = CallsView(
            console, scrollback, self._folds, self.glyphs, is_chat=answers, shows_output=verbose
        )
        self._plan = PlanView(console, scrollback, self.glyphs)
        self._work = WorkView(self.glyphs, self._calls, self._thinking, self._plan)
        self.footer = Footer(
            console,
            self._live,
            self._text,
            {"plan": self._plan.rows, "work": self._work.rows, "status": self._status_rows},
        )
        self._is_streaming = False
        """True between the first delta of a message and its end."""
        self._last_words = ""
        self._model_called = False
        """True once the model was called in this run."""
        self._handlers = self._table()
        self.use_theme(LOOK.theme)

    def _table(self) -> dict[type, Callable[[Any], None]]:
        return {
            RunStarted: self._start_run,
            TextDelta: self._add_text,
            ThinkingDelta: self._thinking.add,
            MessageAdded: self._end_message,
            FlowMatched: lambda event: self._note(flow_line(event)),
            ToolRequested: self._calls.request,
            ToolStarted: self._start_call,
            ToolOutput: self._calls.add_output,
            ToolFinished: self._finish_call,
            ToolsChanged: lambda event: self._note(tools_line(event)),
            PlanChanged: self._plan.change,
            PlanResumed: self._plan.resume,
            StepChanged: self._change_step,
            ApprovalNeeded: self._await_approval,
            Notice: lambda event: self._note(event.message),
            UsageChanged: self._use,
            SubAgentEvent: SubAgentsView(self._calls, self._plan.progress, self._note).show,
            RunFinished: self._finish_run,
        }

    def _start_call(self, event: ToolStarted) -> None:
        self._calls.start(event)
        self._plan.progress.note_call(event.call_id, event.step_id)

    def use_theme(self, name: Theme) -> None:
        """Use other colours from now on."""
        put_on(self.console, name)
        self._text.code_theme = code_theme(name)

    def link_files(self, find: FindCitedFiles | None, env: Mapping[str, str]) -> None:
        """Make the files that answers cite links from now on; None: there are no links. `env` describes the
        terminal."""

        def find_links(text: str) -> Links:
            if find is None:
                return {}
            addresses = (
                (citation, make_file_address(file.path, file.line, env))
                for citation, file in find(text).items()
            )
            return {citation: address for citation, address in addresses if address}

        self._text.find_links = find_links

    def show(self, event: Event) -> None:
        if not isinstance(event, ThinkingDelta):
            self._thinking.end()
        if handle := self._handlers.get(type(event)):
            handle(event)

    def know(self, calls: Iterable[PendingCall], plan: tuple[VibeStep, ...] = ()) -> None:
        """Remember the titles of calls that an earlier process proposed, and a plan that is visible."""
        self._calls.know(calls)
        if plan:
            self._plan.know(plan)

    def begin(self) -> None:
        """Start the clock for what follows."""
        self._work.waiting_since = self.footer.restart_clock()

    def tick(self) -> None:
        """Bring elapsed times up to date."""
        self.footer.tick()

    def lines(self, lines: Iterable[Line], *, prose: bool = False) -> None:
        """Print lines above the live region; prose is wrapped between words."""
        self._scrollback.print(lines, prose=prose)

    def forget_live(self) -> None:
        """Draw the live rows again: the cursor is no longer below them."""
        self._live.forget()

    def toggle_output(self) -> None:
        """Show results in full from now on, beginning with the last folded one; or fold them again."""
        is_whole = self._calls.shows_output = not self._calls.shows_output
        if is_whole and self._folds.has_new:
            self.expand_last()
        self.lines([("quiet", "Output is shown whole." if is_whole else "Long output is folded.")])
        self.footer.refresh()

    def toggle_thinking(self) -> None:
        """Show the model's thinking from now on; or only how long it takes."""
        self._thinking.toggle()
        self.footer.refresh()

    def toggle_plan(self) -> None:
        """Show the plan as a list during a run, or only the current step; between runs print it."""
        if self.footer.is_active:
            self._plan.toggle_list()
            self.footer.refresh()
        elif self._plan.progress.steps:
            self._plan.print()
        else:
            self.lines([("quiet", "There is no plan.")])

    def expand_last(self, count: int = 1) -> int:
        """Print the last texts that were folded, whole; return how many there were."""
        folds = self._folds.last(count)
        for fold in folds:
            self.lines(fold.lines())
        if not folds:
            self.lines([("quiet", "Nothing is folded.")])
        return len(folds)

    def _status_rows(self, _: float) -> Iterator[Text]:
        if self.status is not None:
            cells = status_cells(self.status, self.console.width, self.glyphs, _INTERRUPT)
            yield Text.assemble(*((text, role) for role, text in cells), no_wrap=True)

    def _start_run(self, event: RunStarted) -> None:
        self.footer.is_active = True
        self._plan.progress.go_on(time.monotonic())
        if self.status is not None:
            self.status = replace(self.status, mode=event.mode, model=event.model, sandbox=event.sandbox)

    def _add_text(self, event: TextDelta) -> None:
        self._is_streaming = True
        self._scrollback.print_held()
        if self._answers:
            self._scrollback.separate_answer(event.delta)
            self._text.feed(event.delta)

    def _end_message(self, event: MessageAdded) -> None:
        """Finish the streamed text. A message without a stream is a note of the runtime, which has its own
        event."""
        if self._is_streaming and event.role == "assistant":
            self._last_words = event.content
        self._close_text()

    def _close_text(self) -> None:
        self._text.finish()
        self._is_streaming = False
        self.begin()

    def _note(self, text: str) -> None:
        self._close_text()
        self.lines([("quiet", plain(text))], prose=True)

    def _finish_call(self, event: ToolFinished) -> None:
        self._calls.finish(event)
        self.begin()

    def _change_step(self, event: StepChanged) -> None:
        self._close_text()
        self._plan.change_step(event)

    def _await_approval(self, event: ApprovalNeeded) -> None:
        self._close_text()
        self._calls.know(event.pending)

    def _use(self, event: UsageChanged) -> None:
        self._model_called = True
        self._plan.progress.use(event.latest)
        if self.status is not None:
            self.status = self.status.after(event.latest)

    def _finish_run(self, event: RunFinished) -> None:
        self._close_text()
        self._plan.progress.stop(time.monotonic())
        is_waiting = event.status in _WAITING
        self._calls.stop_all(is_waiting=is_waiting)
        self._plan.end_run(is_waiting=is_waiting)
        if self._answers and event.status == "done" and event.result and event.result != self._last_words:
            self._scrollback.separate_answer(event.result)
            self._text.add(event.result)
        self._last_words = ""
        if self._answers:
            self.lines(end_lines(event), prose=True)
        if self._model_called and not is_waiting:
            self._print_usage(event)
        self._model_called = self.footer.is_active = False
        if (
            not self._answers
        ):  # what follows is printed by others, and would leave the live rows on the screen
            self._live.clear()

    def _print_usage(self, event: RunFinished) -> None:
        """Print what the run used; a plain terminal gets the status line as a line, too."""
        took = format_seconds(event.duration_ms / 1000)
        used = f"{usage_text(event.usage, self.glyphs)} {self.glyphs.dot} {took}"
        self.lines([("quiet", used)], prose=True)
        if LOOK.is_plain and self.status is not None:
            cells = status_cells(self.status, 1000, self.glyphs)
            self.lines([("plain", "".join(text for _, text in cells))], prose=True)
