"""The input line during a run; it is displayed below the output."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import get_app_session, set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, emacs_mode, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from ....actions.ports.events import Event, MessageAdded, ToolOutput
from ....actions.turn.commands import is_command, parse_shell_command
from ....state.errors import SandburError
from ....state.session import SessionSettings, WaitingMessage
from ...headless.headless import clean
from ...terminal.render import Renderer
from ...terminal.status import TRIAL
from ...terminal.terminal import Glyphs, hide_typing, is_interactive, shorten
from ...terminal.text.sanitize import one_line, plain
from ...terminal.text.theme import LOOK
from .composer import Composer, begin_line, goes_on
from .files.attached_files import find_paths
from .keys import ESCAPE_S, Does, KeyAction, key_lines, quick_escape, sequences_of
from .typed import RawKeys, as_draft, keep_for_prompt, read_typed


class WorkingInbox(Protocol):
    """Stores messages during a run; a message is on disk when its call returns."""

    @property
    def waiting(self) -> Sequence[WaitingMessage]: ...
    async def steer(self, text: str) -> None: ...
    async def queue(self, text: str) -> None: ...
    async def withdraw(self, number: int) -> str: ...


class Working(Protocol):
    """A session with an active run."""

    @property
    def settings(self) -> SessionSettings: ...
    @property
    def inbox(self) -> WorkingInbox: ...
    async def interrupt(self, by: str = "") -> None: ...


class LiveLine:
    """Reads keys during the runs of a chat; text that is not sent becomes the draft of the next prompt."""

    def __init__(self, renderer: Renderer, composer: Composer, does: Does, is_vi: bool = False) -> None:
        self._renderer = renderer
        self._composer = composer
        self._does: Does = {"help": self._show_keys, "redraw": self._redraw, **does}
        self._buffer = Buffer(multiline=True)
        self._app: Application[None] = Application(
            Layout(Window(BufferControl(self._buffer))),
            key_bindings=self._keys(),
            output=DummyOutput(),
            editing_mode=EditingMode.VI if is_vi else EditingMode.EMACS,
        )
        quick_escape(self._app)
        self._run: Working | None = None
        self._steering: set[str] = set()
        """The texts of steering messages that waited during this run."""
        self._sending: list[str] = []
        """Messages that are being stored."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_by_one = asyncio.Lock()
        """Keeps the order of messages, because a hook may take long to check one of them."""
        self._modes = RawKeys(renderer.console.file)
        self._hint = ""
        self.is_open = False
        """True during a run."""
        self._held: list[Event] | None = None
        """The events since a question began; None: no question has the screen."""

    @contextmanager
    def open(self, run: Working) -> Generator[Callable[[], None]]:
        """Read keys; yield what puts the terminal in order before the process ends at once."""
        self.is_open = True
        try:
            with self._read_keys(run) as restore:
                yield restore
        finally:
            self.is_open = False

    @contextmanager
    def _read_keys(self, run: Working) -> Generator[Callable[[], None]]:
        if not self._can_be_seen():
            with hide_typing() as restore:
                yield restore
                self._buffer.text = as_draft(read_typed())
            return
        self._run, self._hint = run, ""
        self._steering.clear()
        self._buffer.text = self._composer.take_text()
        self._buffer.cursor_position = len(self._buffer.text)
        self._renderer.footer.set_section("input", lambda _: [self._rows()])
        source = get_app_session().input
        try:
            with set_app(self._app), self._modes, source.attach(self._ready):
                keep_for_prompt(source)
                self._process(get_typeahead(source))
                yield self._modes.restore
        finally:
            self._renderer.footer.set_section("input", None)
            with suppress(OSError):
                self._renderer.lines(())
            self._run = None

    @contextmanager
    def pause(self) -> Generator[None]:
        """Leave the screen and the keys to a question; events are displayed after it."""
        self._held = []
        self._renderer.footer.set_section("input", None)
        self._renderer.lines(())
        try:
            yield
        finally:
            if self._run is not None:
                self._renderer.footer.set_section("input", lambda _: [self._rows()])
            held, self._held = self._held, None
            self.wake()
            for event in held:
                self.show(event)

    def _can_be_seen(self) -> bool:
        console = self._renderer.console
        is_drawn = console.is_terminal and not console.is_dumb_terminal and not LOOK.is_plain
        return is_drawn and is_interactive()

    async def wait_until_stored(self) -> str:
        """Wait until all sent messages are on disk; return the text that is still on the line."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        text, self._buffer.text = self._composer.pastes.unfold(self._buffer.text), ""
        return clean(text)

    def wake(self) -> None:
        """Set the terminal modes for keys again after another program has used the terminal."""
        if self._run is not None:
            self._modes.set()

    def _ready(self) -> None:
        source = get_app_session().input
        self._process(source.read_keys())
        # A single Escape is only recognized when no other byte follows for a moment.
        asyncio.get_running_loop().call_later(ESCAPE_S, self._flush)

    def _flush(self) -> None:
        if self._run is not None and (pressed := get_app_session().input.flush_keys()):
            self._process(pressed)

    def _process(self, pressed: list[KeyPress]) -> None:
        if not pressed:
            return
        self._app.key_processor.feed_multiple(pressed)
        self._app.key_processor.process_keys()
        self._refresh()

    def _refresh(self) -> None:
        # The loop that drives the run detects the lost terminal.
        if self._run is not None and self._held is None:
            with suppress(OSError):
                self._renderer.footer.refresh()

    def show(self, event: Event) -> None:
        if self._held is not None:
            # Live output is of no use later, and nothing limits its length.
            if not isinstance(event, ToolOutput):
                self._held.append(event)
            return
        self._renderer.show(event)
        if isinstance(event, MessageAdded) and event.role == "user" and event.content in self._steering:
            self._steering.discard(event.content)
            mark = self._renderer.glyphs.prompt
            self._renderer.lines([("bold", f"{mark} {plain(event.content)}")], prose=True)

    def tick(self) -> None:
        if self._held is None:
            self._renderer.tick()

    @property
    def _waiting(self) -> Sequence[WaitingMessage]:
        waiting = () if self._run is None else self._run.inbox.waiting
        self._steering |= {one.text for one in waiting if one.kind == "steer"}
        return waiting

    def _rows(self) -> Group:
        waiting = [(_KINDS[one.kind], one.text) for one in self._waiting]
        waiting += [("sending", text) for text in self._sending]
        text, cursor = self._buffer.text, self._buffer.cursor_position
        return typing_rows(text, cursor, waiting, self._renderer, self._hint or self._offer)

    @property
    def _offer(self) -> str:
        """The placeholder of the empty line."""
        dot = f" {self._renderer.glyphs.dot} "
        return dot.join(["Enter steers", "Tab queues", "? keys"])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._buffer.text)
        has_waiting = Condition(lambda: bool(self._waiting))

        def bind(action: KeyAction, act: Callable[[KeyPressEvent], None], when: Any = True) -> None:
            for sequence in sequences_of(action):
                keys.add(*sequence, filter=when)(act)

        bind("send", self._enter)
        bind("new_line", begin_line)
        bind("complete", _does(partial(self._send, steers=False)))
        bind("escape", _does(self._stop), emacs_mode | vi_navigation_mode | is_empty)
        bind("interrupt", _does(self._interrupt))
        bind("suspend", _does(self._suspend))
        bind("help", self._act_of("help"), is_empty & (emacs_mode | vi_insert_mode))
        for action in ("output", "thinking", "plan", "redraw"):
            bind(action, self._act_of(action))
        for action in ("leave", "search", "edit", "mode"):
            bind(action, _does(_nothing))
        keys.add("up", filter=is_empty & has_waiting)(_does(self._take_back))
        keys.add(Keys.BracketedPaste)(self._paste)
        return keys

    def _act_of(self, action: KeyAction) -> Callable[[KeyPressEvent], None]:
        return _does(lambda: self._does.get(action, _nothing)())

    def _enter(self, event: KeyPressEvent) -> None:
        if not goes_on(event.current_buffer):
            self._send(steers=True)

    def _send(self, steers: bool) -> None:
        """Send the line as a message; queue it if it is a command, names files, or does not steer."""
        text = clean(self._composer.pastes.unfold(self._buffer.text)).strip()
        run = self._run
        if not text or run is None:
            return

        self._hint = ""
        self._composer.history.append_string(self._buffer.text)
        self._buffer.reset()
        is_done_later = is_command(text) or parse_shell_command(text) is not None
        waits = not steers or is_done_later or bool(find_paths(text, Path(run.settings.cwd)))
        self._begin(self._send_line(run.inbox.queue if waits else run.inbox.steer, text))

    async def _send_line(self, send: Callable[[str], Coroutine[Any, Any, None]], text: str) -> None:
        self._sending.append(text)
        try:
            async with self._one_by_one:
                await send(text)
        except SandburError as problem:
            self._hint = one_line(problem.message)
            self._put_back(text)
        finally:
            self._sending.remove(text)
            self._refresh()

    def _take_back(self) -> None:
        if self._run is not None and (waiting := self._waiting):
            self._begin(self._withdraw_line(partial(self._run.inbox.withdraw, waiting[-1].number)))

    async def _withdraw_line(self, withdraw: Callable[[], Coroutine[Any, Any, str]]) -> None:
        # A message that the model has read meanwhile cannot be withdrawn.
        with suppress(SandburError):
            self._put_back(await withdraw())
        self._refresh()

    def _put_back(self, text: str) -> None:
        self._buffer.text = "\n".join(part for part in (text, self._buffer.text) if part)
        self._buffer.cursor_position = len(self._buffer.text)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        if self._run is not None:
            self._begin(self._run.interrupt("the user"))

    def _interrupt(self) -> None:
        """Save the text of the line in the history; without text, stop the run, and the process at the second
        press."""
        if self._buffer.text:
            self._composer.history.append_string(self._buffer.text)
            self._buffer.reset()
        else:
            self._stop()  # names the user first: a signal may come from anywhere
            os.kill(os.getpid(), signal.SIGINT)

    def _suspend(self) -> None:
        self._modes.restore()
        # The terminal would stop the whole group, too. SIGTSTP does nothing if no shell could continue it.
        os.kill(0, signal.SIGTSTP)
        self._modes.set()

    def _paste(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(self._composer.insert_paste(event.data))

    def _show_keys(self) -> None:
        self._renderer.lines(key_lines(True, self._renderer.console.width))

    def _redraw(self) -> None:
        self._renderer.forget_live()
        self._renderer.console.file.write("\x1b[H\x1b[2J")


def _does(act: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def on_key(_: KeyPressEvent) -> None:
        act()

    return on_key


def _nothing() -> None:
    pass


_MOST_ROWS, _MOST_WAITING = 6, 3
_KINDS = {"steer": "steering", "queue": "queued", "observe": "observed"}
_INDENT = 2


def typing_rows(
    text: str, cursor: int, waiting: Sequence[tuple[str, str]], renderer: Renderer, offer: str
) -> Group:
    """Return rows that are narrower than the terminal; `offer` is the placeholder of the empty line."""
    glyphs, width = renderer.glyphs, max(8, renderer.console.width - 1)
    is_trial = renderer.status is not None and renderer.status.is_trial
    style = TRIAL if is_trial else "bold cyan"
    rows = (
        text_rows(text, cursor, width - _INDENT)
        if text
        else [_list_completions(offer, width - _INDENT, glyphs)]
    )
    for number, row in enumerate(rows):
        mark = f"{glyphs.prompt} " if number == 0 else " " * _INDENT
        rows[number] = _style_text(mark, style).append_text(row)
    return Group(*_waiting_rows(waiting, width, glyphs), *rows)


def _waiting_rows(waiting: Sequence[tuple[str, str]], width: int, glyphs: Glyphs) -> list[Text]:
    more = len(waiting) - _MOST_WAITING
    newest = waiting[-_MOST_WAITING:] if more > 0 else waiting
    rows = [f"({more} more wait)"] if more > 0 else []
    rows += [f"{kind}: {one_line(' '.join(text.split()))}" for kind, text in newest]
    return [_style_text(shorten(line, width, glyphs.rest), "yellow") for line in rows]


def _list_completions(offer: str, cells: int, glyphs: Glyphs) -> Text:
    return _style_text(" ", "reverse").append(shorten(offer, cells - 1, glyphs.rest), style="dim")


def text_rows(text: str, cursor: int, cells: int) -> list[Text]:
    """Return the rows of a text around the cursor, each at most `cells` columns wide."""
    rows, used, cursor_row = [_style_text("")], 0, 0
    for place, char in enumerate(f"{text} "):
        visible = char if char.isprintable() else " "
        size = cell_len(visible)
        if used + size > cells:
            rows, used = [*rows, _style_text("")], 0
        if place == cursor:
            cursor_row = len(rows) - 1
        rows[-1].append(visible, style="reverse" if place == cursor else "")
        used += size
        if char == "\n":
            rows, used = [*rows, _style_text("")], 0
    first = max(0, min(cursor_row - _MOST_ROWS // 2, len(rows) - _MOST_ROWS))
    return rows[first : first + _MOST_ROWS]


def _style_text(text: str, style: str = "") -> Text:
    made = Text(no_wrap=True, overflow="crop", end="\n")
    return made.append(text, style=style) if text else made
