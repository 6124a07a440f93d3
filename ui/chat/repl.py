"""The chat in the terminal: read a message, run it to its end, ask where a decision is needed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread

from ...actions.ports.events import Event, RunFinished
from ...actions.turn.commands import parse_shell_command
from ...agent.config.paths import data_home
from ...agent.runtime.runtime import Runtime
from ...agent.session.secrets import masker_for
from ...agent.session.session import Session
from ...state.calls import CallDecision, PendingCall
from ...state.conversation.messages import UserContent, list_block_lines, to_blocks
from ...state.errors import SandburError, SessionHeld, SessionMoved, StoreError, UsageError
from ..headless.headless import resume_line
from ..terminal.drive import drive, exit_code
from ..terminal.render import Renderer
from ..terminal.terminal import can_redraw, make_console, say
from ..terminal.text.sanitize import one_line, plain
from .current_session import CurrentSession
from .decisions.chat_user_input import ChatInput
from .decisions.desk import DecisionDesk
from .decisions.questions import CommandTyped, Questions
from .input.completion import completer_for
from .input.composer import Composer, Leave
from .input.files.mentions import without_files
from .input.history import input_history
from .input.keys import Does, key_lines
from .input.line_prompt import show_above
from .input.live_line import LiveLine
from .input.suspend import Waking
from .input.wait_for_input import END_S, AnswerT, at_prompt
from .other_processes import MessageCame, OtherProcesses
from .recap import find_unanswered, format_position, format_recap, format_stop
from .sending import Sending
from .slash.command import SlashCommand
from .slash.dispatch import run_command
from .slash.extras import more_commands


def warm_up(runtime: Runtime, model: str) -> None:
    """Import the model client and the Markdown renderer in a thread, so that their first use is fast."""

    def work() -> None:
        import_module("rich.markdown")
        import_module("markdown_it")
        if model == "demo":
            return
        from ...agent.models.connect import prewarm

        with suppress(SandburError):
            prewarm(model, runtime.env, runtime.settings.providers, runtime.settings.transport)

    Thread(target=work, daemon=True).start()


class Chat:
    """Reads messages and commands, runs each turn to its end, and asks the questions in between."""

    def __init__(self, runtime: Runtime, sending: Sending, verbose: bool = False) -> None:
        self._waits = False
        """An interrupted run continues at Enter."""
        self.asks = False
        """True while a command runs that was typed at a question."""
        self.more: Sequence[SlashCommand] = ()
        """Commands of files, servers and skills."""
        self.runtime = runtime
        self.renderer = view = Renderer(make_console(sys.stdout), answers=True, verbose=verbose)
        self.questions = Questions(view)
        self._current = CurrentSession(runtime)
        self._others = OtherProcesses(self._current, view)
        self._desk = DecisionDesk(self.questions, runtime.env)
        self._sending = sending
        settings = runtime.settings
        folds: Does = {
            "output": view.toggle_output, "thinking": view.toggle_thinking, "plan": view.toggle_plan
        }  # fmt: skip
        does: Does = {
            "mode": self._change_mode,
            "help": lambda: view.lines(key_lines(False, view.console.width)),
            **folds,
        }
        self.composer = Composer(
            input_history(data_home(os.environ), settings.cwd, self._mask),
            view.glyphs,
            self._current.status_facts,
            completer_for(settings.cwd, lambda: self if self._current.is_open else None),
            does,
            is_vi=settings.editing == "vi",
        )
        self._live = LiveLine(view, self.composer, folds, is_vi=settings.editing == "vi")
        self._waking = Waking(view, self._live.wake)
        self._input = runtime.user_input = ChatInput(self.questions, self._live)

    @property
    def session(self) -> Session:
        return self._current.session

    def _mask(self, text: str) -> str:
        """Return an input with its secrets masked, for the input history."""
        return masker_for(self.runtime.env, self.runtime.settings.cwd).text(text)

    def _change_mode(self) -> None:
        self._current.change_mode()
        if self._current.is_open and not can_redraw(self.renderer.console):
            self.renderer.lines([("", f"Mode: {self.session.state.execution_mode}")])

    def greet(self) -> None:
        self._waking.watch()
        dot = self.renderer.glyphs.dot
        self.renderer.lines([("bold", f"Sandbur {dot} {one_line(str(self.runtime.settings.cwd))}")])

    def enter(self, session: Session) -> None:
        """Open the session and show its notices."""
        self._current.set(session)
        self.renderer.link_files(self.runtime.link_finder(session.settings), self.runtime.env)
        self.more, problems = more_commands(Path(session.settings.cwd), self.runtime.env)
        notices = (*session.notices, *problems)
        self.renderer.lines((("dim", plain(notice)) for notice in notices), prose=True)
        warm_up(self.runtime, session.settings.model)

    def recall(self, goes_on: bool = False) -> None:
        """Show the state of a resumed session; unless it `goes_on` at once, wait for Enter."""
        session = self.session
        self._current.has_run = True
        summary = self.runtime.store.index.summary(session.id)
        # The state of a session that another process runs is hidden: the next step refuses to continue it.
        standing = "prompt" if summary.status == "running" else session.next_action
        asks = bool(session.state.calls_to_decide)
        # The question about a call pauses anyway.
        is_halted = standing not in ("prompt", "human_confirm") or (standing == "human_confirm" and not asks)
        self._waits = is_halted and not goes_on
        state, store = session.state, self.runtime.store
        lines = [*format_recap(summary.title or session.id, state, self.renderer.glyphs)]
        stopped = format_stop(store, session.id, state, standing, summary.wake_at)
        lines += stopped if self._waits else format_position(state, standing)
        self.renderer.know(state.pending_tool_calls, state.vibe_plan)
        self.renderer.lines(lines, prose=True)

    async def read_while(self, opening: Awaitable[Session]) -> str:
        """Show the prompt at once and open the session meanwhile; return the first message."""
        reading = asyncio.ensure_future(at_prompt(self.composer.read(), self.composer.leave))
        await asyncio.sleep(0)
        try:
            session = await opening
            if reading.done():
                self.enter(session)
            else:
                await self._enter_above(session, reading)
            return await reading
        except OSError:
            raise Leave(exit_code(signal.SIGHUP)) from None
        finally:
            if not reading.done() and self.composer.leave(1):
                await asyncio.wait([reading], timeout=END_S)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _enter_above(self, session: Session, reading: asyncio.Future[str]) -> None:
        """Enter the session above the prompt, or give up if the prompt ends with an error."""
        entering = asyncio.ensure_future(show_above(lambda: self.enter(session)))
        await asyncio.wait([entering, reading], return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and reading.exception() is not None:
            entering.cancel()
            await asyncio.gather(entering, return_exceptions=True)
        else:
            await entering

    async def run(self, first: str | None) -> int:
        """Continue what is open, then answer messages; return the exit code."""
        try:
            leaves = False
            if first is not None:
                leaves = await self._answer(first)
            elif self.session.next_action != "prompt" and not self._waits:
                await self._turn(self.session.carry_on())
            while not leaves:
                message = await self._next_message()
                if isinstance(message, str):
                    leaves = await self._answer(message)
                else:
                    await self._refresh_tools()
                    await self._turn(self.session.send(message))
        except SandburError:
            say(resume_line(self.session))
            raise
        return self.part(0)

    async def _next_message(self) -> UserContent:
        """Return messages that were queued during a run, then typed ones."""
        is_open = self.session.next_action != "prompt"
        # An open turn reads the waiting messages itself when it continues.
        queued = None if is_open else await self.session.inbox.next_queued()
        follow = partial(self._others.follow, self.composer)
        while queued is None:
            with suppress(MessageCame):
                return await at_prompt(self.composer.read(), self.composer.leave, follow)
            queued = await self.session.inbox.next_queued()
        lines = "\n".join(list_block_lines(to_blocks(queued)))
        self.renderer.lines([("bold", f"{self.renderer.glyphs.prompt} {plain(lines)}")], prose=True)
        return queued

    async def _take_from_queue(self) -> list[str]:
        """Remove the waiting messages after a run that did not finish, so that none is sent unseen; return
        them.
        """
        texts: list[str] = []
        for one in self.session.inbox.waiting:
            with suppress(SandburError):
                texts.append(await self.session.inbox.withdraw(one.number))
        return texts

    async def _answer(self, text: str) -> bool:
        """Send a message or command; without one, or after one was withdrawn, continue. Return whether to
        leave."""
        is_open = self.session.next_action != "prompt"
        if text.strip() in ("exit", "quit"):
            text = "/exit"
        if (result := await run_command(self, text)) is not None:
            return result.leaves
        if (command := parse_shell_command(text)) is not None:
            await self._run_command(command, text)
        elif text.strip() and not (is_open and text.strip() == self._current.taken_back):
            await self._refresh_tools()
            await self._turn(await self._sending.send(self.session, self.renderer, text), text)
        elif is_open:
            await self._turn(self.session.carry_on())
        return False

    async def _run_command(self, command: str, text: str) -> None:
        try:
            events = self._sending.run(self.session, command)
        except UsageError as problem:
            self.renderer.lines([("yellow", one_line(str(problem)))], prose=True)
            return
        await self._turn(events, text)

    async def _refresh_tools(self) -> None:
        """Open the session again if its tool servers have other tools now, so that the next run has these."""
        before = self.session
        if before.next_action != "prompt" or await self._others.find() is not None:
            return
        try:
            self._current.set(await self.runtime.refresh_tools(before))
        except SandburError as problem:
            self.renderer.lines([("yellow", one_line(problem.message))], prose=True)
        if self.session is not before:
            self.renderer.lines((("dim", plain(notice)) for notice in self.session.notices), prose=True)

    async def send(self, text: str) -> None:
        await self._refresh_tools()
        await self._turn(await self._sending.send(self.session, self.renderer, text), text)

    async def record(self, text: str) -> None:
        await self.follow(self._sending.record(self.session, text))

    async def follow(self, events: AsyncIterator[Event]) -> None:
        if self.asks:
            await self._drive(events)
        else:
            await self._turn(events)

    async def wait(self, answer: Coroutine[None, None, AnswerT], leave: Callable[[int], bool]) -> AnswerT:
        return await at_prompt(answer, leave)

    async def _turn(self, events: AsyncIterator[Event] | None, text: str = "") -> None:
        """Run until no call waits for a decision; `text` is the person's new message."""
        asks = False
        while events is not None or asks:
            try:
                events, asks = await self._advance(events)
            except (SessionHeld, SessionMoved) as other:
                events, asks = await self._catch_up(other, text)
            text = ""
        if self.session.next_action != "prompt":
            hint = "Nothing is lost: Enter goes on from here, a message starts something else."
            self.renderer.lines([("yellow", hint)])
        self.renderer.lines([("", "")])

    async def _advance(self, events: AsyncIterator[Event] | None) -> tuple[AsyncIterator[Event] | None, bool]:
        """Run, if there is something to run, then ask; return what that leads to, as `_catch_up` does."""
        if events is not None:
            finished = await self._drive(events)
            self._desk.take_draft()
            if finished.error is not None and finished.error.code == SessionHeld.code:
                raise SessionMoved(finished.error.message)
            if finished.status not in ("needs_approval", "needs_decision"):
                return None, False
        try:
            asking = self._desk.ask(self.session)
            decisions = await at_prompt(asking, self.questions.leave, self._watch_question)
        except CommandTyped as typed:
            return await self._run_typed_command(typed.text)
        if decisions is None:
            return None, False
        self._desk.keep_reason(decisions)
        return self.session.decide(decisions), False

    async def _catch_up(self, other: StoreError, text: str) -> tuple[AsyncIterator[Event] | None, bool]:
        """Show what another process does with the session, or did; typed text goes back to the line.

        Return how to continue, and whether there is a question.
        """
        before = self.session.state
        if isinstance(other, SessionHeld):
            self._others.announce(other)
        else:
            await self._others.reload()
        is_stored = (
            before.turn_open
            and before.user_input == self.session.state.user_input
            and without_files(before.user_input) == text.strip()
        )
        draft = self._desk.take_draft()
        kept = "\n".join(part for part in ("" if is_stored else text, draft) if part)
        self.composer.put_in(kept)
        if not is_stored:
            self._sending.take_back()
        waits_at = self.session.next_action
        if kept or isinstance(other, SessionHeld) or waits_at == "prompt":
            return None, False
        return (None, True) if waits_at == "human_confirm" else (self.session.carry_on(), False)

    async def _watch_question(self) -> StoreError | None:
        """Check for another process while a question is open."""
        other = await self._others.find()
        if other is not None:
            self._desk.keep_draft()
        return other

    async def _run_typed_command(self, text: str) -> tuple[AsyncIterator[Event] | None, bool]:
        """Run a command that was typed at a question; return how the turn continues, as `_catch_up` does."""
        session = self.session
        if parse_shell_command(text) is not None:
            self.renderer.lines([("yellow", "A command of yours waits until the question is answered.")])
            return None, True
        self.asks = True
        try:
            result = await run_command(self, text)
        finally:
            self.asks = False
        if result is not None and result.leaves:
            raise Leave(0)
        if self.session.id != session.id:
            # A command that goes on in another session asks what waits there.
            waits = self.session.next_action == "human_confirm" and bool(self.session.state.calls_to_decide)
            return None, result is not None and result.goes_on and waits
        if result is None or result.goes_on or self.session is not session:
            return self.session.carry_on(), False
        return None, True

    async def _decide_during_run(
        self, session: Session, calls: Sequence[PendingCall]
    ) -> Sequence[CallDecision]:
        """Ask about calls of a sub-agent while others beside it run on."""
        nothing: list[CallDecision] = []
        return await self._input.hold(lambda: self._desk.ask_during_run(session, calls), nothing, nothing)

    async def _drive(self, events: AsyncIterator[Event]) -> RunFinished:
        self._current.has_run = True
        session = self.session
        with self._live.open(session) as restore:

            def leave() -> None:
                restore()
                say(resume_line(session))

            self._waking.note_modes()
            self.renderer.status = self._current.status_facts()
            self.renderer.begin()
            session.inputs.decide = partial(self._decide_during_run, session)
            try:
                finished, received = await drive(session, events, self._live, leave)
            finally:
                session.inputs.decide = None
                await self._input.stop()
        self._current.note_mode()
        draft = await self._live.wait_until_stored()
        if received is not None and received != signal.SIGINT:
            raise Leave(exit_code(received))
        was_stopped = finished.status == "interrupted"
        self._current.taken_back = without_files(find_unanswered(self.session.state)) if was_stopped else ""
        has_ended = not was_stopped and session.next_action in ("prompt", "human_confirm")
        waiting = [] if has_ended else await self._take_from_queue()
        self.composer.put_in("\n".join(filter(None, [*waiting, draft])) or self._current.taken_back)
        return finished

    def part(self, code: int) -> int:
        """Print how to resume, if there is something to resume; return the exit code."""
        if self._current.has_run:
            say(resume_line(self.session))
        return code
