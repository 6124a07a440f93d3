"""The tool calls of a run: a live row while a call runs, and lines with its outcome afterwards."""

import time
from collections.abc import Iterable, Iterator
from itertools import chain

from rich.console import Console

from ....actions.ports.events import ToolFinished, ToolOutput, ToolRequested, ToolStarted
from ....actions.workspace.paths import format_count
from ....state.calls import PendingCall
from ....state.lazy_dataclass import dataclass
from ..lines import (
    MOST_NESTED,
    Line,
    finish_line,
    is_difference,
    is_folded,
    result_lines,
    result_text,
    title,
)
from ..terminal import Glyphs, can_redraw
from ..text.diffs import cut
from ..text.sanitize import plain
from ..text.times import format_seconds
from .folds import Fold, Folds
from .footer import LiveRow
from .scrollback import Scrollback

_TAIL_LINES = 12
_TAIL_CHARS = 4000
_MOST_CALLS = 6
"""Rows; further calls are only counted."""
_EXPAND = "Ctrl-O or /expand"


@dataclass(slots=True)
class _RunningCall:
    title: str
    began: float
    parent_call_id: str
    """The call whose tool made this call; empty if a model requested it."""
    output: str = ""
    """The end of its output so far."""

    def add(self, chunk: str) -> None:
        self.output = (self.output + chunk)[-_TAIL_CHARS:]

    @property
    def indent(self) -> str:
        return "  " if self.parent_call_id else ""

    @property
    def tail(self) -> list[str]:
        return [line for line in plain(self.output).expandtabs(4).split("\n") if line.strip()][-_TAIL_LINES:]


class CallsView:
    """The calls of one session. A call has a title from its proposal to its result, also if an earlier
    process proposed it."""

    def __init__(
        self,
        console: Console,
        scrollback: Scrollback,
        folds: Folds,
        glyphs: Glyphs,
        *,
        is_chat: bool,
        shows_output: bool,
    ) -> None:
        """`is_chat`: long results are folded and a key unfolds them. Otherwise they are left out, unless
        `shows_output`."""
        self._console = console
        self._scrollback = scrollback
        self._folds = folds
        self._glyphs = glyphs
        self._is_chat = is_chat
        self.shows_output = shows_output
        """Whether results are printed in full."""
        self._titles: dict[str, str] = {}
        self._running: dict[str, _RunningCall] = {}
        self._below: dict[str, list[list[Line]]] = {}
        """The call of a tool -> the lines of each ended call that the tool made. They are printed with it."""

    def know(self, calls: Iterable[PendingCall]) -> None:
        """Remember the titles of calls."""
        self._titles |= {call.call_id: title(call.tool, call.arguments) for call in calls}

    def request(self, event: ToolRequested) -> None:
        self._titles[event.call_id] = title(event.tool, event.arguments)

    def start(self, event: ToolStarted) -> None:
        name = self._titles.get(event.call_id) or title(event.tool, "")
        call = _RunningCall(name, time.monotonic(), event.parent_call_id)
        self._running[event.call_id] = call
        if not can_redraw(self._console):
            self._scrollback.print([("plain", f"{call.indent}{self._glyphs.doing} {name}")])

    def add_output(self, event: ToolOutput) -> None:
        if call := self._running.get(event.call_id):
            call.add(event.chunk)

    def finish(self, event: ToolFinished) -> None:
        """Print the outcome, and the visible part of the result. A call that a tool made is printed below
        the call of the tool, as soon as that call ends.
        """
        self._running.pop(event.call_id, None)
        name = self._fitting(self._titles.pop(event.call_id, "") or title(event.tool, ""))
        head, rest = finish_line(event, name, self._glyphs), self._result(event, name)
        if event.parent_call_id in self._titles and can_redraw(self._console):
            self._below.setdefault(event.parent_call_id, []).append([head, *rest])
        else:
            self._scrollback.print([head, *self._pop_below(event.call_id), *rest], is_work=True)

    def stop_all(self, *, is_waiting: bool) -> None:
        """Print which calls had no result at the end of the run. They wait if the run waits for a person."""
        sign, end = (self._glyphs.doing, "waits") if is_waiting else (self._glyphs.denied, "stopped")
        for call_id, call in self._in_order():
            line = ("careful", f"{call.indent}{sign} {call.title}  {end}")
            self._scrollback.print([line, *self._pop_below(call_id)])
        for parent in tuple(self._below):
            self._scrollback.print(self._pop_below(parent))
        self._running.clear()

    def _pop_below(self, call_id: str) -> Iterator[Line]:
        made = self._below.pop(call_id, [])
        most = len(made) if self.shows_output else MOST_NESTED
        yield from chain.from_iterable(made[:most])
        if (more := len(made) - most) > 0:
            yield "quiet", f"  and {format_count(more, 'more call')}"

    def _in_order(self) -> list[tuple[str, _RunningCall]]:
        """Return the running calls by id, each followed by those that it made."""
        return sorted(self._running.items(), key=lambda item: self._place(item[1]))

    def _place(self, call: _RunningCall) -> float:
        """Return when the call, or the call that made it, began."""
        parent = self._running.get(call.parent_call_id)
        return call.began if parent is None else parent.began

    def rows(self, moment: float, frame: str) -> Iterator[LiveRow]:
        """Yield the running calls with the end of their output; `frame` is the current spinner sign."""
        running = self._in_order()
        for call_id, call in running[:_MOST_CALLS]:
            tail = call.tail
            made = len(self._below.get(call_id, ()))
            news = [format_count(made, "call")] if made else []
            news += [tail[-1].strip()] if tail and not self.shows_output else []
            more = "".join(f" {self._glyphs.bar} {text}" for text in news)
            took = f" {format_seconds(max(0, moment - call.began))}"
            yield LiveRow(f"{call.indent}{frame} {call.title}", took, "busy", self._glyphs.rest, more)
            if self.shows_output:
                yield from (self._row(f"  {self._glyphs.bar} {line}") for line in tail)
        if len(running) > _MOST_CALLS:
            yield self._row(f"  and {len(running) - _MOST_CALLS} more calls")

    def _row(self, text: str) -> LiveRow:
        return LiveRow(text, "", "quiet", self._glyphs.rest)

    def _result(self, event: ToolFinished, name: str) -> Iterable[Line]:
        if not self._is_chat and not self.shows_output:
            return ()
        width = self._console.width if self._console.is_terminal else 200
        key = _EXPAND if self._is_chat else ""
        if not self.shows_output and is_folded(event, width) and (text := result_text(event)).strip():
            self._folds.add(Fold(name, text, is_difference(event)))
        return result_lines(event, self._glyphs, self.shows_output, width, key)

    def _fitting(self, name: str) -> str:
        """Return a title that leaves room for the outcome on its line."""
        room = max(20, self._console.width - 30)
        return cut(name, room, self._glyphs.rest) if self._console.is_terminal else name
