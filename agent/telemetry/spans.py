"""The spans of one run: its own, and below it those of its model calls and its tool calls."""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from actions.events import ToolFinished, ToolStarted
from agent.telemetry import names
from agent.telemetry.attributes import (
    Attributes,
    line_of,
    ns_of,
    of_beginning,
    of_call,
    of_end,
    of_model_call,
    of_operation,
    of_start,
)
from agent.telemetry.meters import Meters
from agent.telemetry.worker import Worker
from state.calls import PendingCall
from state.messages import encodable
from state.trace import ModelCalled, RunBegan, RunEnded
from state.usage import Usage

_RETRY_SIGNS = ("trying again in", "Starting over with")
"""Of a model call's notices, those with which it begins once more."""
_FAILED_RUN = ("error", "timeout", "rate_limited", "turn_limit", "budget_limit")


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the telemetry of a process goes."""

    tracer: Tracer
    meters: Meters
    parent: Context
    """What the environment handed down."""
    worker: Worker


@dataclass(frozen=True, slots=True)
class _RunningTool:
    name: str
    span: Span
    start_ns: int


class RunSpan:
    """Times are nanoseconds since 1970: when something happened, which was before it is told here."""

    def __init__(
        self, outlet: Outlet, session_id: str, began: RunBegan, start_ns: int, mask: Callable[[str], str]
    ) -> None:
        """`mask` takes the secrets out of messages."""
        self._outlet = outlet
        self._session_id = session_id
        self._start_ns = start_ns
        self._mask = mask
        self._requested: set[str] = set()
        self._used = Usage()
        self._heard: list[tuple[str, int]] = []
        self._tools: dict[str, _RunningTool] = {}
        self._tool_calls = 0
        self._context = outlet.parent
        self._own = self._begin(
            names.INVOKE_AGENT, names.AGENT, SpanKind.INTERNAL, of_beginning(began), start_ns
        )
        self._context = set_span_in_context(self._own, outlet.parent)

    @property
    def trace_id(self) -> str:
        """32 hex digits; empty if a sampler left this run out."""
        return f"{self._own.get_span_context().trace_id:032x}" if self._own.is_recording() else ""

    def noticed(self, text: str, at_ns: int) -> None:
        """Keep when something was said, for the span of the call that said it."""
        self._heard.append((text, at_ns))

    def called(self, call: ModelCalled, content: Attributes) -> None:
        """Export a model call that is over."""
        start_ns = max(ns_of(call.began_at), self._start_ns)
        told = {**of_model_call(call), **content}
        span = self._begin(names.CHAT, names.model_of(call.model), SpanKind.CLIENT, told, start_ns)
        retries = [text for text in call.notices if any(sign in text for sign in _RETRY_SIGNS)]
        for text in retries:
            said_ns = next((at for heard, at in self._heard if heard == text), start_ns)
            span.add_event(names.RETRY, {names.MESSAGE: line_of(self._mask(text))}, said_ns)
        self._heard.clear()
        if call.error is not None:
            self._fail(span, call.error.code, call.error.message)
        span.end(start_ns + call.duration_ms * 1_000_000)
        self._used += call.usage
        self._outlet.meters.model_called(call, len(retries))

    def requested(self, call_id: str) -> None:
        self._requested.add(call_id)

    def tool_started(
        self, event: ToolStarted, call: PendingCall | None, content: Attributes, start_ns: int
    ) -> None:
        if call is not None:
            self._outlet.meters.approval("allowed", call.decided_by, encodable(event.tool))
        told = {**of_start(event, call), **content}
        span = self._begin(names.EXECUTE_TOOL, event.tool, SpanKind.INTERNAL, told, start_ns)
        self._tools[event.call_id] = _RunningTool(encodable(event.tool), span, start_ns)
        self._tool_calls += 1

    def tool_finished(
        self, event: ToolFinished, call: PendingCall | None, content: Attributes, end_ns: int
    ) -> None:
        tool = self._tools.pop(event.call_id, None)
        if tool is not None:
            tool.span.set_attributes(content)
            self._end_tool(tool, event.outcome, end_ns)
            return
        self._own.add_event(names.NOT_RUN, {**of_call(event), names.OUTCOME: event.outcome}, end_ns)
        if event.outcome == "denied" and call is not None:
            self._outlet.meters.approval("denied", call.decided_by, encodable(event.tool))

    def asked(self, call: PendingCall, at_ns: int) -> None:
        """Note that a call waits for a person."""
        self._own.add_event(names.APPROVAL_ASKED, {**of_call(call), names.KIND: call.kind}, at_ns)
        # A call that an earlier run asked for is not asked for again.
        if call.call_id in self._requested or call.kind == "outcome_unknown":
            self._outlet.meters.approval("asked", "", encodable(call.tool))

    def said(self, content: Attributes) -> None:
        self._own.set_attributes(content)

    def end(self, ended: RunEnded, end_ns: int) -> None:
        """End the run's span, and those of calls whose end nobody told."""
        for tool in self._tools.values():
            self._end_tool(tool, "interrupted", end_ns)
        self._tools.clear()
        self._own.set_attributes(of_end(ended, self._used, self._tool_calls))
        measured: Attributes = {names.AGENT_NAME: names.AGENT}
        if ended.status in _FAILED_RUN:
            code, message = (ended.error.code, ended.error.message) if ended.error else (ended.status, "")
            self._fail(self._own, code, message)
            measured[names.ERROR_TYPE] = code
        self._own.end(end_ns)
        self._outlet.meters.run_ended((end_ns - self._start_ns) / 1e9, measured)

    def _begin(self, operation: str, what: str, kind: SpanKind, told: Attributes, start_ns: int) -> Span:
        return self._outlet.tracer.start_span(
            f"{operation} {encodable(what)}",
            self._context,
            kind,
            attributes={**of_operation(operation, self._session_id), **told},
            start_time=start_ns,
        )

    def _end_tool(self, tool: _RunningTool, outcome: str, end_ns: int) -> None:
        measured: Attributes = {names.TOOL_NAME: tool.name, names.AGENT_NAME: names.AGENT}
        tool.span.set_attribute(names.OUTCOME, outcome)
        if outcome != "ok":
            self._fail(tool.span, outcome, "")
            measured[names.ERROR_TYPE] = outcome
        tool.span.end(end_ns)
        self._outlet.meters.tool_ended((end_ns - tool.start_ns) / 1e9, measured)

    def _fail(self, span: Span, code: str, message: str) -> None:
        span.set_attribute(names.ERROR_TYPE, code)
        span.set_status(Status(StatusCode.ERROR, line_of(self._mask(message)) or code))
