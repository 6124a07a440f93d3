"""One session in an editor: messages in, updates out, questions in between; open questions survive the
process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, cast

from acp import PromptResponse, RequestError, update_agent_message_text, update_user_message_text
from acp.helpers import update_available_commands, update_current_mode
from acp.schema import (
    ConfigOptionUpdate,
    PermissionOption,
    RequestPermissionResponse,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionInfoUpdate,
    SessionModeState,
    StopReason,
)

from ...actions.ports.events import Event, RunFinished
from ...actions.turn.commands import is_command
from ...agent.models.aliases import model_of
from ...agent.runtime.runtime import Runtime
from ...agent.session.session import Session
from ...state.application import ExecutionMode
from ...state.calls import CallDecision, PendingCall
from ...state.conversation.messages import UserContent, list_block_lines, to_blocks
from ...state.errors import SandburError, SessionHeld, SessionMoved, StoreError, UsageError
from ...state.store.call_moves import list_made_calls
from ..terminal.text.sanitize import one_line, plain
from .editor_commands import CONTINUE, CommandAnswered, events_of, find_file_model, list_available
from .editor_inputs import PromptBlock, message_of
from .permission_questions import question_about
from .refusals import find_run_error
from .session_options import MODE, MODEL, config_options, mode_state
from .updates import Nested, Update, Updates, history_updates, message_updates

if TYPE_CHECKING:
    from acp import Client


_MOST_QUESTIONS = 3
_LOOK_S = 1.0
"""The pause between two checks whether another process has decided, while a question is open here."""
SessionConfigOption = SessionConfigOptionSelect | SessionConfigOptionBoolean
Begin = Callable[[], Awaitable[AsyncIterator[Event]]]
"""Begins a run."""


class Conversation:
    """A session with the runtime of its folder, and the running turn, if any."""

    def __init__(
        self, runtime: Runtime, session: Session, client: Client, modes: tuple[ExecutionMode, ...]
    ) -> None:
        self.runtime = runtime
        self.session = session
        self._client = client
        self.offered_modes = modes
        self._updates = Updates(lambda name: self.session.ports.toolbox.get(name), session.settings.cwd)
        self._turn: asyncio.Task[StopReason] | None = None
        self._is_prompted = False
        """Whether the turn answers a message: another one has to wait for its end."""
        self._is_running = False
        """Whether the graph runs. It does not while a question is open."""
        self._is_cancelled = False
        self._asking: asyncio.Future[RequestPermissionResponse] | None = None
        self._asked_about: Counter[str] = Counter()
        """Call id -> number of questions about it in this turn: an answer may be invalid."""
        self._is_taken = False
        """Whether the store has the input of the turn."""
        self._wanted: ExecutionMode | None = None
        """The mode to change to when the run ends."""
        self._announced_mode = session.state.execution_mode
        self._announced_title = ""
        self._chosen_model = ""
        """The model that the person selected here, which overrides the flags."""
        self._notices = list(session.notices)

    @property
    def modes(self) -> SessionModeState:
        return mode_state(self._announced_mode, self.offered_modes)

    @property
    def options(self) -> list[SessionConfigOption]:
        """The session's options with their current values."""
        return [*config_options(self.runtime, self.session, self.modes)]

    async def introduce(self) -> None:
        """Send the editor the available commands and options."""
        await self._tell([update_available_commands(await list_available(self))])

    async def list_commands(self) -> list[tuple[str, str]]:
        """Return name and summary of every command that the editor has."""
        return [(one.name, one.description) for one in await list_available(self)]

    async def replay(self) -> None:
        """Send the whole history of the session."""
        nested = await self._load_nested()
        await self._tell(history_updates(self.session.state, nested, self._updates.calls))

    async def _load_nested(self) -> Nested:
        store, session_id = self.runtime.store, self.session.id
        return await store.database.offload(
            lambda: list_made_calls(store.database, store.index.lineage(session_id))
        )

    def ask_again(self) -> None:
        """Ask the open questions of an earlier process; an answer continues the run."""
        if self._waiting() and not self.runtime.store.index.is_held(self.session.id):
            self._begin(self._go_on(None), is_prompted=False)
        elif self.session.next_action != "prompt":
            words = f"The session was interrupted before its end. {CONTINUE} goes on from there."
            self._begin(self._say(words), is_prompted=False)
        elif waiting := self.session.inbox.waiting:
            words = "\n".join(f"- {one_line(one.text)}" for one in waiting)
            self._begin(self._say(f"These messages wait and are sent with your next one:\n{words}"), False)

    async def prompt(self, blocks: Iterable[PromptBlock]) -> PromptResponse:
        """Answer a message; raises `RequestError` and `SandburError`."""
        message = message_of(blocks)
        if self._turn is not None and self._is_prompted:
            return await self._steer(message, self._turn)
        while self._turn is not None:
            # Questions that were asked since the session was loaded come first.
            self._is_prompted = True
            with suppress(SandburError, RequestError):
                await asyncio.shield(self._turn)
        turn = self._begin(self._answer(message), is_prompted=True)
        return PromptResponse(stop_reason=await asyncio.shield(turn))

    async def _steer(self, message: UserContent, turn: asyncio.Task[StopReason]) -> PromptResponse:
        """Send a message to the working model; answered with the turn that includes it."""
        if not isinstance(message, str) or is_command(message):
            raise UsageError("This session is answering a message.", "Wait until it ends, or cancel it.")
        await self.session.inbox.steer(message)
        return PromptResponse(stop_reason=await asyncio.shield(turn))

    async def cancel(self) -> None:
        """Interrupt the run and leave open questions open: the session can be resumed."""
        if self._turn is None:
            return
        self._is_cancelled = True
        if self._asking is not None:
            self._asking.cancel()
        await self.session.interrupt("the user")
        for one in self.session.inbox.waiting:
            # A message to a cancelled run must not be sent later without the person's knowledge.
            with suppress(SandburError):
                await self.session.inbox.withdraw(one.number)

    def set_mode(self, mode: str) -> None:
        """Change the mode, at the end of the current run; raises `UsageError`."""
        by_name: dict[str, ExecutionMode] = {one: one for one in self.offered_modes}
        known = by_name.get(mode)
        if known is None:
            raise UsageError(
                f"There is no mode {mode[:40]!r} here.", f"Choose one: {', '.join(self.offered_modes)}."
            )
        self._announced_mode = known
        if self._is_running:
            self._wanted = known
        else:
            self.session.change_mode(known)

    async def choose(self, option: str, value: str) -> None:
        """Change an option of the session; raises `SandburError`, and then nothing changes."""
        if option == MODE:
            self.set_mode(value)
        elif option != MODEL:
            raise UsageError(f"There is no option {option[:40]!r} here.")
        elif self._turn is not None:
            raise UsageError("This session is answering a message.", "Choose after it ends, or cancel it.")
        else:
            await self._reopen(value)
            self._chosen_model = self.session.settings.model

    async def change_model(self, name: str) -> None:
        """Change the model permanently, and send the editor the changed option."""
        await self._reopen(name)
        self._chosen_model = self.session.settings.model
        await self._tell_options()

    async def _reopen(self, name: str) -> None:
        """Use another model from the next message on; the session records it, so it is kept at a resume."""
        session, runtime = self.session, self.runtime
        model = model_of(name, runtime.settings.aliases)
        if model == session.settings.model:
            return
        self.session = opened = await runtime.reopen(session, model=model, agent=session.settings.agent)
        if runtime.store.index.exists(session.id):
            # One without a message is stored with its first.
            noted = opened.note(f"/model {model}", f"The model is {opened.ports.model.name} now.")
            async for _ in noted:
                pass

    async def aclose(self) -> None:
        """Stop the running turn and close the runtime; the session stays in the store."""
        turn = self._turn
        if turn is not None:
            turn.cancel()
            await asyncio.wait([turn])
        await self.session.interrupt("the end of the editor's connection")
        await self.runtime.aclose()

    def _begin(self, work: Awaitable[StopReason], is_prompted: bool) -> asyncio.Task[StopReason]:
        turn = self._turn = asyncio.ensure_future(work)
        self._is_prompted, self._is_cancelled, self._is_taken = is_prompted, False, False
        self._asked_about.clear()
        turn.add_done_callback(self._end_turn)
        return turn

    def _end_turn(self, turn: asyncio.Task[StopReason]) -> None:
        if self._turn is turn:
            self._turn, self._is_prompted = None, False
        if not turn.cancelled():
            turn.exception()  # the caller reports it, if there is one

    async def _say(self, words: str) -> StopReason:
        await self._tell([update_agent_message_text(plain(words))])
        return "end_turn"

    async def _answer(self, message: UserContent) -> StopReason:
        await self._refresh_tools()
        notices, self._notices = self._notices, []
        self._updates.is_command = isinstance(message, str) and is_command(message)
        await self._tell(self._updates.notices(notices))
        try:
            reason = await self._answer_by(find_file_model(message, self), message)
        except CommandAnswered as answer:
            return await self._say(str(answer))
        finally:
            self._updates.is_command = False
        if reason == "end_turn" and (queued := await self.session.inbox.next_queued()) is not None:
            lines = "\n".join(list_block_lines(to_blocks(queued)))
            await self._tell([update_user_message_text(lines)])
            return await self._answer(queued)
        return reason

    async def _refresh_tools(self) -> None:
        """Open the session again if its tool servers have other tools now, so that the next run has these."""
        before = self.session
        if before.next_action != "prompt":
            return
        try:
            self.session = await self.runtime.refresh_tools(before)
        except SandburError as problem:
            self._notices.append(problem.message)
        if self.session is not before:
            self._notices += self.session.notices

    async def _answer_by(self, model: str, message: UserContent) -> StopReason:
        """Answer a message or a command, with another model if the file of the command names one."""
        before = self.session.settings.model
        if model:
            await self._reopen(model)
        try:
            return await self._go_on(lambda: events_of(message, self))
        finally:
            if model:
                await self._reopen(before)

    async def _tell_options(self) -> None:
        options = self.options
        await self._tell([ConfigOptionUpdate(session_update="config_option_update", config_options=options)])

    async def _go_on(self, begin: Begin | None) -> StopReason:
        """Alternate between running and asking until the turn ends or a question is left open."""
        first, decisions = begin, None
        while not self._is_cancelled:
            try:
                if begin is not None:
                    finished = await self._run(begin)
                    if finished.status not in ("needs_approval", "needs_decision"):
                        return await self._end(finished)
                if self._change_mode():
                    begin = self._carry_on
                    continue
                if (decisions := decisions or await self._decisions()) is None:
                    break
                # After a crash the graph reaches the question only with its answer.
                is_asking = self.session.next_action == "human_confirm"
                begin = self._decide(decisions) if is_asking else self._carry_on
                decisions = None if is_asking else decisions
            except SessionMoved:
                tail, decisions = await self._catch_up(), None
                begin = tail if self._is_taken or first is None else first
                if begin is None and not self._waiting():
                    return "end_turn"
        await self._end(None)
        return "cancelled"

    def _decide(self, decisions: list[CallDecision]) -> Begin:
        async def begin() -> AsyncIterator[Event]:
            return self.session.decide(decisions, way="in an editor")

        return begin

    async def _carry_on(self) -> AsyncIterator[Event]:
        return self.session.carry_on()

    async def _run(self, begin: Begin) -> RunFinished:
        """Run to the next halt and send the events."""
        finished: RunFinished | None = None
        events = cast("AsyncGenerator[Event]", await begin())
        self._is_running = True
        try:
            async with aclosing(events):
                async for event in events:
                    self._is_taken = True
                    await self._tell(self._updates.of(event))
                    if isinstance(event, RunFinished):
                        finished = event
        finally:
            self._is_running = False
        assert finished is not None, "a run ended without its result"
        if finished.error is not None and finished.error.code == SessionHeld.code:
            raise SessionMoved(finished.error.message)
        return finished

    async def _end(self, finished: RunFinished | None) -> StopReason:
        """Send the changes after the answer; raises `RequestError` for a run that failed."""
        self._change_mode()
        mode = self.session.state.execution_mode
        changed: list[Update] = []
        if mode != self._announced_mode and mode in self.offered_modes:
            self._announced_mode = mode
            changed.append(update_current_mode(mode))
            await self._tell_options()
        if title := self._title():
            changed.append(SessionInfoUpdate(session_update="session_info_update", title=title))
        await self._tell(changed)
        if finished is None:
            return "cancelled"
        if (refused := find_run_error(finished)) is not None:
            raise refused
        if finished.status == "interrupted":
            return "cancelled"
        return "max_turn_requests" if finished.status == "turn_limit" else "end_turn"

    def _title(self) -> str:
        """Return the title of the session if it is new to the editor."""
        with suppress(StoreError):
            title = one_line(self.runtime.store.index.summary(self.session.id).title)
            if title != self._announced_title:
                self._announced_title = title
                return title
        return ""

    def _change_mode(self) -> bool:
        """Change to the mode that was chosen during the run; return whether one was chosen."""
        mode, self._wanted = self._wanted, None
        if mode is not None:
            self.session.change_mode(mode)
        return mode is not None

    def _waiting(self) -> tuple[PendingCall, ...]:
        return self.session.state.calls_to_decide

    async def _decisions(self) -> list[CallDecision] | None:
        """Ask about the waiting calls, unknown outcomes first; return None if a question is left open."""
        waiting = self._waiting()
        unknown = [call for call in waiting if call.kind == "outcome_unknown"]
        decisions: list[CallDecision] = []
        for call in unknown or waiting:
            self._asked_about[call.call_id] += 1
            if self._asked_about[call.call_id] > _MOST_QUESTIONS:
                return None
            question = question_about(call, () if unknown else self.session.waiting.suggest_rules(call))
            response = await self._ask(call, question.options)
            choice = None if response is None else question.read_choice(response)
            if choice is None:
                return None
            decisions.append(choice.decision(call, self.session))
            if choice.is_for_more:
                break
        return decisions

    async def _ask(
        self, call: PendingCall, options: list[PermissionOption]
    ) -> RequestPermissionResponse | None:
        """Ask about a call; return the answer, or None without one. Raises `SessionMoved` if another process
        continued the session.
        """
        await self._tell(self._updates.calls.announce_earlier([call]))
        question = self._updates.calls.describe_question(call)
        asking = asyncio.ensure_future(self._client.request_permission(self.session.id, question, options))
        self._asking = asking
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=_LOOK_S)
                if not asking.done():
                    await self._look()
            return None if asking.cancelled() else asking.result()
        except (RequestError, ConnectionError):
            return None
        finally:
            self._asking = None
            asking.cancel()

    async def _look(self) -> None:
        """Raise `SessionMoved` if another process continued the session."""
        with suppress(SessionHeld):  # that process still runs; a later check sees its result
            if (other := await self.session.elsewhere()) is not None:
                raise other

    async def _catch_up(self) -> Begin | None:
        """Load the session again after another process continued it; return how to go on here, or None."""
        before = len(self.session.state.chat_history)
        self.session = await self.runtime.reload(self.session)
        if self._chosen_model and self._chosen_model != self.session.settings.model:
            changes = {"model": self._chosen_model, "agent": self.session.settings.agent}
            self.session = await self.runtime.reopen(self.session, **changes)
        messages = list(self.session.state.chat_history)[before:]
        await self._tell(message_updates(messages, await self._load_nested(), self._updates.calls))
        waits_at = self.session.next_action
        return None if waits_at in ("prompt", "human_confirm") else self._carry_on

    async def _tell(self, updates: Iterable[Update]) -> None:
        for update in updates:
            await self._client.session_update(self.session.id, update)
