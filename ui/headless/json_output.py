"""Converts events to the JSON objects of the output formats `json` and `stream-json`."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, cast

from ...actions.ports.events import (
    ApprovalNeeded,
    Compacted,
    ErrorRaised,
    Event,
    FlowMatched,
    MessageAdded,
    Notice,
    PendingDecision,
    PlanChanged,
    PlanResumed,
    RunFinished,
    RunStarted,
    StepChanged,
    SubAgentEvent,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRequested,
    ToolsChanged,
    UsageChanged,
)
from ...state.application import VibeStep
from ...state.calls import PendingCall
from ...state.conversation.messages import parse_json_object
from ...state.errors import SandburError
from ..terminal.terminal import encode as encode

Object = dict[str, Any]


def arguments_object(text: str) -> Any:
    """Return tool arguments as a JSON object, or the text itself if it is not a JSON object."""
    found = parse_json_object(text)
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
        "steps": [asdict(step) for step in finished.steps],
        "pending": [_decision(pending) for pending in finished.pending],
        "usage": finished.usage.model_dump(),
        "duration_ms": finished.duration_ms,
        "error": None if error is None else asdict(error),
        **({"agent": finished.agent} if finished.agent else {}),
    }


def make_failure(error: SandburError) -> RunFinished:
    """Build the result of a run that failed before its session was open."""
    return RunFinished(
        session_id=error.session_id,
        status=cast(Any, error.status),
        exit_code=error.exit_code,
        result=None,
        workflow_mode="chat",
        error=ErrorRaised(error.code, str(error)),
    )


def stream_object(event: Event) -> Object | None:
    """Return the stream line of an event without `session_id` and `seq`, or None if it is not streamed."""
    encode = _ENCODERS.get(type(event.event if isinstance(event, SubAgentEvent) else event))
    if encode is None:
        return None
    return _sub_agent(event) if isinstance(event, SubAgentEvent) else encode(event)


def plan_objects(steps: Iterable[VibeStep]) -> list[Object]:
    return [
        {"step_id": s.step_id, "description": s.description, "status": s.status, "summary": s.analysis}
        for s in steps
    ]


def pending_objects(pending: Iterable[PendingCall]) -> list[Object]:
    return [_decision(PendingDecision.of(call)) for call in pending]


def _decision(pending: PendingDecision) -> Object:
    own = pending.sub_agent
    fields = {**asdict(pending), "arguments": arguments_object(pending.arguments)}
    del fields["sub_agent"]
    for name in ("plan_changes", "changes"):
        if not fields[name]:
            del fields[name]
    return fields if own is None else {**fields, "agents": list(own.agents), "agent_id": own.session_id}


def _line(kind: str, *names: str) -> Callable[[Any], Object]:
    """Return an encoder of events: its lines have the type `kind` and the named fields that are not None."""

    def line(event: Any) -> Object:
        fields = ((name, getattr(event, name)) for name in names)
        return {"type": kind, **{name: value for name, value in fields if value is not None}}

    return line


_REQUESTED = _line("tool_use", "call_id", "tool", "arguments", "step_id")
_FINISHED = _line("tool_result", "call_id", "tool", "outcome", "content", "duration_ms", "step_id")


def _parent(event: ToolRequested | ToolFinished) -> Object:
    return {"parent_call_id": event.parent_call_id} if event.parent_call_id else {}


def _plan(event: PlanChanged | PlanResumed) -> Object:
    return {"type": "plan", "steps": plan_objects(event.steps)}


def _sub_agent(event: SubAgentEvent) -> Object:
    """Return the line of a sub-agent's event: with the agent, and other types for its start and its end."""
    agent, inner = event.agent, event.event
    own = {
        "agent_id": agent.agent_id,
        "parent_id": agent.parent_id,
        "agent": agent.name,
        "branch": agent.branch,
        **({} if agent.index is None else {"index": agent.index}),
        **({} if agent.iteration is None else {"iteration": agent.iteration}),
    }
    if isinstance(inner, RunStarted):
        return {"type": "agent_started", "description": agent.description, "model": inner.model, **own}
    if isinstance(inner, RunFinished):
        ending = {"status": inner.status, "result": inner.result, "duration_ms": inner.duration_ms}
        return {"type": "agent_finished", **ending, "usage": inner.usage.model_dump(), **own}
    return {**(stream_object(inner) or {}), **own}


_ENCODERS: dict[type, Callable[[Any], Object]] = {
    RunStarted: _line("init", "model", "mode", "cwd", "version", "sandbox"),
    TextDelta: _line("text", "delta", "step_id"),
    ThinkingDelta: _line("thinking", "delta"),
    FlowMatched: _line("flow", "flow", "does", "why"),
    MessageAdded: _line("message", "role", "content", "step_id"),
    ToolRequested: lambda event: {
        **_REQUESTED(event),
        "arguments": arguments_object(event.arguments),
        **_parent(event),
    },
    ToolFinished: lambda event: {**_FINISHED(event), **_parent(event)},
    ToolsChanged: lambda event: {
        "type": "tools",
        "added": list(event.added),
        "removed": list(event.removed),
        "groups": list(event.groups),
    },
    Compacted: _line("compacted", "kind", "messages", "tokens_before", "tokens_after"),
    PlanChanged: _plan,
    PlanResumed: _plan,
    StepChanged: _line("step", "step_id", "status", "summary"),
    ApprovalNeeded: lambda event: {"type": "approval", "pending": pending_objects(event.pending)},
    UsageChanged: lambda event: {"type": "usage", **event.usage.model_dump()},
    Notice: _line("notice", "message"),
    ErrorRaised: _line("error", "code", "message"),
    RunFinished: result_object,
}
