"""The input line: several lines, history, completion, pastes, Ctrl-C that keeps the draft."""

import os
import re
import select
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import accept_search, stop_search
from prompt_toolkit.styles import Style

from ...headless import clean
from ...terminal.sanitize import one_line
from ...terminal.terminal import Glyphs
from ..slash.table import completions
from .keys import Pastes, quick_escape, stop_at_prompt


class SlashCompleter(Completer):
    """Completes a command at the start of the input, and what may stand behind it."""

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        for one, length in completions(text):
            yield Completion(one.text, -length, display_meta=one.meaning)


_TWICE_S = 2.0
UNREAD_S = 0.3
"""An Enter that comes sooner after news was not meant to answer it."""
_STYLE = Style.from_dict(
    {
        "bottom-toolbar": "noreverse ansibrightblack",
        "yolo": "bold ansired",
        "prompt": "bold ansicyan",
        "hint": "ansiyellow",
    }
)


class Leave(Exception):
    """The person, or a signal, ends the chat."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def leave_app(app: Application[Any] | None, exit_code: int) -> bool:
    """End what waits for keys with `Leave`; return whether there was anything that can be ended so."""
    if app is None or not _is_waiting(app):
        return False
    app.exit(exception=Leave(exit_code))
    return True


def _is_waiting(app: Application[Any]) -> bool:
    return app.is_running and not app.is_done


@dataclass(frozen=True, slots=True)
class PromptStatus:
    """What the lines around the input tell."""

    mode: str
    model: str
    session: str


class Composer:
    """Reads one message at a time."""

    def __init__(self, history: History, glyphs: Glyphs, standing: Callable[[], PromptStatus]) -> None:
        self._glyphs = glyphs
        self._standing = standing
        self._hint, self._hint_until = "", 0.0
        self._interrupted_at = 0.0
        self._keeps_until = 0.0
        self._pastes = Pastes()
        self._typed = ""
        self._session: PromptSession[str] = PromptSession(
            self.prompt,
            history=_WholeTexts(history, self._pastes),
            completer=SlashCompleter(),
            complete_while_typing=True,
            multiline=True,
            key_bindings=self._keys(),
            bottom_toolbar=self.toolbar,
            prompt_continuation="  ",
            style=_STYLE,
            reserve_space_for_menu=4,
        )
        quick_escape(self._session.app)

    async def read(self) -> str:
        """Return what was typed; raises `Leave`."""
        try:
            draft, self._typed = self._typed, ""
            text = await self._session.prompt_async(default=draft)
        except EOFError:
            raise Leave(0) from None
        return clean(self._pastes.unfolded(text))

    def put_in(self, text: str) -> None:
        """Let the next `read` begin with this text, not sent yet."""
        self._typed = "\n".join(part for part in (self._typed, text) if part)

    @property
    def draft(self) -> str:
        """What stands on the line now."""
        return self._session.default_buffer.text

    def leave(self, exit_code: int) -> bool:
        """End a running `read`; return whether there was one that can be ended this way."""
        return leave_app(self._session.app, exit_code)

    @property
    def is_reading(self) -> bool:
        """True while nothing has been sent or left."""
        return _is_waiting(self._session.app)

    @contextmanager
    def keeping(self) -> Generator[None]:
        """Send nothing that was typed before what is shown meanwhile can have been read."""
        self._keeps_until = inf
        try:
            yield
        finally:
            self._keeps_until = time.monotonic() + UNREAD_S

    def prompt(self) -> StyleAndTextTuples:
        mark = f"{self._glyphs.prompt} "
        if self._standing().mode == "yolo":
            return [("class:yolo", f"yolo {mark}")]
        return [("class:prompt", mark)]

    def toolbar(self) -> StyleAndTextTuples:
        if time.monotonic() < self._hint_until:
            return [("class:hint", self._hint)]
        now = self._standing()
        mode = ("class:yolo", "YOLO: nothing is asked") if now.mode == "yolo" else ("", now.mode)
        facts = ["", one_line(now.model), *([now.session[:8]] if now.session else []), "/help"]
        return [mode, ("", f" {self._glyphs.dot} ".join(facts))]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter", filter=~is_searching)(self._enter)
        keys.add("enter", filter=is_searching)(_found)
        keys.add("escape", "enter", filter=~is_searching)(_new_line)
        # What is typed while no prompt is up arrives with its Enter as Ctrl-J.
        keys.add("c-j", filter=~is_searching)(self._enter)
        for key in ("c-c", "<sigint>"):
            keys.add(key, filter=~is_searching)(self._interrupt)
            keys.add(key, filter=is_searching)(_end_search)
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add("c-z")(stop_at_prompt)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if time.monotonic() < self._keeps_until:
            self._tell("Not sent yet: see what happened meanwhile; Enter sends it.")
        elif buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Put a draft away, where the up key finds it; leave at the second time."""
        now = time.monotonic()
        buffer = event.current_buffer
        if buffer.text:
            buffer.append_to_history()
            buffer.reset()
            self._tell("Draft put away; the up key brings it back.")
        elif now - self._interrupted_at < _TWICE_S:
            event.app.exit(exception=Leave(130))
        else:
            self._interrupted_at = now
            self._tell("Press Ctrl-C again to leave.")

    def _tell(self, hint: str) -> None:
        self._hint, self._hint_until = hint, time.monotonic() + _TWICE_S

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert a short paste as it is, a long one as a mark that stands for it."""
        event.current_buffer.insert_text(self._pastes.folded(event.data))


class _WholeTexts(History):
    """Keeps what was sent, not the marks that stood for it: they mean nothing to another process."""

    def __init__(self, kept: History, pastes: Pastes) -> None:
        super().__init__()
        self._kept = kept
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        return map(self._pastes.recalled, self._kept.load_history_strings())

    def store_string(self, string: str) -> None:
        self._kept.store_string(self._pastes.unfolded(string))


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _found(event: KeyPressEvent) -> None:
    """Send what the search has found, as a shell does; a search without a match only ends."""
    wanted = event.current_buffer.text
    accept_search()
    if wanted and wanted in event.current_buffer.text:
        event.current_buffer.validate_and_handle()


def _end_search(event: KeyPressEvent) -> None:
    stop_search()


_MAX_ENTRY_CHARS = 200_000
_MAX_FILE_BYTES = 4_000_000
"""A longer file loses its older half when it is read next: it is read at every start."""


class PrivateHistory(FileHistory):
    """A history file with mode 0600, without secrets; one that cannot be written is no reason to fail."""

    def __init__(self, path: Path, masked: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._masked = masked

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            self._halve()
        try:
            return list(super().load_history_strings())
        except (OSError, UnicodeError):
            return []

    def store_string(self, string: str) -> None:
        if len(string) > _MAX_ENTRY_CHARS:
            return
        with suppress(OSError, UnicodeError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            super().store_string(self._masked(string))

    def _halve(self) -> None:
        if self._path.stat().st_size <= _MAX_FILE_BYTES:
            return
        _, _, newer = self._path.read_bytes()[-_MAX_FILE_BYTES // 2 :].partition(b"\n\n")
        shorter = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        shorter.touch(0o600)
        shorter.write_bytes(b"\n" + newer)
        shorter.replace(self._path)


def input_history(folder: Path, masked: Callable[[str], str] = str) -> History:
    """Return the history kept in `folder`; secrets in it are `masked`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(folder / "input_history", masked)


_SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~]|[^\[O])?")
_ERASE, _ERASE_LINE = "\x7f\x08", "\x15"
_MAX_BYTES = 1 << 16


def typed_so_far() -> bytes:
    """Take what waits to be read from the terminal; its line discipline must not collect lines."""
    typed = b""
    try:
        while len(typed) < _MAX_BYTES and select.select([0], [], [], 0)[0]:
            part = os.read(0, 4096)
            if not part:
                break
            typed += part
    except OSError:
        pass
    return typed


def as_draft(typed: bytes) -> str:
    """Return the text that the keys make; Backspace and Ctrl-U erase, other control keys do nothing."""
    draft = ""
    for char in _SEQUENCES.sub(b"", typed).decode("utf-8", "replace"):
        if char in _ERASE:
            draft = draft if draft.endswith("\n") else draft[:-1]
        elif char == _ERASE_LINE:
            draft = draft[: draft.rfind("\n") + 1]
        elif char in "\r\n":
            draft += "\n"
        elif char.isprintable() or char == "\t":
            draft += char
    return draft.strip("\n")
