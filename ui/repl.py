"""The chat in the terminal: read a message, run it to its end, ask where a decision is needed."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from actions.events import Event, RunFinished
from agent.paths import data_home
from state.errors import SandburError
from ui.approvals import Approvals
from ui.arguments import Arguments
from ui.composer import Composer, Leave, Standing
from ui.drive import drive
from ui.headless import DEMO_GOAL, resume_line
from ui.history import input_history
from ui.opening import open_session, opened
from ui.picker import pick_session
from ui.recap import recap_lines
from ui.render import Renderer
from ui.sanitize import one_line, plain
from ui.signals import StopSignals, exit_code
from ui.stdin import clean
from ui.terminal import make_console, say, typing_unseen

if TYPE_CHECKING:
    from agent.session import Session

Answer = TypeVar("Answer")


async def chat(arguments: Arguments) -> int:
    """Open the session of the flags and talk until the person leaves; return the exit code."""
    async with opened(arguments) as runtime:
        picked = await pick_session(runtime.store.sessions()) if arguments.resume == "" else None
        session = await open_session(runtime, arguments, picked)
        talk = Chat(session, arguments.verbose)
        talk.greet(session.notices)
        if arguments.continues:
            talk.recall(runtime.store.show(session.id).summary.title)
        first = DEMO_GOAL if arguments.command == "demo" and arguments.prompt is None else arguments.prompt
        return await talk.run(clean(first) if first is not None else None)


class Chat:
    """One conversation on one terminal."""

    def __init__(self, session: "Session", verbose: bool = False) -> None:
        self._session = session
        self._has_run = False
        self._renderer = Renderer(make_console(sys.stdout), answers=True, verbose=verbose)
        self._composer = Composer(input_history(data_home(os.environ)), self._renderer.glyphs, self._standing)
        self._approvals = Approvals(self._renderer, session, session.settings.cwd)

    def greet(self, notices: Iterable[str]) -> None:
        dot = self._renderer.glyphs.dot
        about = f"{one_line(self._session.model_name)} {dot} {one_line(self._session.settings.cwd)}"
        self._renderer.lines([("bold", f"Sandbur {dot} {about}")])
        self._renderer.lines((("dim", plain(notice)) for notice in notices), prose=True)

    def recall(self, title: str) -> None:
        """Show where a resumed session stands."""
        session = self._session
        self._has_run = True
        self._renderer.know(session.state.pending_tool_calls)
        self._renderer.lines(
            recap_lines(title or session.id, session.state, session.next_action, self._renderer.glyphs),
            prose=True,
        )

    async def run(self, first: str | None) -> int:
        """Carry on what is open, then answer messages; return the exit code."""
        try:
            if first is not None:
                await self._answer(first)
            elif self._session.next_action != "prompt":
                await self._turn(self._session.carry_on())
            while not await self._answer(await self._at_prompt(self._composer.read(), self._composer.leave)):
                pass
        except Leave as leaving:
            return self._part(leaving.exit_code)
        except SandburError:
            say(resume_line(self._session.id))
            raise
        return self._part(0)

    async def _answer(self, text: str) -> bool:
        """Send a message or command; an empty one carries on. Return whether the person leaves."""
        if text.strip():
            await self._turn(self._session.send(text))
        elif self._session.next_action != "prompt":
            await self._turn(self._session.carry_on())
        return text.strip() in ("/exit", "/quit") and self._session.state.exit_chat

    async def _turn(self, events: AsyncIterator[Event]) -> None:
        """Run until nothing waits for a decision any more."""
        finished = await self._drive(events)
        while finished.status == "needs_approval":
            waiting = [c for c in self._session.state.pending_tool_calls if c.decision == "undecided"]
            decisions = await self._at_prompt(self._approvals.ask(waiting), self._approvals.leave)
            if decisions is None:
                break
            finished = await self._drive(self._session.decide(decisions))
        if self._session.next_action != "prompt":
            hint = "Nothing is lost: Enter goes on from here, a message starts something else."
            self._renderer.lines([("yellow", hint)])
        self._renderer.lines([("", "")])

    async def _drive(self, events: AsyncIterator[Event]) -> RunFinished:
        self._has_run = True
        with typing_unseen() as restore:

            def leave() -> None:
                restore()
                say(resume_line(self._session.id))

            self._renderer.begin()
            finished = await drive(self._session, events, self._renderer, leave)
        if finished.exit_code in (exit_code(signal.SIGTERM), exit_code(signal.SIGHUP)):
            raise Leave(finished.exit_code)
        return finished

    async def _at_prompt(self, answer: Awaitable[Answer], leave: Callable[[int], None]) -> Answer:
        """Wait for the person; SIGTERM and a lost terminal end the waiting."""

        def stop() -> None:
            assert signals.received is not None
            leave(exit_code(signals.received))

        try:
            with StopSignals(stop, signals=(signal.SIGTERM, signal.SIGHUP)) as signals:
                return await answer
        except OSError:
            raise Leave(exit_code(signal.SIGHUP)) from None

    def _standing(self) -> Standing:
        session = self._session
        return Standing(session.state.execution_mode, session.model_name, session.id)

    def _part(self, code: int) -> int:
        if self._has_run:
            say(resume_line(self._session.id))
        return code
