"""One conversation: takes messages and decisions in, and passes every event of a run on."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from actions.commands import answer_command
from actions.events import Event, Notice, RunStarted
from actions.proposals import judge
from agent.limits import Limits
from agent.outcome import finished
from agent.position import Position
from agent.rules import exact_rule
from agent.run import Run
from agent.version import VERSION
from state.application import ApplicationState, ExecutionMode
from state.calls import CallDecision, PendingCall
from state.errors import UsageError
from state.messages import encodable
from state.session import SessionSettings
from state.store.store import Store

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
    ) -> None:
        self.id = session_id
        self.settings = settings
        self.notices: tuple[str, ...] = ()
        """What the person should know before the first run."""
        self._ports = ports
        self._limits = limits
        self._on_allow = on_allow
        self._position = Position(session_id, application, store)
        self._run: Run | None = None

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
        text = encodable(text)
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
        self._judge_again()
        self._position.change(bad_rounds=0)
        return self._start(None, {})

    def decide(self, decisions: Sequence[CallDecision], record_only: bool = False) -> AsyncIterator[Event]:
        """Record decisions about pending calls and go on, unless they are only to be recorded.

        Raises `UsageError` if no call waits for a decision.
        """
        if self.next_action != "human_confirm":
            raise UsageError(f"No call of session {self.id} waits for a decision.")
        return self._start("human_confirm", {"decisions": tuple(decisions)}, record_only)

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
        calls = tuple(
            call
            if call.decision == "invalid" or call.decided_by == "person"
            else judge(call.call_id, call.tool, call.arguments, self._ports, self.state.execution_mode)
            for call in self.state.pending_tool_calls
        )
        if calls != self.state.pending_tool_calls:
            self._position.change(pending_tool_calls=calls)

    async def _start(
        self,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool = False,
        is_command: bool = False,
    ) -> AsyncIterator[Event]:
        self._position.claim(self.settings, "" if is_command else inputs.get("user_input", ""))
        run = self._run = Run(
            self._position, self._ports.journal, self._limits, first, inputs, record_only, is_command
        )
        try:
            yield self._started()
            async for event in run.events():
                yield event
        finally:
            await run.interrupt()
            self._position.leave()

    async def _answer(self, notice: str) -> AsyncIterator[Event]:
        """Answer a command without moving the graph."""
        yield self._started()
        yield Notice(notice)
        yield finished(self.id, self.state, self.next_action, is_command=True)

    def _started(self) -> RunStarted:
        return RunStarted(self.id, self.model_name, self.state.execution_mode, self.settings.cwd, VERSION)
