"""One conversation: takes messages and decisions in, and passes every event of a run on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from actions.commands import answer_command
from actions.events import Event, Notice, RunStarted
from actions.proposals import judge
from actions.triage import triage, waiting_or_told
from agent.conditions import conditions_of
from agent.limits import Limits
from agent.outcome import finished
from agent.position import Position
from agent.rules import exact_rule
from agent.run import Run
from agent.telemetry.observer import Observe, nobody
from agent.version import VERSION
from agent.whoami import whoami
from state.application import ApplicationState, ExecutionMode
from state.calls import CallDecision, PendingCall
from state.errors import UsageError
from state.messages import encodable
from state.session import SessionSettings
from state.store.store import Store
from state.trace import RunBegan, RunEnded

if TYPE_CHECKING:
    from burr.core import Application

    from actions.ports import Ports


class Session:
    """A run is an iterator of events that ends with exactly one `RunFinished`; one run at a time."""

    def __init__(
        self,
        session_id: str,
        application: "Application[Any]",
        ports: "Ports",
        store: Store,
        settings: SessionSettings,
        limits: Limits,
        on_allow: Callable[[str], SessionSettings],
        observe: Observe = nobody,
    ) -> None:
        self.id = session_id
        self.settings = settings
        self.notices: tuple[str, ...] = ()
        """What the person should know before the first run."""
        self._ports = ports
        self._limits = limits
        self._on_allow = on_allow
        self._observe = observe
        self._position = Position(session_id, application, store)
        self._run: Run | None = None
        self._is_examined = False

    @property
    def state(self) -> ApplicationState:
        return self._position.state

    @property
    def model_name(self) -> str:
        return self._ports.model.name

    @property
    def next_action(self) -> str:
        """The action that the graph stands before."""
        return self._position.next_action

    def send(self, text: str) -> AsyncIterator[Event]:
        """Take a message or a command in and go on until done or stopped."""
        text = self._ports.masker.text(encodable(text))
        answer = answer_command(text.strip(), self.state)
        if self.next_action != "prompt":
            if answer is not None:
                # The graph stands in the middle of a turn, and a command does not end it.
                self._position.change(**answer.changes)
                return self._answer(answer.notice)
            self._position.back_to_prompt()
        return self._start("prompt", {"user_input": text}, is_command=answer is not None)

    def carry_on(self) -> AsyncIterator[Event]:
        """Go on from the exact action at which the session stands."""
        return self._start(None, {})

    def decide(self, decisions: Sequence[CallDecision], record_only: bool = False) -> AsyncIterator[Event]:
        """Record decisions about pending calls and go on, unless they are only to be recorded.

        Raises `UsageError` if no call waits for a decision.
        """
        if self.next_action != "human_confirm":
            raise UsageError(f"No call of session {self.id} waits for a decision.")
        signed = (each if each.by else each.model_copy(update={"by": whoami()}) for each in decisions)
        return self._start("human_confirm", {"decisions": tuple(signed)}, record_only)

    async def examine(self) -> None:
        """Find out what came of the calls that were running when the process of the last run died."""
        if not self._is_examined:
            self._is_examined = True
            self._change_calls(await triage(self.state, self._ports))

    def allow_always(self, rule: str) -> None:
        """Let what `rule` covers pass unasked for the rest of this session."""
        self.settings = self._on_allow(rule)

    def change_mode(self, mode: ExecutionMode) -> None:
        """Change what runs unasked; recorded with the next step."""
        self._position.change(execution_mode=mode)

    def suggested_rule(self, call: PendingCall) -> str:
        """Return the rule that "always" offers: this very command or path, nothing wider."""
        tool = self._ports.toolbox[call.tool]
        return exact_rule(call.tool, tool.subject(tool.parse(call.arguments)))

    async def interrupt(self) -> None:
        """Cancel the current action; the running iterator then ends as `interrupted`."""
        if self._run is not None:
            await self._run.interrupt()

    def _judge_again(self) -> None:
        """Let mode and rules of now decide what mode and rules decided when a call was proposed."""
        self._change_calls(tuple(map(self._judged_again, self.state.pending_tool_calls)))

    def _judged_again(self, call: PendingCall) -> PendingCall:
        mode = self.state.execution_mode
        if call.kind == "outcome_unknown":
            return waiting_or_told(call, mode) if call.settled_as is None else call
        if call.decision == "invalid" or call.decided_by == "person" or call.starts:
            return call
        return judge(call.call_id, call.tool, call.arguments, self._ports, mode)

    def _change_calls(self, calls: tuple[PendingCall, ...]) -> None:
        if calls != self.state.pending_tool_calls:
            self._position.change(pending_tool_calls=calls)

    async def _start(
        self,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool = False,
        is_command: bool = False,
    ) -> AsyncIterator[Event]:
        message = "" if is_command else inputs.get("user_input", "")
        async for notice in self._claimed(message):
            yield notice
        try:
            await self.examine()
            if first is None:
                self._judge_again()
                self._position.change(bad_rounds=0)
            self._record_beginning(first)
            run = self._run = Run(
                self._position,
                self._ports.journal,
                self._ports.trace,
                self._limits,
                first,
                inputs,
                record_only,
                is_command,
                self._observe,
            )
            try:
                yield self._started()
                async for event in run.events():
                    yield event
            finally:
                await run.interrupt()
        finally:
            if self._position.is_held:
                self._ports.trace.add(RunEnded(status="interrupted", action=self.next_action))
            await self._position.leave()

    def _record_beginning(self, first: str | None) -> None:
        changes = set(self._position.unrecorded)
        self._ports.trace.add(
            RunBegan(
                action=first or self._position.next_action,
                mode=self.state.execution_mode,
                model=self.model_name,
                version=VERSION,
                by=whoami(),
                changes=self.state.model_dump(mode="json", include=changes),
                conditions=conditions_of(self.settings, self._ports),
            )
        )

    async def _claimed(self, message: str) -> AsyncIterator[Event]:
        """Take the right to write; yield what is to be said while that takes its time."""
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        self._position.store.database.on_notice = heard.put_nowait
        task = asyncio.ensure_future(self._position.claim(self.settings, message))
        task.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (text := await heard.get()) is not None:
                yield Notice(text)
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    async def _answer(self, notice: str) -> AsyncIterator[Event]:
        """Answer a command without moving the graph."""
        yield self._started()
        yield Notice(notice)
        yield finished(self.id, self.state, self.next_action, is_command=True)

    def _started(self) -> RunStarted:
        return RunStarted(self.id, self.model_name, self.state.execution_mode, self.settings.cwd, VERSION)
