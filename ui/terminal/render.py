"""Shows the events of a run as lines for people, in a terminal or on stderr."""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
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
from ...state.application import VibeStep
from ...state.calls import PendingCall
from .answer import AnswerView
from .folds import Fold, Folds
from .lines import (
    Line,
    end_lines,
    finish_line,
    flow_line,
    is_difference,
    is_folded,
    plan_lines,
    result_lines,
    result_text,
    step_sign,
    title,
    tools_line,
    usage_text,
)
from .live import LiveRegion, ScreenRow
from .plan import MOST_STEPS, PlanView
from .status import StatusFacts, status_cells
from .terminal import can_redraw, glyphs_for
from .text.diffs import Emphasized, cut
from .text.sanitize import one_line, plain
from .text.theme import LOOK, code_theme, put_on
from .text.times import format_seconds
from .work import LiveRow, RunningCall, WorkView

_PAUSE_S, _PAUSE_WHILE_TEXT_FLOWS_S = 0.5, 1.0
"""How long the clock in the status line may pause, in seconds."""
_NARROW = 60
"""With fewer columns the text of a step has no tokens, and lines are wrapped between words."""
_EXPAND = "Ctrl-O or /expand"
_INTERRUPT = "Esc stops"
_WAITING = ("needs_approval", "needs_decision")


