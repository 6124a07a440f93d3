"""Lets the person pick one of many lines: type to filter, arrows to move, Enter to take."""

from collections.abc import Sequence
from typing import NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from state.errors import UsageError
from state.session import SessionSummary
from ui.composer import Leave
from ui.sanitize import one_line

_ROWS = 12


class Choice(NamedTuple):
    name: str
    """What picking it returns; typed in full it is chosen whatever else the filter finds."""
    line: str
    words: str
    """What the filter looks through."""


class Picker:
    """The list as it is filtered and where the cursor stands."""

    def __init__(
        self, question: str, choices: Sequence[Choice], way_out: str, from_end: bool = False
    ) -> None:
        self._question = question
        self._choices = choices
        self._way_out = way_out
        self._from_end = from_end
        self._filter = ""
        self._at = 0
        self._app: Application[str] | None = None
        self._narrow("")

    async def run(self) -> str:
        """Return the name of the choice taken; raises `Leave`."""
        window = Window(FormattedTextControl(self._text, focusable=True, show_cursor=False), wrap_lines=False)
        self._app = Application(
            Layout(window), key_bindings=self._keys(), full_screen=False, erase_when_done=True
        )
        return await self._app.run_async()

    def leave(self, exit_code: int) -> bool:
        """End a running picker; return whether there was one."""
        if self._app is None or not self._app.is_running:
            return False
        self._app.exit(exception=Leave(exit_code))
        return True

    @property
    def _found(self) -> list[Choice]:
        wanted = self._filter.lower()
        return [choice for choice in self._choices if wanted in choice.words.lower()]

    def _text(self) -> StyleAndTextTuples:
        found = self._found
        lines: StyleAndTextTuples = [("bold", f"{self._question} {one_line(self._filter)}\n")]
        first = max(0, min(self._at - _ROWS // 2, len(found) - _ROWS))
        for number, choice in enumerate(found[first : first + _ROWS], first):
            style, mark = ("reverse", ">") if number == self._at else ("", " ")
            lines.append((style, f"{mark} {choice.line}\n"))
        lines.append(
            (
                "",
                f"  {len(found)} of {len(self._choices)}; type to filter, Enter takes,"
                f" Ctrl-C {self._way_out}",
            )
        )
        return lines

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("up")(self._up)
        keys.add("down")(self._down)
        keys.add("backspace")(self._shorten)
        keys.add(Keys.Any)(self._typed)
        keys.add("enter")(self._take)
        for way_out in ("c-c", "c-d", "escape", "<sigint>"):
            keys.add(way_out)(_leave)
        return keys

    def _move(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._found) - 1))

    def _up(self, event: KeyPressEvent) -> None:
        self._move(-1)

    def _down(self, event: KeyPressEvent) -> None:
        self._move(1)

    def _shorten(self, event: KeyPressEvent) -> None:
        self._narrow(self._filter[:-1])

    def _narrow(self, text: str) -> None:
        self._filter = text
        found = self._found
        named = (number for number, choice in enumerate(found) if choice.name == text)
        self._at = next(named, max(0, len(found) - 1) if self._from_end else 0)

    def _typed(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._narrow(self._filter + event.data)

    def _take(self, event: KeyPressEvent) -> None:
        if found := self._found:
            event.app.exit(result=found[self._at].name)


def _leave(event: KeyPressEvent) -> None:
    event.app.exit(exception=Leave(130))


async def pick_session(sessions: Sequence[SessionSummary]) -> str:
    """Return the id of the session that the person picks."""
    if not sessions:
        raise UsageError("There is no session to resume yet.", "Start one: sandbur")
    choices = [Choice(s.id, session_line(s), f"{s.title} {s.id} {s.cwd} {s.model}") for s in sessions]
    return await Picker("Resume which session?", choices, "leaves").run()


def session_line(session: SessionSummary) -> str:
    title = one_line(session.title)[:60] or "(no message yet)"
    return f"{session.id[:8]}  {session.updated_at[:16].replace('T', ' ')}  {session.status:<14} {title}"
