"""Lets the person pick one of many lines: type to filter, arrows to move, Enter to take."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl

from ...agent.config.paths import repository_root
from ...state.errors import UsageError
from ...state.session import SessionSummary
from ..terminal.lines import local_time
from ..terminal.sanitize import one_line
from .input.composer import Leave, leave_app
from .input.keys import exits

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
        self,
        question: str,
        choices: Sequence[Choice],
        way_out: str,
        from_end: bool = False,
        more: Sequence[Choice] = (),
    ) -> None:
        """Offer `choices`, and in their place `more` at the press of Tab."""
        self._question = question
        self._choices = choices
        self._more = more
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
        return leave_app(self._app, exit_code)

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
        less = "all" if len(self._more) > len(self._choices) else "only"
        tab = f" Tab shows {less} {len(self._more)}," if self._more else ""
        ways = f"type to filter, Enter takes,{tab} Ctrl-C {self._way_out}"
        return [*lines, ("", f"  {len(found)} of {len(self._choices)}; {ways}")]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("up")(self._up)
        keys.add("down")(self._down)
        keys.add("backspace")(self._shorten)
        keys.add(Keys.Any)(self._typed)
        keys.add("enter")(self._take)
        keys.add("tab")(self._switch)
        for way_out in ("c-c", "c-d", "escape", "<sigint>"):
            keys.add(way_out)(exits(exception=Leave(130)))
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

    def _switch(self, event: KeyPressEvent) -> None:
        if self._more:
            self._choices, self._more = self._more, self._choices
            self._narrow(self._filter)

    def _take(self, event: KeyPressEvent) -> None:
        if found := self._found:
            event.app.exit(result=found[self._at].name)


async def pick_session(sessions: Sequence[SessionSummary], cwd: Path) -> str:
    """Return the id of the session that the person picks, those of this folder's project first."""
    if not sessions:
        raise UsageError("There is no session to resume yet.", "Start one: sandbur")
    everywhere = [_choice(session, with_folder=True) for session in sessions]
    here = [_choice(session) for session in sessions if _is_of(session, cwd)]
    more = everywhere if 0 < len(here) < len(sessions) else ()
    return await Picker("Resume which session?", here or everywhere, "leaves", more=more).run()


def _is_of(session: SessionSummary, cwd: Path) -> bool:
    """Tell whether a session works in this folder, or anywhere in its repository."""
    root = repository_root(cwd)
    return session.cwd == str(cwd) or (root is not None and Path(session.cwd).is_relative_to(root))


def _choice(session: SessionSummary, with_folder: bool = False) -> Choice:
    title = one_line(session.title)[:60] or "(no message yet)"
    folder = f"{one_line(Path(session.cwd).name)[:16]:<16} " if with_folder else ""
    status = "imported" if session.is_foreign else session.status
    line = f"{session.id[:8]}  {local_time(session.updated_at)}  {status:<14} {folder}{title}"
    return Choice(session.id, line, f"{session.title} {session.id} {session.cwd} {session.model}")
