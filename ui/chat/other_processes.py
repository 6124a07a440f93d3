"""Watches for other processes that run the chat's session, and loads the session after such a run."""

from contextlib import suppress
from functools import partial

from ...state.errors import SandburError, SessionHeld, SessionMoved, StoreError
from ..terminal.render import Renderer
from ..terminal.text.sanitize import one_line, plain
from .current_session import CurrentSession
from .input.composer import Composer
from .input.line_prompt import show_above
from .recap import format_meanwhile, format_position


class MessageCame(SandburError):
    """A message arrived in the inbox while the chat was waiting for one."""


class OtherProcesses:
    """Watches the current session while the chat waits for the person."""

    def __init__(self, current: CurrentSession, renderer: Renderer) -> None:
        self._current = current
        self._renderer = renderer
        self._announced = ""
        """The process that runs the session, as it was announced last."""

    async def find(self) -> StoreError | None:
        """Return the error of a run that began now, if another process runs or continued the session."""
        if not (self._current.is_open and self._current.has_run):
            return None
        with suppress(StoreError):
            return await self._current.session.elsewhere()

    def announce(self, other: StoreError) -> None:
        """Print that another process runs the session."""
        self._announced = other.message
        kept = "What it does is shown here when it ends; what you type is kept on the line."
        self._renderer.lines([("yellow", one_line(other.message)), ("yellow", kept)], prose=True)

    async def reload(self) -> None:
        """Load the session again, and show the events since the last load."""
        current, glyphs = self._current, self._renderer.glyphs
        before = current.session
        current.set(await current.runtime.reload(before))
        self._announced = current.taken_back = ""
        session = current.session
        lines = format_meanwhile(current.runtime.store, session.id, before.state, glyphs)
        standing = format_position(session.state, session.next_action) if lines else ()
        lines_to_print = [*(("dim", plain(notice)) for notice in session.notices), *lines, *standing]
        self._renderer.know(session.state.pending_tool_calls)
        await show_above(partial(self._renderer.lines, lines_to_print, prose=True))

    async def follow(self, composer: Composer) -> MessageCame | None:
        """Show the events of other processes above the line, which stays unchanged.

        Return `MessageCame` to end the prompt if a message is in the inbox and the line is empty, else None.
        """
        other = await self.find()
        if not composer.is_reading:
            return None  # the sent message fails with this error itself, and returns to the line
        if isinstance(other, SessionMoved):
            with composer.ignore_enter():
                await self.reload()
        elif isinstance(other, SessionHeld):
            if other.message != self._announced:
                await show_above(partial(self.announce, other))
        elif await self._has_message(composer):
            return MessageCame("A message came.")
        return None

    async def _has_message(self, composer: Composer) -> bool:
        """Return whether a message is in the inbox, the turn has ended, and the line is empty."""
        current = self._current
        if not (current.has_run and current.session.next_action == "prompt") or composer.draft:
            return False
        with suppress(StoreError):
            await current.session.inbox.read()
        return bool(current.session.inbox.waiting) and not composer.draft
