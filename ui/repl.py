"""The chat in the terminal: read a message, run it to its end, ask where a decision is needed."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from prompt_toolkit.application import run_in_terminal

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
from ui.question import Questions
from ui.recap import recap_lines
from ui.render import Renderer
from ui.rewind import is_rewind, picked_step, rewound
from ui.sanitize import one_line, plain
from ui.settling import Settling
from ui.signals import StopSignals, exit_code
from ui.stdin import clean
from ui.terminal import make_console, say, typing_unseen
from ui.trusting import newly_trusted
from ui.typed import as_draft, typed_so_far
from ui.warmup import import_session, warm_up

if TYPE_CHECKING:
    from agent.runtime import Runtime
    from agent.session import Session
    from state.calls import CallDecision

Answer = TypeVar("Answer")


async def chat(arguments: Arguments) -> int:
    """Open the session of the flags and talk until the person leaves; return the exit code."""
    async with opened(arguments) as runtime:
        if not await newly_trusted(runtime.settings.untrusted_config):
            return await _chat(runtime, arguments)
    async with opened(arguments) as runtime:
        return await _chat(runtime, arguments)


async def _chat(runtime: "Runtime", arguments: Arguments) -> int:
    first = DEMO_GOAL if arguments.command == "demo" and arguments.prompt is None else arguments.prompt
    talk = Chat(runtime, arguments.verbose)
    talk.greet()
    try:
        if arguments.continues or first is not None:
            picked = await pick_session(runtime.store.sessions()) if arguments.resume == "" else None
            talk.enter(await open_session(runtime, arguments, picked))
            if arguments.continues:
                talk.recall()
        else:
            first = await talk.read_while(open_session(runtime, arguments))
        return await talk.run(clean(first) if first is not None else None)
    except Leave as leaving:
        return talk.part(leaving.exit_code)


class Chat:
    """One conversation on one terminal."""

    def __init__(self, runtime: "Runtime", verbose: bool = False) -> None:
        self._runtime = runtime
        self._entered: Session | None = None
        self._has_run = False
        self._renderer = Renderer(make_console(sys.stdout), answers=True, verbose=verbose)
        self._questions = Questions(self._renderer)
        self._composer = Composer(input_history(data_home(os.environ)), self._renderer.glyphs, self._standing)

    @property
    def _session(self) -> "Session":
        assert self._entered is not None, "no session is open yet"
        return self._entered

    def greet(self) -> None:
        dot = self._renderer.glyphs.dot
        self._renderer.lines([("bold", f"Sandbur {dot} {one_line(str(self._runtime.settings.cwd))}")])

    def enter(self, session: "Session") -> None:
        """Take the session and show what was said at its opening."""
        self._entered = session
        self._approvals = Approvals(self._questions, session, session.settings.cwd)
        self._settling = Settling(self._questions, session.settings.cwd)
        self._renderer.lines((("dim", plain(notice)) for notice in session.notices), prose=True)
        warm_up(self._runtime, session.settings.model)

    def recall(self) -> None:
        """Show where a resumed session stands."""
        session = self._session
        self._has_run = True
        summary = self._runtime.store.show(session.id).summary
        # Of a session that another process runs nothing is said here: going on is refused next.
        standing = "prompt" if summary.status == "running" else session.next_action
        self._renderer.know(session.state.pending_tool_calls)
        self._renderer.lines(
            recap_lines(summary.title or session.id, session.state, standing, self._renderer.glyphs),
            prose=True,
        )

    async def read_while(self, opening: "Awaitable[Session]") -> str:
        """Show the prompt at once and open the session behind it; return the first message."""
        reading = asyncio.ensure_future(self._at_prompt(self._composer.read(), self._composer.leave))
        await asyncio.sleep(0)
        try:
            await asyncio.to_thread(import_session)
            session = await opening
            await run_in_terminal(lambda: self.enter(session)) if not reading.done() else self.enter(session)
            return await reading
        finally:
            if not reading.done():
                self._composer.leave(1)
                await asyncio.gather(reading, return_exceptions=True)

    async def run(self, first: str | None) -> int:
        """Carry on what is open, then answer messages; return the exit code."""
        try:
            leaves = False
            if first is not None:
                leaves = await self._answer(first)
            elif self._session.next_action != "prompt":
                await self._turn(self._session.carry_on())
            while not leaves:
                leaves = await self._answer(
                    await self._at_prompt(self._composer.read(), self._composer.leave)
                )
        except SandburError:
            say(resume_line(self._session.id))
            raise
        return self.part(0)

    async def _answer(self, text: str) -> bool:
        """Send a message or command; an empty one carries on. Return whether the person leaves."""
        if is_rewind(text):
            await self._rewind(text)
        elif text.strip():
            await self._turn(self._session.send(text))
        elif self._session.next_action != "prompt":
            await self._turn(self._session.carry_on())
        return text.strip() in ("/exit", "/quit") and self._session.state.exit_chat

    async def _turn(self, events: AsyncIterator[Event]) -> None:
        """Run until nothing waits for a decision any more."""
        finished = await self._drive(events)
        while finished.status in ("needs_approval", "needs_decision"):
            decisions = await self._at_prompt(self._decisions(), self._questions.leave)
            if decisions is None:
                break
            finished = await self._drive(self._session.decide(decisions))
        if self._session.next_action != "prompt":
            hint = "Nothing is lost: Enter goes on from here, a message starts something else."
            self._renderer.lines([("yellow", hint)])
        self._renderer.lines([("", "")])

    async def _decisions(self) -> "list[CallDecision] | None":
        """Ask about the waiting calls: what happened first, what may happen then."""
        waiting = [c for c in self._session.state.pending_tool_calls if c.decision == "undecided"]
        unknown = [call for call in waiting if call.kind == "outcome_unknown"]
        return await (self._settling.ask(unknown) if unknown else self._approvals.ask(waiting))

    async def _rewind(self, text: str) -> None:
        """Go on from an earlier step in a session of its own; the one of now stays as it is."""
        old = self._session
        words = text.split()[1:]
        step = await picked_step(self._runtime.store, old.id, words, self._renderer, self._at_prompt)
        if step is None:
            return
        done = await self._at_prompt(
            rewound(self._runtime, old, step, self._questions), self._questions.leave
        )
        if done is None:
            return
        self.enter(await self._runtime.resume(done.session_id))
        self._composer.put_in(done.draft)
        lines = [*done.lines, f"The chat goes on in {done.session_id}; what it was stays in {old.id}."]
        self._renderer.lines((("yellow", line) for line in lines), prose=True)

    async def _drive(self, events: AsyncIterator[Event]) -> RunFinished:
        self._has_run = True
        with typing_unseen() as restore:

            def leave() -> None:
                restore()
                say(resume_line(self._session.id))

            self._renderer.begin()
            finished = await drive(self._session, events, self._renderer, leave)
            self._composer.put_in(as_draft(typed_so_far()))
        if finished.exit_code in (exit_code(signal.SIGTERM), exit_code(signal.SIGHUP)):
            raise Leave(finished.exit_code)
        return finished

    async def _at_prompt(self, answer: Coroutine[None, None, Answer], leave: Callable[[int], bool]) -> Answer:
        """Wait for the person; SIGTERM and a lost terminal end the waiting."""
        waiting = asyncio.ensure_future(answer)

        def stop() -> None:
            if signals.received is not None and not leave(exit_code(signals.received)):
                waiting.cancel()

        with StopSignals(stop, signals=(signal.SIGTERM, signal.SIGHUP)) as signals:
            try:
                return await waiting
            except asyncio.CancelledError:
                if signals.received is None:
                    raise
                raise Leave(exit_code(signals.received)) from None
            except OSError:
                raise Leave(exit_code(signal.SIGHUP)) from None

    def _standing(self) -> Standing:
        session = self._entered
        if session is None:
            return Standing(self._runtime.settings.mode, self._renderer.glyphs.rest, "")
        return Standing(session.state.execution_mode, session.model_name, session.id)

    def part(self, code: int) -> int:
        """Say how to come back, if there is something to come back to; return the exit code."""
        if self._has_run:
            say(resume_line(self._session.id))
        return code
