"""The input line at the prompt, with several lines, history, completion and pastes."""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf
from typing import Any

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.cursor_shapes import ModalCursorShapeConfig
from prompt_toolkit.filters import (
    Condition,
    Filter,
    emacs_mode,
    has_completions,
    has_selection,
    is_searching,
    vi_insert_mode,
    vi_navigation_mode,
)
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import accept_search, stop_search
from prompt_toolkit.styles import Style

from ...headless.headless import clean
from ...terminal.status import TRIAL, StatusFacts, status_cells
from ...terminal.terminal import Glyphs
from ...terminal.text.sanitize import one_line
from .editor import EditorFailed, choose_editor, in_editor
from .files.mentions import as_mention, without_files
from .history import WholeTexts
from .keys import Does, KeyAction, quick_escape, sequences_of
from .line_prompt import LinePrompt, show_above
from .pastes import Pastes
from .raw_input import RawInput, lend_terminal
from .suspend import stop_at_prompt
from .typed import keep_for_prompt

_TWICE_S = 2.0
_ESCAPE_TWICE_S = 0.8
UNREAD_S = 0.3
"""An Enter this soon after new output, in seconds, was pressed before the person could read the output."""
_MENU_ROWS, _OPEN_MENU_ROWS = 4, 11
"""Rows for the line and a closed or open menu below the line."""
_REWIND = "/rewind"
_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse ansibrightblack",
        "yolo": "bold ansired",
        "trial": "bold ansimagenta",
        "prompt": "bold ansicyan",
        "hint": "ansiyellow",
        "careful": "ansiyellow",
    }
)


