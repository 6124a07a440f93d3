"""Hears all that the runs of one session tell, and has it passed on as telemetry."""

import time
from collections.abc import AsyncIterator, Callable
from functools import partial

from ....actions.ports import Model, ModelEvent, ModelRequest, Reply, Trace
from ....actions.ports.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    Notice,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from ....actions.turn.model_call import WrappedModel
from ....state.application import ApplicationState
from ....state.calls import PendingCall
from ....state.trace import ModelCalled, RunBegan, RunEnded, TraceRecord
from . import names
from .spans import Attributes, Content, Outlet, RunSpan


class OverheardModel(WrappedModel):
    """Passes everything on as it comes."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.request: ModelRequest | None = None
        """The last one; None before the first."""
        self.reply: Reply | None = None
        """The answer to it; None as long as there is none."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.request, self.reply = request, None
        async for event in self._model.stream(request):
            if isinstance(event, Reply):
                self.reply = event
            yield event


_TOLD = (ApprovalNeeded, MessageAdded, Notice, ToolFinished, ToolRequested, ToolStarted)


class SessionTelemetry:
    """Stands in front of the session's trace; one run at a time.

    What takes time is left to the outlet's worker: only the beginning of a run is not, because the store
    wants the id of its trace.
    """

    def __init__(
        self, session_id: str, log: Trace, outlet: Outlet, mask: Callable[[str], str], has_content: bool
    ) -> None:
        self._session_id = session_id
        self._log = log
        self._outlet = outlet
        self._mask = mask
        self._content = Content(mask) if has_content else None
        self._model: OverheardModel | None = None
        self._run: RunSpan | None = None

    def overhear(self, model: Model) -> Model:
        """Return the model to use; what it says is heard only where content is exported."""
        if self._content is None:
            return model
        self._model = OverheardModel(model)
        return self._model

    def add(self, record: TraceRecord) -> None:
        """Export a record and pass it on; the beginning of a run takes the id of its trace along."""
        run, at_ns = self._run, time.time_ns()
        if isinstance(record, RunBegan):
            self._run = RunSpan(self._outlet, self._session_id, record, at_ns, self._mask)
            record = record.model_copy(update={"trace_id": self._run.trace_id})
        elif isinstance(record, ModelCalled) and run is not None:
            said = (self._model.request, self._model.reply) if self._model is not None else (None, None)
            self._outlet.worker.do(partial(self._called, run, record, *said))
        elif isinstance(record, RunEnded) and run is not None:
            self._run = None
            self._outlet.worker.do(partial(run.end, record, at_ns))
        self._log.add(record)

    async def flush(self) -> None:
        await self._log.flush()

    def note(self, event: Event, state: ApplicationState) -> None:
        """Export what an event tells; `state` is what its step began with."""
        if self._run is not None and isinstance(event, _TOLD):
            self._outlet.worker.do(partial(self._noted, self._run, event, state, time.time_ns()))

    def _noted(self, run: RunSpan, event: Event, state: ApplicationState, at_ns: int) -> None:
        match event:
            case Notice():
                run.noticed(event, at_ns)
            case ToolRequested():
                run.requested(event.call_id)
            case ToolStarted():
                call = _pending(state, event.call_id)
                arguments = self._text(names.TOOL_ARGUMENTS, call.arguments if call is not None else None)
                run.tool_started(event, call, arguments, at_ns)
            case ToolFinished():
                result = self._text(names.TOOL_RESULT, event.content)
                run.tool_finished(event, _pending(state, event.call_id), result, at_ns)
            case ApprovalNeeded():
                for call in event.pending:
                    run.asked(call, at_ns)
            case MessageAdded():
                run.said(self._said(event))
            case _:
                pass

    def _called(
        self, run: RunSpan, call: ModelCalled, request: ModelRequest | None, reply: Reply | None
    ) -> None:
        run.called(call, self._exchange(request, reply))

    def _exchange(self, request: ModelRequest | None, reply: Reply | None) -> Attributes:
        if self._content is None or request is None:
            return {}
        found: Attributes = {
            names.SYSTEM_INSTRUCTIONS: self._content.instructions(request.system),
            names.INPUT_MESSAGES: self._content.request(request.histories),
        }
        if reply is not None:
            found[names.OUTPUT_MESSAGES] = self._content.reply(reply.message, reply.finish)
        return found

    def _text(self, name: str, text: str | None) -> Attributes:
        return {} if self._content is None or text is None else {name: self._content.text(text)}

    def _said(self, event: MessageAdded) -> Attributes:
        """Return what was said between the person and the agent; steps talk among themselves."""
        if self._content is None or event.step_id is not None:
            return {}
        name = names.INPUT_MESSAGES if event.role == "user" else names.OUTPUT_MESSAGES
        return {name: self._content.said(event.role, event.content)}


def _pending(state: ApplicationState, call_id: str) -> PendingCall | None:
    return next((call for call in state.pending_tool_calls if call.call_id == call_id), None)
