"""Lets the person pick a session: type to filter, arrows to move, Enter to take."""

from collections.abc import Sequence

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


class Picker:
    """The list as it is filtered and where the cursor stands."""

    def __init__(self, sessions: Sequence[SessionSummary]) -> None:
        self._sessions = sessions
        self._filter = ""
        self._at = 0

    async def run(self) -> str:
        """Return the id of the session taken; raises `Leave`."""
        window = Window(FormattedTextControl(self._text, focusable=True, show_cursor=False), wrap_lines=False)
        app: Application[str] = Application(
            Layout(window), key_bindings=self._keys(), full_screen=False, erase_when_done=True
        )
        return await app.run_async()

    @property
    def _found(self) -> list[SessionSummary]:
        wanted = self._filter.lower()
        return [s for s in self._sessions if wanted in f"{s.title} {s.id} {s.cwd} {s.model}".lower()]

    def _text(self) -> StyleAndTextTuples:
        found = self._found
        lines: StyleAndTextTuples = [("bold", f"Resume which session? {one_line(self._filter)}\n")]
        first = max(0, min(self._at - _ROWS // 2, len(found) - _ROWS))
        for number, session in enumerate(found[first : first + _ROWS], first):
            style, mark = ("reverse", ">") if number == self._at else ("", " ")
            lines.append((style, f"{mark} {session_line(session)}\n"))
        lines.append(
            ("", f"  {len(found)} of {len(self._sessions)}; type to filter, Enter takes, Ctrl-C leaves")
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
        self._filter, self._at = text, 0

    def _typed(self, event: KeyPressEvent) -> None:
        if event.data.isprintable():
            self._narrow(self._filter + event.data)

    def _take(self, event: KeyPressEvent) -> None:
        if found := self._found:
            event.app.exit(result=found[self._at].id)


def _leave(event: KeyPressEvent) -> None:
    event.app.exit(exception=Leave(130))


async def pick_session(sessions: Sequence[SessionSummary]) -> str:
    """Return the id of the session that the person picks."""
    if not sessions:
        raise UsageError("There is no session to resume yet.", "Start one: sandbur")
    return await Picker(sessions).run()


def session_line(session: SessionSummary) -> str:
    title = one_line(session.title)[:60] or "(no message yet)"
    return f"{session.id[:8]}  {session.updated_at[:16].replace('T', ' ')}  {session.status:<14} {title}"