class Leave(Exception):
    """The person, or a signal, ends the chat."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def leave_app(app: Application[Any] | None, exit_code: int) -> bool:
    """End the prompt of `app` with `Leave`; return whether a prompt was waiting."""
    if app is None or not _is_waiting(app):
        return False
    app.exit(exception=Leave(exit_code))
    return True


def _is_waiting(app: Application[Any]) -> bool:
    return app.is_running and not app.is_done


class Composer:
    """Reads one message at a time."""

    def __init__(
        self,
        history: History,
        glyphs: Glyphs,
        standing: Callable[[], StatusFacts],
        completer: Completer | None = None,
        does: Does | None = None,
        is_vi: bool = False,
    ) -> None:
        """`does` are the functions for keys that belong to the chat; their output goes above the line.

        `standing` returns the facts for the status line.
        """
        self._glyphs = glyphs
        self._standing = standing
        self._does: Does = does or {}
        self._hint, self._hint_until = "", 0.0
        self._interrupted_at = self._escaped_at = 0.0
        self._keeps_until = 0.0
        self.pastes = Pastes()
        self._typed = ""
        self.history = WholeTexts(history, self.pastes)
        self._session = LinePrompt(
            self.prompt,
            history=self.history,
            completer=completer,
            complete_while_typing=True,
            multiline=True,
            vi_mode=is_vi,
            cursor=ModalCursorShapeConfig() if is_vi else None,
            search_ignore_case=True,
            key_bindings=self._keys(),
            bottom_toolbar=self.toolbar,
            prompt_continuation="  ",
            style=_STYLE,
            input=RawInput(get_app_session().input),
            reserve_space_for_menu=_MENU_ROWS,
        )
        self._session.default_buffer.on_completions_changed += self._make_room
        quick_escape(self._session.app)

    def _make_room(self, buffer: Buffer) -> None:
        """Reserve more rows while the menu is open, so that it has room at the bottom of the screen."""
        rows = self._session.app.output.get_size().rows
        is_open = buffer.complete_state is not None
        self._session.reserve_space_for_menu = min(_OPEN_MENU_ROWS, rows // 2) if is_open else _MENU_ROWS

    async def read(self) -> str:
        """Return the typed message. Raises `Leave` if the person or a signal ends the chat."""
        source = self._session.app.input
        self._hint_until = 0.0
        try:
            # In raw mode Enter and Ctrl-J are two keys, also before the prompt is displayed.
            with source.raw_mode():
                keep_for_prompt(source)
                text = await self._session.ask(self.take_text())
        except EOFError:
            raise Leave(0) from None
        return clean(self.pastes.unfold(text))

    def put_in(self, text: str) -> None:
        """Add a text to the draft with which the next `read` begins."""
        self._typed = "\n".join(part for part in (self._typed, without_files(text)) if part)

    def take_text(self) -> str:
        """Return the draft for the next `read`, and clear it."""
        draft, self._typed = self._typed, ""
        return draft

    @property
    def draft(self) -> str:
        """The current text of the line."""
        return self._session.default_buffer.text

    def leave(self, exit_code: int) -> bool:
        """End a running `read` with `Leave`; return whether one was running."""
        return leave_app(self._session.app, exit_code)

    @property
    def is_reading(self) -> bool:
        """True while the person can type on the line."""
        return _is_waiting(self._session.app)

    @contextmanager
    def ignore_enter(self) -> Generator[None]:
        """Ignore Enter during the context and shortly after, because the person has not read the output."""
        self._keeps_until = inf
        try:
            yield
        finally:
            self._keeps_until = time.monotonic() + UNREAD_S

    def prompt(self) -> StyleAndTextTuples:
        mark, standing = f"{self._glyphs.prompt} ", self._standing()
        badge: StyleAndTextTuples = [("class:trial", f"{TRIAL} ")] if standing.is_trial else []
        if standing.mode == "yolo":
            return [*badge, ("class:yolo", f"yolo {mark}")]
        return [*badge, ("class:trial" if badge else "class:prompt", mark)]

    def toolbar(self) -> StyleAndTextTuples:
        if time.monotonic() < self._hint_until:
            return [("class:hint", self._hint)]
        columns = self._session.app.output.get_size().columns
        cells = status_cells(self._standing(), columns, self._glyphs, f"/help {self._glyphs.dot} ? keys")
        return [(f"class:{role}", text) for role, text in cells]

    def tell(self, hint: str) -> None:
        """Show a hint below the line for a moment."""
        self._session.hint(hint)
        self._hint, self._hint_until = hint, time.monotonic() + _TWICE_S
        asyncio.get_running_loop().call_later(_TWICE_S, self._session.app.invalidate)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def bind(action: KeyAction, act: Callable[[KeyPressEvent], None], when: Filter) -> None:
            for sequence in sequences_of(action):
                keys.add(*sequence, filter=when)(act)

        bind("send", self._enter, ~is_searching)
        bind("send", _accept_match, is_searching)
        bind("new_line", begin_line, ~is_searching)
        bind("interrupt", self._interrupt, ~is_searching)
        bind("interrupt", lambda _: stop_search(), is_searching)
        # In vi mode, Escape in insert mode only changes to navigation mode.
        can_rewind = ~is_searching & ~has_selection & (emacs_mode | vi_navigation_mode)
        bind("escape", self._escape, can_rewind)
        bind("edit", self._edit, ~is_searching & ~has_selection)
        bind("suspend", stop_at_prompt, ~is_searching | is_searching)
        bind("mode", self._act_of("mode"), ~is_searching & ~has_completions)
        for action in ("output", "thinking", "plan"):
            bind(action, self._act_of(action), ~is_searching)
        bind("help", self._act_of("help"), ~is_searching & self._is_empty & (emacs_mode | vi_insert_mode))
        keys.add(Keys.BracketedPaste)(self._paste)
        return keys

    @property
    def _is_empty(self) -> Condition:
        return Condition(lambda: not self._session.default_buffer.text)

    def _act_of(self, action: KeyAction) -> Callable[[KeyPressEvent], None]:
        """Return a key handler that calls the chat's function for an action, with output above the line."""

        def act(event: KeyPressEvent) -> None:
            if action in self._does:
                show_above(self._does[action])

        return act

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if time.monotonic() < self._keeps_until:
            self.tell("Not sent yet: read the new output first; Enter sends it.")
        elif not goes_on(buffer):
            buffer.validate_and_handle()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Save the draft in the history; without a draft, leave the chat at the second press."""
        now = time.monotonic()
        buffer = event.current_buffer
        if buffer.text:
            buffer.append_to_history()
            buffer.reset()
            self.tell("The draft is saved; the up key brings it back.")
        elif now - self._interrupted_at < _TWICE_S:
            event.app.exit(exception=Leave(130))
        else:
            self._interrupted_at = now
            self.tell("Press Ctrl-C again to leave.")

    def _escape(self, event: KeyPressEvent) -> None:
        """Close the menu; at the second press go back to an earlier message and keep the draft."""
        now = time.monotonic()
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        elif _is_followed(event):
            return
        elif now - self._escaped_at < _ESCAPE_TWICE_S:
            self.put_in(buffer.text)
            buffer.text = _REWIND
            buffer.validate_and_handle()
        else:
            self._escaped_at = now
            self.tell("Esc again goes back to an earlier message.")

    def _edit(self, event: KeyPressEvent) -> None:
        event.app.create_background_task(self._edit_text(event.current_buffer))

    async def _edit_text(self, buffer: Buffer) -> None:
        """Edit the text of the line in an editor, without sending it."""
        try:
            editor = choose_editor()
            if not editor:
                self.tell("Set VISUAL or EDITOR, and Ctrl-G opens the text in it.")
                return
            async with in_terminal():
                with lend_terminal(self._session.app.input):
                    text = await in_editor(editor, self.pastes.unfold(buffer.text) + "\n", ".md")
        except EditorFailed as problem:
            self.tell(one_line(str(problem)))
            return
        finally:
            self._session.app.invalidate()
        buffer.text = text.rstrip("\n")
        buffer.cursor_position = len(buffer.text)

    def insert_paste(self, text: str) -> str:
        """Return the text that a paste inserts; the path of a dropped picture becomes an `@` mention."""
        return self.pastes.fold_paste(as_mention(text))

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert a short paste as it is, or a mark for a long paste."""
        event.current_buffer.insert_text(self.insert_paste(event.data))


def _is_followed(event: KeyPressEvent) -> bool:
    """Return whether other keys follow Escape, which then begins an unknown key sequence."""
    processor = event.key_processor
    following = [*processor.key_buffer, *processor.input_queue]
    return any(press.key != Keys.Escape for press in following)


def begin_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def goes_on(buffer: Buffer) -> bool:
    """Replace a backslash at the end of the text by a line end; return whether there was a backslash."""
    if buffer.document.char_before_cursor != "\\" or not buffer.document.is_cursor_at_the_end:
        return False
    buffer.delete_before_cursor()
    buffer.insert_text("\n")
    return True


def _accept_match(event: KeyPressEvent) -> None:
    """Send the text that the search found, as a shell does; if nothing was found, only end the search."""
    wanted = event.current_buffer.text.lower()
    accept_search()
    if wanted and wanted in event.current_buffer.text.lower():
        event.current_buffer.validate_and_handle()
