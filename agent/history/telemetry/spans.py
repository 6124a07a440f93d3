"""The spans of one run: the span of the run, and inside it those of its model calls and tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

from ....actions.ports.events import RETRIES, Notice, ToolFinished, ToolStarted
from ....state.application import Usage
from ....state.calls import PendingCall
from ....state.conversation.messages import (
    Block,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    encodable,
    parse_json_or_text,
)
from ....state.conversation.transcript import Transcript
from ....state.lazy_dataclass import dataclass
from ....state.trace import ModelCalled, RunBegan, RunEnded
from ...runtime.version import VERSION
from . import names
from .delivery import JobThread
from .names import Meters

Attributes = dict[str, AttributeValue]

_MAX_MESSAGE_CHARS = 300


def of_beginning(began: RunBegan) -> Attributes:
    return {
        names.AGENT_NAME: names.AGENT,
        names.AGENT_VERSION: VERSION,
        names.PROVIDER: names.provider_of(began.model),
        names.REQUEST_MODEL: encodable(names.model_of(began.model)),
        names.RUN_MODE: began.mode,
        names.FIRST_ACTION: began.action,
    }


def of_end(ended: RunEnded, used: Usage, tool_calls: int) -> Attributes:
    return {
        names.RUN_STATUS: ended.status,
        names.NEXT_ACTION: ended.action,
        names.LLM_CALLS: used.llm_calls,
        names.TOOL_CALLS: tool_calls,
        **of_usage(used),
    }


def of_model_call(call: ModelCalled) -> Attributes:
    found: Attributes = {
        names.PROVIDER: names.provider_of(call.model),
        names.REQUEST_MODEL: encodable(names.model_of(call.model)),
        names.REQUEST_STREAM: True,
    }
    if call.first_ms is not None:
        found[names.FIRST_CHUNK_S] = call.first_ms / 1000
    if call.finish is None:
        return found
    return {**found, names.FINISH_REASONS: [call.finish], **of_usage(call.total_usage)}


def of_usage(usage: Usage) -> Attributes:
    """Return the attributes for the counts that are known. A model without a cache reports no cache
    counts."""
    known = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens or None,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens or None,
        names.COST_USD: usage.cost_usd,
    }
    return {name: value for name, value in known.items() if value is not None}


def of_call(call: ToolStarted | ToolFinished | PendingCall) -> Attributes:
    return {names.TOOL_NAME: encodable(call.tool), names.TOOL_CALL_ID: encodable(call.call_id)}


def of_start(event: ToolStarted, call: PendingCall | None) -> Attributes:
    found: Attributes = {**of_call(event), names.TOOL_TYPE: "function"}
    if event.step_id is not None:
        found[names.STEP_ID] = event.step_id
    if call is not None:
        found |= {names.EFFECT: call.effect, names.DECIDED_BY: call.decided_by}
    if call is not None and call.edited:
        found[names.EDITED] = True
    return found


def line_of(text: str) -> str:
    return " ".join(encodable(text).split())[:_MAX_MESSAGE_CHARS]


def ns_of(at: str) -> int:
    """Return a stored time, which has milliseconds, as nanoseconds since 1970."""
    return round(datetime.fromisoformat(at).timestamp() * 1000) * 1_000_000


_FAILED_RUN = ("error", "timeout", "rate_limited", "turn_limit", "budget_limit", "repeated")


@dataclass(frozen=True, slots=True)
class Outlet:
    """The tracer and the meters of a process, through which all of its telemetry goes."""

    tracer: Tracer
    meters: Meters
    parent: Context
    """The trace context from the environment. Runs become children of it."""
    worker: JobThread
    runs: dict[str, RunSpan] = field(default_factory=lambda: {})
    """Session id -> its run that is open now. The runs of its sub-agents are below it."""


@dataclass(frozen=True, slots=True)
class _RunningTool:
    name: str
    span: Span
    start_ns: int


class RunSpan:
    """The span of one run. Times are nanoseconds since 1970, and are those of the events, not of their
    export."""

    def __init__(
        self,
        outlet: Outlet,
        session_id: str,
        began: RunBegan,
        start_ns: int,
        mask: Callable[[str], str],
        agent: str = names.AGENT,
        parent: Context | None = None,
    ) -> None:
        """`mask` removes secrets from messages. `parent` is the context of the call that started a sub-agent.

        Without a parent the run is below the trace context from the environment.
        """
        self._outlet = outlet
        self._session_id = session_id
        self._start_ns = start_ns
        self._mask = mask
        self._requested: set[str] = set()
        self._used = Usage()
        self._retries: list[tuple[str, int]] = []
        self._tools: dict[str, _RunningTool] = {}
        self._tool_calls = 0
        self._agent_calls: dict[str, Span] = {}
        """The spans of calls that start sub-agents, which begin before their other attributes are known."""
        self._context = outlet.parent if parent is None else parent
        attributes: Attributes = {**of_beginning(began), names.AGENT_NAME: encodable(agent)}
        self._own = self._begin(names.INVOKE_AGENT, agent, SpanKind.INTERNAL, attributes, start_ns)
        self._context = set_span_in_context(self._own, self._context)

    @property
    def trace_id(self) -> str:
        """Return the trace id as 32 hex digits; empty if a sampler dropped this run."""
        return f"{self._own.get_span_context().trace_id:032x}" if self._own.is_recording() else ""

    def add_notice(self, notice: Notice, at_ns: int) -> None:
        """Keep a notice about a retry for the span of its model call."""
        if notice.kind in RETRIES:
            self._retries.append((notice.message, at_ns))

    def add_model_call(self, call: ModelCalled, content: Attributes) -> None:
        start_ns = max(ns_of(call.began_at), self._start_ns)
        attributes = {**of_model_call(call), **content}
        span = self._begin(names.CHAT, names.model_of(call.model), SpanKind.CLIENT, attributes, start_ns)
        for text, at_ns in self._retries:
            span.add_event(names.RETRY, {names.MESSAGE: line_of(self._mask(text))}, at_ns)
        self._retries.clear()
        if call.error is not None:
            self._fail(span, call.error.code, call.error.message)
        span.end(start_ns + call.duration_ms * 1_000_000)
        self._used += call.total_usage
        self._outlet.meters.model_called(call)

    def note_request(self, call_id: str) -> None:
        self._requested.add(call_id)

    def begin_agent_call(self, event: ToolStarted, start_ns: int) -> None:
        """Begin the span of a call that starts a sub-agent, whose own spans need it at once."""
        self._agent_calls[event.call_id] = self._begin_call(event, of_call(event), start_ns)

    def _begin_call(self, event: ToolStarted, attributes: Attributes, start_ns: int) -> Span:
        parent = self._tools.get(event.parent_call_id)
        context = None if parent is None else set_span_in_context(parent.span, self._context)
        return self._begin(names.EXECUTE_TOOL, event.tool, SpanKind.INTERNAL, attributes, start_ns, context)

    def find_context(self, call_id: str) -> Context:
        """Return the context of a call that starts a sub-agent; that of the run if it is not open."""
        span = self._agent_calls.get(call_id)
        return self._context if span is None else set_span_in_context(span, self._context)

    def tool_started(
        self, event: ToolStarted, call: PendingCall | None, content: Attributes, start_ns: int
    ) -> None:
        if call is not None:
            self._outlet.meters.approval("allowed", call.decided_by, encodable(event.tool))
        attributes = {**of_start(event, call), **content}
        if (span := self._agent_calls.get(event.call_id)) is None:
            span = self._begin_call(event, attributes, start_ns)
        else:
            span.set_attributes(attributes)
        self._tools[event.call_id] = _RunningTool(encodable(event.tool), span, start_ns)
        self._tool_calls += 1

    def tool_finished(
        self, event: ToolFinished, call: PendingCall | None, content: Attributes, end_ns: int
    ) -> None:
        tool = self._tools.pop(event.call_id, None)
        self._agent_calls.pop(event.call_id, None)
        if tool is not None:
            tool.span.set_attributes(content)
            self._end_tool(tool, event.outcome, end_ns)
            return
        self._own.add_event(names.NOT_RUN, {**of_call(event), names.OUTCOME: event.outcome}, end_ns)
        if event.outcome == "denied" and call is not None:
            self._outlet.meters.approval("denied", call.decided_by, encodable(event.tool))

    def add_question(self, call: PendingCall, at_ns: int) -> None:
        self._own.add_event(names.APPROVAL_ASKED, {**of_call(call), names.KIND: call.kind}, at_ns)
        # A call that an earlier run proposed was counted in that run.
        if call.call_id in self._requested or call.kind == "outcome_unknown":
            self._outlet.meters.approval("asked", "", encodable(call.tool))

    def add_message(self, content: Attributes) -> None:
        self._own.set_attributes(content)

    def end(self, ended: RunEnded, end_ns: int) -> None:
        """End the run's span, and the open spans of its calls."""
        for tool in self._tools.values():
            self._end_tool(tool, "interrupted", end_ns)
        self._tools.clear()
        self._agent_calls.clear()
        self._own.set_attributes(of_end(ended, self._used, self._tool_calls))
        measured: Attributes = {names.AGENT_NAME: names.AGENT}
        if ended.status in _FAILED_RUN:
            code, message = (ended.error.code, ended.error.message) if ended.error else (ended.status, "")
            self._fail(self._own, code, message)
            measured[names.ERROR_TYPE] = code
        self._own.end(end_ns)
        self._outlet.meters.run.record((end_ns - self._start_ns) / 1e9, measured)

    def _begin(
        self,
        operation: str,
        what: str,
        kind: SpanKind,
        attributes: Attributes,
        start_ns: int,
        context: Context | None = None,
    ) -> Span:
        return self._outlet.tracer.start_span(
            f"{operation} {encodable(what)}",
            context or self._context,
            kind,
            attributes={
                names.OPERATION: operation,
                names.CONVERSATION_ID: encodable(self._session_id),
                **attributes,
            },
            start_time=start_ns,
        )

    def _end_tool(self, tool: _RunningTool, outcome: str, end_ns: int) -> None:
        measured: Attributes = {names.TOOL_NAME: tool.name, names.AGENT_NAME: names.AGENT}
        tool.span.set_attribute(names.OUTCOME, outcome)
        if outcome != "ok":
            self._fail(tool.span, outcome, "")
            measured[names.ERROR_TYPE] = outcome
        tool.span.end(end_ns)
        self._outlet.meters.tool.record((end_ns - tool.start_ns) / 1e9, measured)

    def _fail(self, span: Span, code: str, message: str) -> None:
        span.set_attribute(names.ERROR_TYPE, code)
        span.set_status(Status(StatusCode.ERROR, line_of(self._mask(message)) or code))


