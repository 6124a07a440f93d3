"""The input line: several lines, history, completion, pastes, Ctrl-C that keeps the draft."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

from ui.sanitize import one_line
from ui.slash import SlashCompleter
from ui.stdin import clean
from ui.terminal import Glyphs

_TWICE_S = 2.0
_LONG_PASTE_LINES = 20
_LONG_PASTE_CHARS = 4000
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


@dataclass(frozen=True, slots=True)
class Standing:
    """What the lines around the input tell."""

    mode: str
    model: str
    session: str


class Composer:
    """Reads one message at a time."""

    def __init__(self, history: History, glyphs: Glyphs, standing: Callable[[], Standing]) -> None:
        self._glyphs = glyphs
        self._standing = standing
        self._hint, self._hint_until = "", 0.0
        self._interrupted_at = 0.0
        self._pastes: dict[str, str] = {}
        self._typed = ""
        self._session: PromptSession[str] = PromptSession(
            self.prompt,
            history=history,
            completer=SlashCompleter(),
            complete_while_typing=True,
            multiline=True,
            key_bindings=self._keys(),
            bottom_toolbar=self.toolbar,
            prompt_continuation="  ",
            style=_STYLE,
            reserve_space_for_menu=4,
        )

    async def read(self) -> str:
        """Return what was typed; raises `Leave`."""
        try:
            draft, self._typed = self._typed, ""
            text = await self._session.prompt_async(default=draft)
        except EOFError:
            raise Leave(0) from None
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return clean(text)

    def put_in(self, text: str) -> None:
        """Let the next `read` begin with this text, not sent yet."""
        self._typed = "\n".join(part for part in (self._typed, text) if part)

    @property
    def draft(self) -> str:
        """What stands on the line now."""
        return self._session.default_buffer.text

    def leave(self, exit_code: int) -> bool:
        """End a running `read`; return whether there was one that can be ended this way."""
        if not self._session.app.is_running:
            return False
        self._session.app.exit(exception=Leave(exit_code))
        return True

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
        keys.add("enter")(self._enter)
        keys.add("escape", "enter")(_new_line)
        # What is typed while no prompt is up arrives with its Enter as Ctrl-J.
        keys.add("c-j")(self._enter)
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add(Keys.BracketedPaste)(self._paste)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
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
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _LONG_PASTE_LINES and len(text) <= _LONG_PASTE_CHARS:
            event.current_buffer.insert_text(text)
            return
        mark = f"[pasted text {len(self._pastes) + 1}: {lines} lines, {len(text)} characters]"
        self._pastes[mark] = text
        event.current_buffer.insert_text(mark)


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