class Renderer:
    """The view of one session. With `answers` the model's text is displayed too, otherwise only its work."""

    def __init__(self, console: Console, *, answers: bool, verbose: bool = False) -> None:
        self.console = console
        self.glyphs = glyphs_for(console.encoding)
        self.composing: Callable[[], RenderableType | None] = lambda: None
        """Returns the rows of the input line during a run, above the status line."""
        self.status: StatusFacts | None = None
        """The data of the status line; None: there is no status line."""
        self._answers = answers
        self._shows_output = self._shows_thinking = verbose
        self._shows_plan = True
        self._is_running = False
        self._live = LiveRegion(console)
        self._work = WorkView(self.glyphs, shows_output=verbose)
        self._plan = PlanView(self.glyphs)
        self._folds = Folds()
        self._text = AnswerView(console, self._live)
        self._moment = 0.0
        """The time that the status shows."""
        self._thought = ""
        """The line of thinking that is not whole yet."""
        self._streamed = False
        """True between the first delta of a message and its end."""
        self._held_heading: list[Line] = []
        """The line of a step that has begun, until something of the step is printed."""
        self._ends_with_work = False
        """True while the last row that was printed is about a call or about thinking."""
        self._last_words = ""
        self._model_called = False
        """True once the model was called in this run."""
        self._titles: dict[str, str] = {}
        self._shows = self._table()
        self.use_theme(LOOK.theme)

    def _table(self) -> dict[type, Callable[[Any], None]]:
        return {
            RunStarted: self._run_started,
            TextDelta: self._text_delta,
            ThinkingDelta: self._thinking,
            MessageAdded: self._message,
            FlowMatched: self._flow_matched,
            ToolRequested: self._show_request,
            ToolStarted: self._show_start,
            ToolOutput: self._output,
            ToolFinished: self._show_finish,
            ToolsChanged: self._tools_changed,
            PlanChanged: self._plan_changed,
            PlanResumed: self._plan_resumed,
            StepChanged: self._step_changed,
            ApprovalNeeded: self._approval,
            Notice: self._notice,
            UsageChanged: self._usage_changed,
            RunFinished: self._run_finished,
        }

    def use_theme(self, name: Theme) -> None:
        """Use other colours from now on."""
        put_on(self.console, name)
        self._text.code_theme = code_theme(name)

    def show(self, event: Event) -> None:
        if self._work.thinking.parts and not isinstance(event, ThinkingDelta):
            self._end_thinking()
        if shows := self._shows.get(type(event)):
            shows(event)

    def know(self, calls: Iterable[PendingCall], plan: tuple[VibeStep, ...] = ()) -> None:
        """Remember the titles of calls that an earlier process proposed, and a plan that is visible."""
        self._titles |= {call.call_id: title(call.tool, call.arguments) for call in calls}
        if plan:
            self._plan.set(plan, is_open=False)

    def begin(self) -> None:
        """Start the clock for what follows."""
        self._work.waiting_since = self._moment = time.monotonic()

    def tick(self) -> None:
        """Bring elapsed times up to date."""
        if not can_redraw(self.console):
            return
        now = time.monotonic()
        pause = _PAUSE_WHILE_TEXT_FLOWS_S if self._text.is_flowing(now) else _PAUSE_S
        if now - self._moment >= pause:
            self._moment = now
        self._is_running = True
        self._text.draw(now, self._foot())

    def refresh(self) -> None:
        """Draw the foot now, below the output; between runs there is none."""
        if self._is_running and can_redraw(self.console):
            self._text.keep(self._foot())

    def lines(self, lines: Iterable[Line], *, prose: bool = False) -> None:
        """Print lines above the live region; prose is wrapped between words.

        Other lines stay unwrapped, so that they can be copied; only a narrow window is an exception.
        """
        printed = list(lines)
        if printed:
            self._show_held_heading()
            self._ends_with_work = False
        self._live.clear()
        console = self.console
        for style, text in printed:
            styled = _style(style, text)
            if console.is_terminal and (prose or console.width < _NARROW):
                styled = _hanging(styled, console)
            console.print(styled, soft_wrap=True)

    def _show_held_heading(self) -> None:
        if self._held_heading:
            heading, self._held_heading = self._held_heading, []
            self.lines(heading, prose=True)

    def forget_live(self) -> None:
        """Draw the live rows again: the cursor is no longer below them."""
        self._live.forget()

    def toggle_output(self) -> None:
        """Show results in full from now on, beginning with the last folded one; or fold them again."""
        self._shows_output = self._work.shows_output = not self._shows_output
        if self._shows_output and self._folds.has_new:
            self.expand_last()
        message = "Output is shown whole." if self._shows_output else "Long output is folded."
        self.lines([("quiet", message)])
        self.refresh()

    def toggle_thinking(self) -> None:
        """Show the model's thinking from now on; or only how long it takes."""
        self._shows_thinking = not self._shows_thinking
        message = "Thinking is shown." if self._shows_thinking else "Thinking is summed up in one line."
        self.lines([("quiet", message)])
        if self._shows_thinking and (parts := self._work.thinking.parts):
            self._think("".join(parts))
        self.refresh()

    def toggle_plan(self) -> None:
        """Show the plan as a list during a run, or only the current step; between runs print it."""
        if self._is_running:
            self._shows_plan = not self._shows_plan
            self.refresh()
        elif self._plan.steps:
            self.lines(self._plan.lines(time.monotonic()), prose=True)
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

    def _foot(self) -> list[ScreenRow]:
        """Return the rows below the answer: work, plan, input line, status."""
        rows: list[RenderableType] = [*self._plan_rows(), *self._work.lines(self._moment)]
        typed = self.composing()
        if typed is not None:
            rows.append(typed)
        if self.status is not None:
            rows.append(self._status_row(self.status))
        return self._live.rows(Group(*rows))

    def _plan_rows(self) -> list[LiveRow]:
        self._work.step = self._plan.active
        most = min(MOST_STEPS, (self.console.height - 8) // 2)
        if not (self._plan.is_open and self._shows_plan and most > 1):
            return []
        self._work.step = ""
        rows = self._plan.rows(self._moment, most, self.console.width < _NARROW)
        return [LiveRow(text, end, role, self.glyphs.rest) for role, text, end in rows]

    def _status_row(self, facts: StatusFacts) -> Text:
        cells = status_cells(facts, self.console.width, self.glyphs, _INTERRUPT)
        return Text.assemble(*((text, role) for role, text in cells), no_wrap=True)

    def _run_started(self, event: RunStarted) -> None:
        self._is_running = True
        self._plan.go_on(time.monotonic())
        if self.status is not None:
            self.status = replace(self.status, mode=event.mode, model=event.model, sandbox=event.sandbox)

    def _text_delta(self, event: TextDelta) -> None:
        self._streamed = True
        self._show_held_heading()
        if self._answers:
            self._separate_answer(event.delta)
            self._text.feed(event.delta)

    def _separate_answer(self, text: str) -> None:
        """Print an empty line between calls or thinking and the following answer."""
        if self._ends_with_work and text.strip():
            self.lines([("", "")])

    def _thinking(self, event: ThinkingDelta) -> None:
        self._work.thinking.add(event.delta, time.monotonic())
        if self._shows_thinking:
            self._think(event.delta)

    def _end_thinking(self) -> None:
        """Print one line about the thinking; a key shows the text."""
        if self._thought:
            self._think("\n")
        fold = self._work.thinking.end(time.monotonic())
        if fold is None or not (self._answers or self._shows_thinking):
            return
        if not self._shows_thinking:
            self._folds.add(fold)
        self.lines([("thought", fold.heading)])
        self._ends_with_work = True

    def _think(self, text: str) -> None:
        """Print complete lines, and on a terminal also full rows."""
        *lines, self._thought = (self._thought + text).split("\n")
        if self.console.is_terminal and len(self._thought) > self.console.width:
            full, _, _ = self._thought[: self.console.width + 1].rpartition(" ")
            if full:
                lines, self._thought = [*lines, full], self._thought[len(full) + 1 :]
        if lines:
            self.lines((("thought", plain(line)) for line in lines), prose=True)

    def _message(self, event: MessageAdded) -> None:
        """Finish the streamed text. A message without a stream is a note of the runtime, which has its own
        event."""
        if self._streamed and event.role == "assistant":
            self._last_words = event.content
        self._close_text()

    def _close_text(self) -> None:
        self._text.finish()
        self._streamed = False
        self.begin()

    def _notice(self, event: Notice) -> None:
        self._close_text()
        self.lines([("quiet", plain(event.message))], prose=True)

    def _tools_changed(self, event: ToolsChanged) -> None:
        self._close_text()
        self.lines([("quiet", plain(tools_line(event)))], prose=True)

    def _flow_matched(self, event: FlowMatched) -> None:
        self._close_text()
        self.lines([("quiet", plain(flow_line(event)))], prose=True)

    def _show_request(self, event: ToolRequested) -> None:
        self._titles[event.call_id] = title(event.tool, event.arguments)

    def _show_start(self, event: ToolStarted) -> None:
        name = self._titles.get(event.call_id) or title(event.tool, "")
        self._work.calls[event.call_id] = RunningCall(name, time.monotonic())
        if not can_redraw(self.console):
            self.lines([("plain", f"{self.glyphs.doing} {name}")])

    def _output(self, event: ToolOutput) -> None:
        if call := self._work.calls.get(event.call_id):
            call.add(event.chunk)

    def _show_finish(self, event: ToolFinished) -> None:
        self._work.calls.pop(event.call_id, None)
        name = self._fitting(self._titles.pop(event.call_id, "") or title(event.tool, ""))
        self.lines([finish_line(event, name, self.glyphs), *self._result(event, name)])
        self._ends_with_work = True
        self.begin()

    def _result(self, event: ToolFinished, name: str) -> Iterable[Line]:
        if not self._answers and not self._shows_output:
            return ()
        width = self.console.width if self.console.is_terminal else 200
        key = _EXPAND if self._answers else ""
        if not self._shows_output and is_folded(event, width) and (text := result_text(event)).strip():
            self._folds.add(Fold(name, text, is_difference(event)))
        return result_lines(event, self.glyphs, self._shows_output, width, key)

    def _fitting(self, name: str) -> str:
        """Return a title that leaves room for the outcome on its line."""
        room = max(20, self.console.width - 30)
        return cut(name, room, self.glyphs.rest) if self.console.is_terminal else name

    def _plan_changed(self, event: PlanChanged) -> None:
        if self._plan.is_open and self._plan.is_begun and not self._plan.is_same(event.steps):
            self._print_plan()
        self._plan.set(event.steps)
        if not can_redraw(self.console):
            self.lines(plan_lines(event.steps, self.glyphs))

    def _plan_resumed(self, event: PlanResumed) -> None:
        """Show a plan that is not on the screen yet, and name the current step of the run."""
        is_new = not self._plan.is_same(event.steps)
        self._plan.set(event.steps)
        if is_new and not can_redraw(self.console):
            self.lines(plan_lines(event.steps, self.glyphs))

    def _step_changed(self, event: StepChanged) -> None:
        self._close_text()
        self._plan.change(event.step_id, event.status, time.monotonic())
        sign, style = step_sign(event.status, self.glyphs)
        number, total, _ = self._plan.place(event.step_id)
        if event.status == "in_progress":
            heading = [("heading", f"{sign} {self._plan.heading(event.step_id)}")]
            # While the plan is visible below, and may be printed for a question, the line is enough.
            if self._plan.is_open and not self._plan.is_reported and can_redraw(self.console):
                self._held_heading = heading
            else:
                self.lines(heading, prose=True)
            return
        summary = one_line(" ".join((event.summary or event.status).split()))
        self.lines([(style, f"{sign} Step {number}/{total}: {summary}"), ("", "")], prose=True)
        if self._plan.is_settled:
            self._print_plan()

    def _print_plan(self) -> None:
        """Print the plan permanently, if it was visible while it changed."""
        if self._plan.is_open and can_redraw(self.console):
            self.lines([*self._plan.lines(time.monotonic()), ("", "")], prose=True)
        self._plan.is_open = False

    def _approval(self, event: ApprovalNeeded) -> None:
        self._close_text()
        self.know(event.pending)

    def _usage_changed(self, event: UsageChanged) -> None:
        self._model_called = True
        self._plan.use(event.latest)
        if self.status is not None:
            self.status = self.status.after(event.latest)

    def _run_finished(self, event: RunFinished) -> None:
        self._close_text()
        self._plan.stop(time.monotonic())
        sign = self.glyphs.denied
        self.lines(("careful", f"{sign} {call.title}  stopped") for call in self._work.calls.values())
        self._work.calls.clear()
        self._work.step = ""
        if event.status not in _WAITING:
            self._print_plan()
        elif self._plan.is_open and not self._plan.is_reported and can_redraw(self.console):
            # The following decision belongs to it.
            self._plan.is_reported, self._held_heading = True, []
            self.lines(self._plan.lines(time.monotonic()), prose=True)
        if self._answers and event.status == "done" and event.result and event.result != self._last_words:
            self._separate_answer(event.result)
            self._text.add(event.result)
        self._last_words = ""
        if self._answers:
            self.lines(end_lines(event), prose=True)
        if self._model_called and event.status not in _WAITING:
            took = format_seconds(event.duration_ms / 1000)
            used = f"{usage_text(event.usage, self.glyphs)} {self.glyphs.dot} {took}"
            self.lines([("quiet", used)], prose=True)
            self._tell_status()
        self._model_called = self._is_running = False

    def _tell_status(self) -> None:
        """Print in a line what a status line would show."""
        if LOOK.is_plain and self.status is not None:
            cells = status_cells(self.status, 1000, self.glyphs)
            self.lines([("plain", "".join(text for _, text in cells))])


def _style(style: str, text: str) -> Text:
    styled = Text(str(text), style=style)
    if isinstance(text, Emphasized):
        for start, end in text.parts:
            styled.stylize(text.role, start, end)
        styled.stylize("frame", 0, text.frame)
    return styled


_HEAD = re.compile(r"[ ]*(?:[│|┆:] )?[ ]*(?:[^\w\s\"'(\[/-] )?[ ]*(?:\d{1,3}\. )?")
"""A bar, a sign and a number: continuation rows begin below the text after them."""


def _hanging(text: Text, console: Console) -> Text:
    """Return a line wrapped between words, with continuation rows indented below its start and without its
    bar."""
    if cell_len(text.plain) <= console.width:
        return text
    head = _HEAD.match(text.plain)
    at = min(head.end() if head else 0, console.width // 3)
    rows = text[at:].wrap(console, console.width - at, overflow="fold")
    indent = Text("\n" + " " * at)
    return Text.assemble(text[:at], indent.join(rows))
