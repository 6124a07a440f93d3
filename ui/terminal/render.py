"""Shows the events of a run as lines for people, in a terminal or on stderr."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...actions.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    Notice,
    PlanChanged,
    PlanResumed,
    RunFinished,
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
from ...state.application import VibeStep
from ...state.calls import PendingCall
from .answer import AnswerView
from .lines import (
    Line,
    RunningCall,
    Status,
    elapsed,
    end_lines,
    finish_line,
    plan_lines,
    result_lines,
    step_sign,
    title,
    tools_line,
    usage_text,
)
from .live import LiveRegion, ScreenRow
from .sanitize import one_line, plain
from .terminal import can_redraw, glyphs_for

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PAUSE_S, _PAUSE_WHILE_TEXT_FLOWS_S = 0.5, 1.0
"""How long the clock of the status stands still."""
_DECISION_TOOLS = ("start_plan", "submit_plan", "finish_step")


class Renderer:
    """The view of one session. With `answers` the model's words are shown too, else only its work."""

    def __init__(self, console: "Console", *, answers: bool, verbose: bool = False) -> None:
        self.console = console
        self.glyphs = glyphs_for(console.encoding)
        self._answers = answers
        self._verbose = verbose
        self._live = LiveRegion(console)
        self._status = Status(self.glyphs)
        self._text = AnswerView(console, self._live)
        self._moment = 0.0
        """The time that the status shows."""
        self._thought = ""
        """The line of thinking that is not whole yet."""
        self._streamed = False
        """True between the first delta of a message and its end."""
        self._last_words = ""
        self._model_called = False
        """True once the model was called in this run."""
        self._titles: dict[str, str] = {}
        self._plan: tuple[VibeStep, ...] = ()
        self.composing: Callable[[], RenderableType | None] = lambda: None
        """Gives the rows that stand last: what is being typed during a run."""
        self._shows: dict[type, Callable[[Any], None]] = {
            TextDelta: self._text_delta,
            ThinkingDelta: self._thinking,
            MessageAdded: self._message,
            ToolRequested: self._requested,
            ToolStarted: self._started,
            ToolOutput: self._output,
            ToolFinished: self._finished,
            ToolsChanged: self._tools_changed,
            PlanChanged: self._plan_changed,
            PlanResumed: self._plan_resumed,
            StepChanged: self._step_changed,
            ApprovalNeeded: self._approval,
            Notice: self._notice,
            UsageChanged: self._usage_changed,
            RunFinished: self._run_finished,
        }

    def show(self, event: Event) -> None:
        if self._thought and not isinstance(event, ThinkingDelta):
            self._think("\n")
        if shows := self._shows.get(type(event)):
            shows(event)

    def know(self, calls: Iterable[PendingCall], plan: tuple[VibeStep, ...] = ()) -> None:
        """Remember the titles of calls that an earlier process asked for, and a plan already shown."""
        self._titles |= {call.call_id: title(call.tool, call.arguments) for call in calls}
        self._plan = plan or self._plan

    def begin(self) -> None:
        """Count the time of what comes next from now on."""
        self._status.waiting_since = self._moment = time.monotonic()

    def tick(self) -> None:
        if not can_redraw(self.console):
            return
        now = time.monotonic()
        pause = _PAUSE_WHILE_TEXT_FLOWS_S if self._text.is_flowing(now) else _PAUSE_S
        if now - self._moment >= pause:
            self._moment = now
        self._text.draw(now, self._foot())

    def refresh(self) -> None:
        """Draw the foot now, below what is shown."""
        if can_redraw(self.console):
            self._text.keep(self._foot())

    def _foot(self) -> "list[ScreenRow]":
        from rich.console import Group

        typed = self.composing()
        last = [] if typed is None else [typed]
        return self._live.rows(Group(*self._status.lines(self._moment), *last))

    def lines(self, lines: Iterable[Line], *, prose: bool = False) -> None:
        """Print lines above the live region; prose is wrapped between words, all else stays as it is."""
        from rich.text import Text

        self._live.clear()
        for style, text in lines:
            self.console.print(Text(text, style=style), soft_wrap=not (prose and self.console.is_terminal))

    def forget_live(self) -> None:
        """Draw what changes anew: the cursor is no longer below it."""
        self._live.forget()

    def _text_delta(self, event: TextDelta) -> None:
        self._streamed = True
        if self._answers:
            self._text.feed(event.delta)

    def _thinking(self, event: ThinkingDelta) -> None:
        if self._verbose:
            self._think(event.delta)

    def _think(self, text: str) -> None:
        """Print the lines that are whole by now, on a terminal those that are full too."""
        *lines, self._thought = (self._thought + text).split("\n")
        if self.console.is_terminal and len(self._thought) > self.console.width:
            full, _, _ = self._thought[: self.console.width + 1].rpartition(" ")
            if full:
                lines, self._thought = [*lines, full], self._thought[len(full) + 1 :]
        if lines:
            self.lines((("dim italic", plain(line)) for line in lines), prose=True)

    def _message(self, event: MessageAdded) -> None:
        """Close what streamed in. A message that never streamed is a note of the runtime, told otherwise."""
        if self._streamed and event.role == "assistant":
            self._last_words = event.content
        self._close_text()

    def _close_text(self) -> None:
        self._text.finish()
        self._streamed = False
        self.begin()

    def _notice(self, event: Notice) -> None:
        self._close_text()
        self.lines([("dim", plain(event.message))], prose=True)

    def _tools_changed(self, event: ToolsChanged) -> None:
        self._close_text()
        self.lines([("dim", plain(tools_line(event)))], prose=True)

    def _requested(self, event: ToolRequested) -> None:
        self._titles[event.call_id] = title(event.tool, event.arguments)

    def _started(self, event: ToolStarted) -> None:
        name = self._titles.get(event.call_id) or title(event.tool, "")
        self._status.calls[event.call_id] = RunningCall(name, time.monotonic())
        if not can_redraw(self.console):
            self.lines([("", f"{self.glyphs.doing} {name}")])

    def _output(self, event: ToolOutput) -> None:
        if call := self._status.calls.get(event.call_id):
            call.add(event.chunk)

    def _finished(self, event: ToolFinished) -> None:
        self._status.calls.pop(event.call_id, None)
        name = self._fitting(self._titles.pop(event.call_id, "") or title(event.tool, ""))
        shown = result_lines(event, self.glyphs, self._verbose) if self._answers or self._verbose else ()
        self.lines([finish_line(event, name, self.glyphs), *shown])
        self.begin()

    def _fitting(self, name: str) -> str:
        """Return a title that leaves room for the outcome on its line."""
        room = max(20, self.console.width - 30)
        if not self.console.is_terminal or len(name) <= room:
            return name
        return name[:room] + self.glyphs.rest

    def _plan_changed(self, event: PlanChanged) -> None:
        self._plan = event.steps
        self.lines(plan_lines(event.steps, self.glyphs))

    def _plan_resumed(self, event: PlanResumed) -> None:
        """Show a plan that is not on the screen yet, and name the step that the run stands in."""
        if _outline(event.steps) != _outline(self._plan):
            self.lines(plan_lines(event.steps, self.glyphs))
        self._plan = event.steps
        active = next((step.step_id for step in event.steps if step.status == "in_progress"), None)
        self._status.step = self._heading(active) if active is not None else ""

    def _heading(self, step_id: str) -> str:
        number, total, description = self._place(step_id)
        return f"Step {number}/{total} {self.glyphs.dot} {description}"

    def _step_changed(self, event: StepChanged) -> None:
        self._close_text()
        sign, style = step_sign(event.status, self.glyphs)
        number, total, _ = self._place(event.step_id)
        heading = self._heading(event.step_id)
        self._status.step = heading if event.status == "in_progress" else ""
        if event.status == "in_progress":
            self.lines([("bold", f"{sign} {heading}")])
        else:
            summary = one_line(" ".join((event.summary or event.status).split()))
            self.lines([(style, f"{sign} Step {number}/{total}: {summary}"), ("", "")], prose=True)

    def _place(self, step_id: str) -> tuple[int, int, str]:
        """Return a step's number, how many there are, and what it is about."""
        for number, step in enumerate(self._plan, 1):
            if step.step_id == step_id:
                return number, len(self._plan), one_line(step.description)
        return 0, len(self._plan), one_line(step_id)

    def _approval(self, event: ApprovalNeeded) -> None:
        self._close_text()
        self.know(event.pending)

    def _usage_changed(self, _: UsageChanged) -> None:
        self._model_called = True

    def _run_finished(self, event: RunFinished) -> None:
        self._close_text()
        sign = self.glyphs.denied
        self.lines(("yellow", f"{sign} {call.title}  stopped") for call in self._status.calls.values())
        self._status.calls.clear()
        self._status.step = ""
        if self._answers and event.status == "done" and event.result and event.result != self._last_words:
            self._text.add(event.result)
        self._last_words = ""
        if self._answers:
            self.lines(end_lines(event), prose=True)
        if self._model_called and event.status not in ("needs_approval", "needs_decision"):
            took = elapsed(event.duration_ms / 1000)
            self.lines([("dim", f"{usage_text(event.usage, self.glyphs)} {self.glyphs.dot} {took}")])
        self._model_called = False


def _outline(plan: tuple[VibeStep, ...]) -> list[tuple[str, str]]:
    return [(step.step_id, step.description) for step in plan]
