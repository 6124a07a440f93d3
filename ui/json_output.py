"""Events as the JSON objects of the output formats `json` and `stream-json`."""

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

from ..actions.events import (
    ApprovalNeeded,
    ErrorRaised,
    Event,
    MessageAdded,
    Notice,
    PendingDecision,
    PlanChanged,
    PlanResumed,
    RunFinished,
    RunStarted,
    StepChanged,
    StepOutcome,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRequested,
    ToolsChanged,
    UsageChanged,
)
from ..state.application import Usage, VibeStep
from ..state.calls import PendingCall
from ..state.errors import SandburError
from ..state.messages import json_object

Object = dict[str, Any]


def encoded(value: Object) -> str:
    """Return one line of ASCII."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def arguments_object(text: str) -> Any:
    """Return tool arguments as an object where the text is one, else the text itself."""
    found = json_object(text)
    try:
        json.dumps(found, allow_nan=False)
    except (ValueError, RecursionError):
        return text
    return text if found is None else found


def result_object(finished: RunFinished) -> Object:
    error = finished.error
    answer = {"result": finished.result} | ({"output": finished.output} if finished.has_output else {})
    return {
        "type": "result",
        "session_id": finished.session_id or None,
        "status": finished.status,
        "exit_code": finished.exit_code,
        **answer,
        "workflow_mode": finished.workflow_mode,
        "steps": [_outcome(step) for step in finished.steps],
        "pending": [_decision(pending) for pending in finished.pending],
        "usage": usage_object(finished.usage),
        "duration_ms": finished.duration_ms,
        "error": None if error is None else {"code": error.code, "message": error.message},
    }


def failed(error: SandburError) -> RunFinished:
    """Return the result of a run that never got a session."""
    return RunFinished(
        session_id="",
        status=cast(Any, error.status),
        exit_code=error.exit_code,
        result=None,
        workflow_mode="chat",
        error=ErrorRaised(error.code, str(error)),
    )


def stream_object(event: Event) -> Object | None:
    """Return the stream line of an event without `session_id` and `seq`; None if it has none."""
    encode = _ENCODERS.get(type(event))
    return encode(event) if encode is not None else None


def plan_objects(steps: Iterable[VibeStep]) -> list[Object]:
    return [
        {"step_id": s.step_id, "description": s.description, "status": s.status, "summary": s.analysis}
        for s in steps
    ]


def pending_objects(pending: Iterable[PendingCall]) -> list[Object]:
    return [
        _decision(PendingDecision(call.call_id, call.tool, call.arguments, call.kind, call.reason))
        for call in pending
    ]


def _outcome(step: StepOutcome) -> Object:
    return {
        "step_id": step.step_id,
        "description": step.description,
        "status": step.status,
        "summary": step.summary,
    }


def _decision(pending: PendingDecision) -> Object:
    return {
        "call_id": pending.call_id,
        "tool": pending.tool,
        "arguments": arguments_object(pending.arguments),
        "kind": pending.kind,
        "reason": pending.reason,
    }


def usage_object(usage: Usage) -> Object:
    return {
        "llm_calls": usage.llm_calls,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": usage.cost_usd,
    }


def _in_step(line: Object, step_id: str | None) -> Object:
    return line if step_id is None else {**line, "step_id": step_id}


def _init(event: RunStarted) -> Object:
    return {
        "type": "init",
        "model": event.model,
        "mode": event.mode,
        "cwd": event.cwd,
        "version": event.version,
        "sandbox": event.sandbox,
    }


def _text(event: TextDelta) -> Object:
    return _in_step({"type": "text", "delta": event.delta}, event.step_id)


def _message(event: MessageAdded) -> Object:
    return _in_step({"type": "message", "role": event.role, "content": event.content}, event.step_id)


def _tool_use(event: ToolRequested) -> Object:
    line: Object = {
        "type": "tool_use",
        "call_id": event.call_id,
        "tool": event.tool,
        "arguments": arguments_object(event.arguments),
    }
    return _in_step(line, event.step_id)


def _tool_result(event: ToolFinished) -> Object:
    line: Object = {
        "type": "tool_result",
        "call_id": event.call_id,
        "tool": event.tool,
        "outcome": event.outcome,
        "content": event.content,
        "duration_ms": event.duration_ms,
    }
    return _in_step(line, event.step_id)


def _plan(event: PlanChanged | PlanResumed) -> Object:
    return {"type": "plan", "steps": plan_objects(event.steps)}


def _step(event: StepChanged) -> Object:
    line: Object = {"type": "step", "step_id": event.step_id, "status": event.status}
    return line if event.summary is None else {**line, "summary": event.summary}


_ENCODERS: dict[type, Callable[[Any], Object]] = {
    RunStarted: _init,
    TextDelta: _text,
    ThinkingDelta: lambda event: {"type": "thinking", "delta": event.delta},
    MessageAdded: _message,
    ToolRequested: _tool_use,
    ToolFinished: _tool_result,
    ToolsChanged: lambda event: {
        "type": "tools",
        "added": list(event.added),
        "removed": list(event.removed),
        "groups": list(event.groups),
    },
    PlanChanged: _plan,
    PlanResumed: _plan,
    StepChanged: _step,
    ApprovalNeeded: lambda event: {"type": "approval", "pending": pending_objects(event.pending)},
    UsageChanged: lambda event: {"type": "usage", **usage_object(event.usage)},
    Notice: lambda event: {"type": "notice", "message": event.message},
    ErrorRaised: lambda event: {"type": "error", "code": event.code, "message": event.message},
    RunFinished: result_object,
}
