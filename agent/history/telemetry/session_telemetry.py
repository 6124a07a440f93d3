"""Observes all runs of one session and exports them as telemetry."""

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from opentelemetry.context import get_current
from opentelemetry.trace import get_current_span

from ....actions.ports import ModelRequest, Reply, Tool
from ....actions.ports.events import (
    ApprovalNeeded,
    Event,
    MessageAdded,
    Notice,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from ....state.application import ApplicationState
from ....state.calls import PendingCall
from ....state.session import SpawnedBy
from ....state.trace import ModelCalled, RunBegan, RunEnded, TraceRecord
from ...extensions.middleware.middleware import Middleware, NextModelCall
from ...session.observers import Observer
from . import names
from .spans import Attributes, Content, Outlet, RunSpan


class RequestTap(Middleware):
    """Keeps the newest model request, in the form in which it is sent, and the reply to it."""

    priority = sys.maxsize

    def __init__(self) -> None:
        self.request: ModelRequest | None = None
        self.newest_reply: Reply | None = None
        """The reply to the newest request; None until it is complete."""

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        self.request, self.newest_reply = request, None
        self.newest_reply = await next(request)
        return self.newest_reply


_TRACED_EVENTS = (ApprovalNeeded, MessageAdded, Notice, ToolFinished, ToolRequested, ToolStarted)


class SessionTelemetry(Observer):
    """Exports the runs of one session, one run at a time.

    A background worker does the slow work. Only the start of a run is handled at once, because the store
    needs the id of its trace.
    """

    def __init__(
        self,
        session_id: str,
        outlet: Outlet,
        mask: Callable[[str], str],
        has_content: bool,
        spawned_by: SpawnedBy | None = None,
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        """`spawned_by` is set for a sub-agent. `tools` are those of the session, once it is open."""
        self.middleware = (RequestTap(),) if has_content else ()
        """The middleware around the model. Without the export of content it is empty, so that nothing is
        kept."""
        self._session_id = session_id
        self._outlet = outlet
        self._mask = mask
        self._content = Content(mask) if has_content else None
        self._spawned_by = spawned_by
        self._tools: Mapping[str, Tool] = {} if tools is None else tools
        self._run: RunSpan | None = None

    @property
    def trace_id(self) -> str:
        return "" if self._run is None else self._run.trace_id

    def on_record(self, record: TraceRecord) -> None:
        run, at_ns = self._run, time.time_ns()
        if isinstance(record, RunBegan):
            self._run = self._outlet.runs[self._session_id] = self._begin(record, at_ns)
        elif isinstance(record, ModelCalled) and run is not None:
            (tap,) = self.middleware or (RequestTap(),)
            self._outlet.worker.do(
                partial(self._trace_model_call, run, record, tap.request, tap.newest_reply)
            )
        elif isinstance(record, RunEnded) and run is not None:
            self._run = None
            self._outlet.runs.pop(self._session_id, None)
            self._outlet.worker.do(partial(run.end, record, at_ns))

    def on_event(self, event: Event, state: ApplicationState) -> None:
        if self._run is not None and isinstance(event, _TRACED_EVENTS):
            at_ns = time.time_ns()
            if isinstance(event, ToolStarted) and self._starts_agents(event.tool):
                self._run.begin_agent_call(event, at_ns)
            self._outlet.worker.do(partial(self._trace_event, self._run, event, state, at_ns))

    def _begin(self, record: RunBegan, at_ns: int) -> RunSpan:
        """Return the span of a new run. That of a sub-agent is below the call of its parent's run."""
        outlet, by = self._outlet, self._spawned_by
        if by is None:
            # Below the open span of the program, or else below the trace context of the environment.
            is_inside = get_current_span().get_span_context().is_valid
            context = get_current() if is_inside else None
            return RunSpan(outlet, self._session_id, record, at_ns, self._mask, parent=context)
        above = outlet.runs.get(by.session_id)
        # A sub-agent that is asked again runs for another call than the one that started it.
        options: Any = record.changes.get("run_options") or {}
        context = None if above is None else above.find_context(options.get("task") or by.call_id)
        return RunSpan(outlet, self._session_id, record, at_ns, self._mask, by.agents[-1], context)

    def _starts_agents(self, name: str) -> bool:
        tool = self._tools.get(name)
        return tool is not None and tool.traits.is_resumable

    def _trace_event(self, run: RunSpan, event: Event, state: ApplicationState, at_ns: int) -> None:
        match event:
            case Notice():
                run.add_notice(event, at_ns)
            case ToolRequested():
                run.note_request(event.call_id)
            case ToolStarted():
                call = _pending(state, event.call_id)
                arguments = self._text(names.TOOL_ARGUMENTS, call.arguments if call is not None else None)
                run.tool_started(event, call, arguments, at_ns)
            case ToolFinished():
                result = self._text(names.TOOL_RESULT, event.content)
                run.tool_finished(event, _pending(state, event.call_id), result, at_ns)
            case ApprovalNeeded():
                for call in event.pending:
                    run.add_question(call, at_ns)
            case MessageAdded():
                run.add_message(self._message_attributes(event))
            case _:
                pass

    def _trace_model_call(
        self, run: RunSpan, call: ModelCalled, request: ModelRequest | None, reply: Reply | None
    ) -> None:
        run.add_model_call(call, self._exchange(request, reply))

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

    def _message_attributes(self, event: MessageAdded) -> Attributes:
        """Return the messages between the person and the agent. Messages of plan steps are left out."""
        if self._content is None or event.step_id is not None:
            return {}
        name = names.INPUT_MESSAGES if event.role == "user" else names.OUTPUT_MESSAGES
        return {name: self._content.format_message(event.role, event.content)}


def _pending(state: ApplicationState, call_id: str) -> PendingCall | None:
    return next((call for call in state.pending_tool_calls if call.call_id == call_id), None)
