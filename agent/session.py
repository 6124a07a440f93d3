"""Drives one session: runs the graph, passes events on, and turns every end into a result."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from actions.events import ApprovalNeeded, ErrorRaised, Event, RunFinished, RunStarted
from actions.proposals import judge
from agent.limits import Limits
from agent.outcome import finished
from agent.rules import exact_rule
from state.application import ApplicationState, ExecutionMode
from state.calls import CallDecision, PendingCall
from state.errors import SandburError, StoreError, Timeout
from state.messages import encodable
from state.session import SessionSettings
from state.store.store import Store

if TYPE_CHECKING:
    from burr.core import Application

    from actions.ports import Ports

HALTS = ("prompt", "human_confirm")
MODEL_ACTIONS = frozenset(
    {"router", "vibe_planner", "vibe_step_executor", "vibe_result_analyzer", "context_compressor"}
)
MAX_TITLE_CHARS = 80

_log = logging.getLogger("sandbur")


class InternalError(SandburError):
    """A bug: its traceback goes to the log, the session stays resumable."""

    code = "internal"


class Session:
    """One conversation. A run is an iterator of events that ends with exactly one `RunFinished`."""

    def __init__(
        self,
        session_id: str,
        application: "Application[Any]",
        ports: "Ports",
        store: Store,
        settings: SessionSettings,
        limits: Limits,
        version: str,
        is_stored: bool,
        on_allow: Callable[[str], SessionSettings],
    ) -> None:
        self.id = session_id
        self.settings = settings
        self._application = application
        self._ports = ports
        self._store = store
        self._limits = limits
        self._version = version
        self._is_stored = is_stored
        self._on_allow = on_allow
        self.notices: tuple[str, ...] = ()
        """What the person should know before the first run."""
        self._run_task: asyncio.Task[None] | None = None
        self._was_interrupted = False

    @property
    def state(self) -> ApplicationState:
        return self._application.state.data

    @property
    def model_name(self) -> str:
        return self._ports.model.name

    @property
    def next_action(self) -> str:
        """The action that the graph stands before."""
        action = self._application.get_next_action()
        return action.name if action is not None else "prompt"

    def send(self, text: str) -> AsyncIterator[Event]:
        """Take a message or a command in and go on until done or stopped."""
        if self.next_action != "prompt":
            self._back_to_prompt()
        return self._run("prompt", {"user_input": encodable(text)})

    def carry_on(self) -> AsyncIterator[Event]:
        """Go on from the exact action at which the session stands."""
        if not all(self._still_asks(call) for call in self._undecided()):
            return self._run("human_confirm", {"decisions": ()})
        return self._run(None, {})

    def decide(self, decisions: Sequence[CallDecision], record_only: bool = False) -> AsyncIterator[Event]:
        """Record decisions about pending calls and go on, unless they are only to be recorded."""
        return self._run("human_confirm", {"decisions": tuple(decisions)}, record_only)

    def allow_always(self, rule: str) -> None:
        """Let what `rule` covers pass unasked for the rest of this session."""
        self.settings = self._on_allow(rule)

    def change_mode(self, mode: ExecutionMode) -> None:
        """Change what runs unasked; recorded with the next step."""
        application = self._application
        application.update_state(application.state.update(execution_mode=mode))

    def suggested_rule(self, call: PendingCall) -> str:
        """Return the rule that "always" offers: this very command or path, nothing wider."""
        tool = self._ports.toolbox[call.tool]
        return exact_rule(call.tool, tool.subject(tool.parse(call.arguments)))

    def _still_asks(self, call: PendingCall) -> bool:
        """Tell whether the gate, as it is now, would still ask about a pending call."""
        mode = self.state.execution_mode
        return judge(call.call_id, call.tool, call.arguments, self._ports, mode).decision == "undecided"

    async def interrupt(self) -> None:
        """Cancel the current action; the running iterator then ends as `interrupted`."""
        task = self._run_task
        if task is not None and not task.done():
            self._was_interrupted = True
            task.cancel()
            await asyncio.wait([task])

    def _undecided(self) -> tuple[PendingCall, ...]:
        return tuple(call for call in self.state.pending_tool_calls if call.decision == "undecided")

    def _back_to_prompt(self) -> None:
        """Leave an interrupted turn: the next action is the entry point, which closes what is open."""
        state = self._application.state
        self._application.update_state(state.wipe(delete=["__PRIOR_STEP"]))

    async def _run(
        self, first: str | None, inputs: dict[str, Any], record_only: bool = False
    ) -> AsyncIterator[Event]:
        events: asyncio.Queue[Event] = asyncio.Queue()
        self._was_interrupted = False
        self._begin(inputs.get("user_input"))
        yield RunStarted(
            self.id, self.model_name, self.state.execution_mode, self.settings.cwd, self._version
        )
        self._run_task = asyncio.ensure_future(self._finish(first, inputs, record_only, events))
        try:
            while True:
                event = await events.get()
                yield event
                if isinstance(event, RunFinished):
                    return
        finally:
            await self.interrupt()

    def _begin(self, message: str | None) -> None:
        if not self._is_stored:
            self._store.create(self.id, self.settings)
            self._is_stored = True
        if message and not message.startswith("/") and not self._store.index.summary(self.id).title:
            self._store.index.set_title(self.id, " ".join(message.split())[:MAX_TITLE_CHARS])
        self._store.index.claim(self.id, self._last_seq)
        self._number_from_store()

    @property
    def _last_seq(self) -> int:
        return self._store.writer(self.id).last_seq

    def _number_from_store(self) -> None:
        """Make the next step follow the last stored one: Burr counts steps that never finished, too."""
        state = self._application.state
        if self._last_seq < 0:
            numbered = state.wipe(delete=["__SEQUENCE_ID"])
        else:
            numbered = state.update(__SEQUENCE_ID=self._last_seq)
        self._application.update_state(numbered)

    async def _finish(
        self,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool,
        events: "asyncio.Queue[Event]",
    ) -> None:
        """Drive the graph and put the result behind its events, whatever ends the run."""
        began = time.monotonic()
        error: SandburError | None = None
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                await self._drive(first, inputs, record_only, events)
        except TimeoutError:
            limit = self._limits.timeout_s
            error = Timeout(f"The time limit of {limit:g} s is reached.", "Resume to go on.")
        except SandburError as raised:
            error = raised
        except asyncio.CancelledError:
            if not self._was_interrupted:
                raise
        except Exception as bug:
            _log.exception("unexpected error in session %s", self.id)
            error = InternalError(f"Sandbur failed: {type(bug).__name__}: {bug}", "This is a bug.")
        error = self._flushed(error)
        if error is not None:
            events.put_nowait(ErrorRaised(error.code, error.message))
        duration_ms = int((time.monotonic() - began) * 1000)
        end = finished(self.id, self.state, self.next_action, duration_ms, error, self._was_interrupted)
        if end.pending and error is None:
            events.put_nowait(ApprovalNeeded(self._undecided()))
        # Whoever looks later sees from the dead owner, too, that the run is over.
        with suppress(StoreError):
            self._store.index.release(self.id, end.status)
        events.put_nowait(end)

    def _flushed(self, error: SandburError | None) -> SandburError | None:
        """Write results that wait for a commit which an interruption has taken from them."""
        try:
            self._store.writer(self.id).flush()
        except StoreError as failed:
            return error or failed
        return error

    async def _drive(
        self,
        first: str | None,
        inputs: dict[str, Any],
        record_only: bool,
        events: "asyncio.Queue[Event]",
    ) -> None:
        used = self.state.usage
        if first is not None:
            await self._iterate({"halt_after": [first], "inputs": inputs}, events, None)
        if record_only:
            return
        if self.next_action in MODEL_ACTIONS:
            self._limits.check(used, self.state.usage)
        if self.next_action not in HALTS:
            await self._iterate({"halt_before": list(HALTS)}, events, used)

    async def _iterate(self, halt: dict[str, Any], events: "asyncio.Queue[Event]", used: Any) -> None:
        steps = cast(Any, self._application).astream_iterate(**halt)
        async for _, items in steps:
            async for item in items:
                events.put_nowait(item["event"])
            if used is not None and self.next_action in MODEL_ACTIONS:
                self._limits.check(used, self.state.usage)
