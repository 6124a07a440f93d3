"""One conversation: takes messages and decisions in, and passes every event of a run on."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import Any

from burr.core import Application

from ...actions.masking.references import mask_arguments
from ...actions.ports import Model, Ports, Tool, Toolbox, ToolListing, Verdict
from ...actions.ports.events import Event, Notice, PlanResumed, RunStarted
from ...actions.tools.registry import builtin_tools
from ...actions.turn.calls.recovery import triage
from ...actions.turn.calls.tool_results import sweep
from ...actions.turn.calls.user_command import shell_of, without_secrets
from ...actions.turn.commands import answer_command
from ...actions.turn.model_call import refusal_of
from ...actions.turn.output.answers import allow_another_try
from ...state.application import ApplicationState, ExecutionMode, InboxTaken
from ...state.calls import CallDecision, Origin
from ...state.conversation.messages import UserContent, encodable, person_message
from ...state.conversation.transcript import Transcript
from ...state.errors import SessionHeld, SessionMoved, StoreError, UsageError
from ...state.session import SessionSettings, WaitingMessage, clean_title
from ...state.store.store import Store
from ...state.trace import RunBegan, RunEnded
from ..runtime.wiring import conditions_of
from ..version import VERSION
from .inbox import SessionInbox
from .observers import Observers
from .open_request import OpenRequest, find_open_request
from .position import Position
from .run import Limits, Run, make_run_finished
from .waiting_calls import SessionRules, WaitingCalls

_MAX_CHARS = 120


def whoami(env: Mapping[str, str] = os.environ) -> str:
    """Return `SANDBUR_USER`, which a bot sets to pass on a person's decision, or user@host."""
    named = " ".join(env.get("SANDBUR_USER", "").split())
    return encodable(named)[:_MAX_CHARS] if named else _account()


@cache
def _account() -> str:
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # accounts in containers need no name
        name = str(uid)
    return encodable(f"{name}@{os.uname().nodename}")


