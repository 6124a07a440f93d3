"""Sends messages of the chat, with the files that they name or that the flags attach."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from ...actions.ports.events import Event
from ...actions.turn.model_call import refusal_of
from ...agent.session.session import Session
from ...state.conversation.attachments import AttachedFile
from ..terminal.render import Renderer
from ..terminal.text.sanitize import one_line
from .input.files.attached_files import with_named_files


class Sending:
    """Sends messages; the first message gets the files of `--attach`."""

    def __init__(self, files: Sequence[AttachedFile] = ()) -> None:
        self._files = self._sent_files = tuple(files)

    async def send(self, session: Session, renderer: Renderer, text: str) -> AsyncIterator[Event]:
        """Send a message with the files that it names; the first message also with the files of `--attach`.

        A slash command does not take the files of `--attach`; they go with the next message.
        """
        self._sent_files = () if text.startswith("/") else self._files
        refusal = partial(refusal_of, session.ports.model)
        cwd = Path(session.settings.cwd)
        judge = partial(session.rules.judge_reading, mode=session.state.execution_mode)
        named = await asyncio.to_thread(with_named_files, text, cwd, judge, refusal)
        lines = [("dim" if is_there else "yellow", one_line(line)) for is_there, line in named.notices]
        renderer.lines(lines, prose=True)
        if not self._sent_files:
            return session.send(named.content)
        content = (named.content,) if isinstance(named.content, str) else named.content
        events = session.send((*self._sent_files, *content))
        self._files = ()
        return events

    def run(self, session: Session, command: str) -> AsyncIterator[Event]:
        """Run a shell command of the person; the files of `--attach` go with the next message."""
        self._sent_files = ()
        return session.run_command(command)

    def record(self, session: Session, text: str) -> AsyncIterator[Event]:
        """Send a slash command, without the files that its text names."""
        self._sent_files = ()
        return session.send(text)

    def take_back(self) -> None:
        """Attach the files of the last message, which was not accepted, to the next one."""
        self._files = self._files or self._sent_files