_MAX_CHARS = 64 * 1024
"""The most characters of one attribute. Of a longer history, only the newest messages are exported."""
_MAX_PART_CHARS = 16 * 1024


class Content:
    """Formats content of messages and calls for export, with secrets masked."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def text(self, text: str, most: int = _MAX_CHARS) -> str:
        """Return a text that is exported as it is, such as arguments and results."""
        masked = self._mask(encodable(text))
        left_out = len(masked) - most
        return masked if left_out <= 0 else f"{masked[:most]}[... {left_out} characters left out]"

    def instructions(self, system: str) -> str:
        return _json([{"type": "text", "content": self.text(system)}])

    def format_message(self, role: str, text: str) -> str:
        return _json([{"role": role, "parts": [{"type": "text", "content": self.text(text)}]}])

    def request(self, histories: Iterable[Transcript]) -> str:
        """Return the messages in chronological order. If they are too long, the oldest ones are missing."""
        found: list[Mapping[str, Any]] = []
        room = _MAX_CHARS
        for message in _newest_first(tuple(histories)):
            written = self._message(message)
            room -= len(_json(written))
            if found and room < 0:
                break
            found.insert(0, written)
        return _json(found)

    def reply(self, message: Message, finish: str) -> str:
        return _json([{**self._message(message), "finish_reason": finish}])

    def _message(self, message: Message) -> dict[str, Any]:
        return {"role": message.role, "parts": [self._part(block) for block in message.blocks]}

    def _part(self, block: Block) -> dict[str, Any]:
        match block:
            case Text():
                return {"type": "text", "content": self.text(block.text, _MAX_PART_CHARS)}
            case Thinking():
                return {"type": "reasoning", "content": self.text(block.text, _MAX_PART_CHARS)}
            case ToolUse():
                arguments = parse_json_or_text(self.text(block.arguments, _MAX_PART_CHARS))
                return {"type": "tool_call", "id": block.call_id, "name": block.tool, "arguments": arguments}
            case ToolResult():
                content = self.text(block.display_text, _MAX_PART_CHARS)
                return {"type": "tool_call_response", "id": block.call_id, "response": content}
            case _:
                return {"type": block.kind, "mime_type": block.media_type}


def _newest_first(histories: tuple[Transcript, ...]) -> Iterator[Message]:
    for history in reversed(histories):
        for log, start, end in reversed(history.spans):
            yield from (log.messages[index] for index in range(end - 1, start - 1, -1))


def _json(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))