class Session:
    """A run is an iterator of events that ends with exactly one `RunFinished`; one run at a time."""

    def __init__(
        self,
        session_id: str,
        application: Application[Any],
        ports: Ports,
        inbox: SessionInbox,
        store: Store,
        rules: SessionRules,
        limits: Limits,
        observers: Observers | None = None,
        by: str = "",
    ) -> None:
        """`inbox` is that of the `ports`; `by` is who decides, without a name `whoami`."""
        self._inbox = inbox
        self._next_taken: InboxTaken | None = None
        """The inbox messages that the next message includes."""
        self.id = session_id
        self.rules = rules
        self.notices: tuple[str, ...] = ()
        """Notices for the person before the first run."""
        self._ports = ports
        self._limits = limits
        self._by = by or whoami()
        self.observers = observers or Observers()
        self._position = Position(session_id, application, store)
        self.waiting = WaitingCalls(self._position, ports, rules)
        self._run: Run | None = None
        self._is_running = False
        self._adding = asyncio.Lock()
        """Held while a run claims the session, and while an observed message is added to the history."""
        self._is_examined = False
        self._open_request = OpenRequest()

    @property
    def state(self) -> ApplicationState:
        return self._position.state

    @property
    def settings(self) -> SessionSettings:
        return self.rules.settings

    @property
    def model(self) -> Model:
        return self._ports.model

    @property
    def model_name(self) -> str:
        return self._ports.model.name

    @property
    def sandbox(self) -> str:
        """Kind and network access of the sandbox for its commands."""
        return self._ports.calls.sandbox

    @property
    def toolbox(self) -> Toolbox:
        """Its tools by name, including those that are not offered to the model yet."""
        return self._ports.toolbox

    @property
    def offered(self) -> ToolListing:
        """The current tool declarations and prompt, without the conversation."""
        return self._ports.requests.offer(self.state.equipment)

    @property
    def budget_usd(self) -> float | None:
        """The limit of what one run may cost; None: no limit."""
        return self._limits.max_budget_usd

    @property
    def next_action(self) -> str:
        """The action that the graph runs next."""
        return self._position.next_action

    def send(self, message: UserContent) -> AsyncIterator[Event]:
        """Send a message or a command, and run until done or stopped.

        A message is a text, or a list of texts, pictures and documents; a list is never a command. Raises
        `UsageError` for a file that the model does not accept.
        """
        content = self._mask_content(message)
        answer = None
        if isinstance(content, str) and content.lstrip().startswith("/"):
            answer = answer_command(content.strip(), self.state)
        if answer is not None and self.next_action != "prompt":
            # The turn is unfinished, and a command does not end it.
            self._position.change(**answer.changes)
            return self._answer(answer.notice)
        return self._start("prompt", {"user_input": content}, is_command=answer is not None)

    def run_command(self, command: str, origin: Origin = "person") -> AsyncIterator[Event]:
        """Run a shell command of the person through the gate; the model reads it with its next call.

        Typing the command approves it; a `command` from a file is judged like a model's call. It ends an open
        turn, as a message does. Raises `UsageError` if the command is empty or there is no shell tool.
        """
        tool = shell_of(self._ports.toolbox)
        if not command.strip():
            raise UsageError("There is no command behind the `!`.", "Type one: !git status")
        if tool is None:
            raise UsageError("This session has no tool that runs commands.")
        masked = without_secrets(encodable(command.strip()), tool, self._ports.masker)
        return self._start("prompt", {"user_input": f"!{masked}", "runs": origin})

    def note(self, command: str, notice: str) -> AsyncIterator[Event]:
        """Record a command that has been done by changes of this object or of its settings."""
        masked = self._ports.masker.text(encodable(command))
        if self.next_action != "prompt":
            return self._keep_notice(notice)
        return self._start("prompt", {"user_input": masked, "noted": notice}, is_command=True)

    async def _keep_notice(self, notice: str) -> AsyncIterator[Event]:
        """Write the settings down in the middle of a turn, which stays where it is."""
        summary = self._position.store.index.summary(self.id)
        async for waiting in self._position.claim_lease(self.settings, ""):
            yield waiting
        try:
            await self._position.take()
        finally:
            await self._position.release(summary.status, summary.wake_at)
        async for event in self._answer(notice):
            yield event

    def _mask_content(self, message: UserContent) -> UserContent:
        """Return a message with the secrets in its text masked; files are not searched."""
        masker = self._ports.masker
        if isinstance(message, str):
            return masker.text(encodable(message))
        for part in message:
            if not isinstance(part, str) and (why := refusal_of(self._ports.model, part)):
                raise UsageError(why, "Leave it out, or go on with another model: -m PROVIDER/MODEL")
        return tuple(masker.text(encodable(part)) if isinstance(part, str) else part for part in message)

    async def steer(self, text: str) -> None:
        """Send a message to the working model: it is on disk on return, and the next model call includes it.

        If no run reads it, it is queued. Raises `UsageError` for a command.
        """
        await self._inbox.add("steer", text, self.state.inbox_taken)

    async def queue(self, text: str) -> None:
        """Keep a message or a command, on disk now, that is to be sent when the run is over."""
        await self._inbox.add("queue", text, self.state.inbox_taken)

    async def read_inbox(self) -> None:
        """Read the messages that wait since the last run or came from another process."""
        await self._inbox.open(self.state.inbox_taken)

    @property
    def waiting_messages(self) -> tuple[WaitingMessage, ...]:
        """The known messages that are to be sent and are in no history yet, in order."""
        waiting = self._inbox.waiting(self._next_taken or self.state.inbox_taken)
        return tuple(one for one in waiting if one.kind != "observe")

    @property
    def observed_messages(self) -> tuple[WaitingMessage, ...]:
        """The known messages that were only observed and are in no history yet, in order."""
        return tuple(one for one in self._inbox.waiting(self.state.inbox_taken) if one.kind == "observe")

    async def withdraw(self, number: int) -> str:
        """Take a message that waits back, and return it; raises `UsageError` if it waits no more."""
        return await self._inbox.withdraw(number, self.state.inbox_taken, self._is_running)

    async def next_queued(self) -> str | None:
        """Return the message to send now; None: there is none, or a call waits for a decision.

        The next `send` removes it from the inbox, in the step that adds it to the history; a chat command is
        removed at once.
        """
        if self.next_action == "human_confirm":
            return None
        found = await self._inbox.next_queued(self.state.inbox_taken)
        if found is None:
            return None
        text, self._next_taken = found
        return text

    async def observe(self, text: str) -> None:
        """Add a message to the history without a reply; it is on disk when this returns.

        It is in the history at once if no turn is open here. Otherwise it waits in the inbox: the next model
        call includes it, or it comes before the next message.
        """
        await self._inbox.add("observe", text, self.state.inbox_taken)
        async with self._adding:
            if not (self._is_running or self.state.turn_open) and self.next_action == "prompt":
                inputs = {"user_input": text, "observes": True}
                # The process that runs the session takes the message from the inbox.
                with suppress(SessionHeld, SessionMoved):
                    async for _ in self._running("prompt", inputs, is_command=True):
                        pass

    def carry_on(self) -> AsyncIterator[Event]:
        """Continue from the exact action where the session stopped.

        Raises `UsageError` if it has no messages.
        """
        if not len(self.state.chat_history) and not self.state.pending_tool_calls:
            raise UsageError(
                f"Session {self.id} has no message yet, so there is nothing to go on with.",
                f"Send one: sandbur -p -r {self.id} MESSAGE",
            )
        return self._start(None, {})

    def decide(self, decisions: Sequence[CallDecision], record_only: bool = False) -> AsyncIterator[Event]:
        """Record decisions about pending calls and go on, unless they are only to be recorded.

        Raises `UsageError` if no call waits for a decision.
        """
        if self.next_action != "human_confirm":
            raise UsageError(f"No call of session {self.id} waits for a decision.")
        self.waiting.judge_again(but={each.call_id for each in decisions})
        signed = (each if each.by else each.model_copy(update={"by": self._by}) for each in decisions)
        return self._start("human_confirm", {"decisions": tuple(signed)}, record_only)

    async def elsewhere(self) -> StoreError | None:
        """Return why this process cannot continue now: `SessionHeld` or `SessionMoved`; None if it can."""
        return await self._position.elsewhere()

    async def examine(self) -> None:
        """Find the outcomes of calls and requests that were open when the process of the last run died."""
        if not self._is_examined:
            self._is_examined = True
            if self.state.pending_tool_calls:
                self.waiting.change(await triage(self.state, self._ports))
            self._open_request = await find_open_request(self._position, self._ports)
            self.notices += (self._open_request.notice,) if self._open_request.notice else ()

    def carry_over(self, earlier: Session) -> None:
        """Take over the unrecorded changes of another object of this session."""
        self._position.change(**earlier._position.unrecorded)

    async def rename(self, title: str) -> str:
        """Rename the session durably; return the stored title. Raises `UsageError` for an empty one."""
        kept = clean_title(self._ports.masker.text(encodable(title)))
        if not kept:
            raise UsageError("A title needs at least one letter.", "Say how the session is to be called.")
        await self._position.rename(kept)
        return kept

    def change_mode(self, mode: ExecutionMode) -> None:
        """Change what runs unasked; recorded with the next step."""
        self._position.change(execution_mode=mode)

    def change_history(self, history: Transcript) -> None:
        """Replace the global history; recorded with the next step. Raises `UsageError` in an open turn."""
        if self.state.turn_open:
            raise UsageError("The history cannot be changed in the middle of a turn.", "Let it end first.")
        self._position.change(chat_history=history)

    def take_over(self) -> None:
        """Record that permissions from where the session ran before are not valid here."""
        state = self.state
        self._position.change(
            execution_mode=state.execution_mode, pending_tool_calls=state.pending_tool_calls
        )

    def judge_reading(self, path: str) -> Verdict:
        """Return the gate's verdict on reading a file that the person names in a message."""
        from ..policy.judge import Judge

        judge = Judge(self.rules.gate_of(self.settings), builtin_tools())
        return judge.reading_verdict(path, self.state.execution_mode)

    def tool(self, name: str) -> Tool | None:
        """Return the session's tool with this name."""
        return self._ports.toolbox.get(name)

    def mask_arguments(self, arguments: str) -> str:
        """Return arguments with secrets masked, as they are displayed and stored."""
        return mask_arguments(arguments, self._ports.masker)

    async def interrupt(self) -> None:
        """Cancel the current action; the running iterator then ends as `interrupted`."""
        if self._run is not None:
            await self._run.interrupt()

    def _start(
        self, first: str | None, inputs: dict[str, Any], record_only: bool = False, is_command: bool = False
    ) -> AsyncIterator[Event]:
        events = self._running(first, inputs, record_only, is_command)
        if not self.observers or is_command:
            return events
        message = None if inputs.get("runs") else inputs.get("user_input")
        return self.observers.follow(events, message)

    async def _running(
        self, first: str | None, inputs: dict[str, Any], record_only: bool = False, is_command: bool = False
    ) -> AsyncIterator[Event]:
        inputs = await self._rewrite_message(inputs, is_command)
        run = self._run = Run(
            self._position, self._ports, self._limits, first, inputs, record_only, is_command, self.observers
        )
        async for notice in self._claim(inputs, is_command):
            yield notice
        try:
            await self.examine()
            if first == "prompt" and self.next_action != "prompt":
                self._position.back_to_prompt()
            if first is None:
                self.waiting.judge_again()
                self._position.change(bad_rounds=0, **self._reset_for_retry())
            taken = self._taking(first, is_command)
            if first is None:
                run.go_on_from(self._open_request)
            self._open_request = self._open_request if is_command else OpenRequest()
            self._record_beginning(first)
            if self._ports.places.scratch is not None and self._ports.places.scratch.is_dir():
                await sweep(self.state, self._ports)
            plan = self.state.vibe_plan if first != "prompt" and self.state.turn_open else ()
            try:
                async for event in run.events(self._make_run_started()):
                    yield event
                    if isinstance(event, RunStarted) and plan:
                        yield PlanResumed(plan)
            finally:
                await run.interrupt()
                if not run.has_begun and taken != self.state.inbox_taken:
                    self._position.change(inbox_taken=taken)
                if not run.is_recorded:
                    self._ports.trace.add(RunEnded(status="interrupted", action=self.next_action))
        finally:
            self._is_running = False
            await self._position.leave()

    async def _rewrite_message(self, inputs: dict[str, Any], is_command: bool) -> dict[str, Any]:
        """Return the inputs of a run, with the person's message as hooks rewrite it."""
        hooks, message = self._ports.hooks, inputs.get("user_input")
        if hooks is None or message is None or is_command or inputs.get("runs"):
            return inputs
        return {**inputs, "user_input": self._mask_content(await hooks.rewrite_message(message))}

    async def _claim(self, inputs: Mapping[str, Any], is_command: bool) -> AsyncIterator[Notice]:
        """Acquire the lease for a run; a message names a new session."""
        is_observing = "observes" in inputs
        is_message = is_observing or not (is_command or inputs.get("runs"))
        message = person_message(inputs.get("user_input", "")).display_text if is_message else ""
        async with nullcontext() if is_observing else self._adding:
            async for notice in self._position.claim_lease(self.settings, message):
                yield notice
            self._is_running = True

    def _taking(self, first: str | None, is_command: bool) -> InboxTaken:
        """Make the next step record that it includes a message of the inbox; return what was to be included
        before."""
        before, after = self.state.inbox_taken, self._next_taken
        if first == "prompt" and not is_command and after is not None:
            self._next_taken = None
            self._position.change(inbox_taken=after)
        return before

    def _reset_for_retry(self) -> dict[str, Any]:
        if not self.state.rejected_answers:
            return {}

        return allow_another_try(self.state, self._ports)

    def _record_beginning(self, first: str | None) -> None:
        self._ports.trace.add(
            RunBegan(
                action=first or self._position.next_action,
                mode=self.state.execution_mode,
                model=self.model_name,
                version=VERSION,
                by=self._by,
                changes=self.state.model_dump(mode="json", include=set(self._position.unrecorded)),
                conditions=conditions_of(self.settings, self._ports),
                settings_sha256=self.settings.digest,
            )
        )

    async def _answer(self, notice: str) -> AsyncIterator[Event]:
        """Answer a command without moving the graph."""
        yield self._make_run_started()
        yield Notice(notice)
        output = self._ports.turn.output
        yield make_run_finished(self.id, self.state, self.next_action, is_command=True, output=output)

    def _make_run_started(self) -> RunStarted:
        return RunStarted(
            self.id,
            self.model_name,
            self.state.execution_mode,
            self.settings.cwd,
            VERSION,
            self._ports.calls.sandbox,
        )
