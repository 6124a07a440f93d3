"""Makes the events of a stream from what a session has recorded, as objects of the format stream-json."""

from collections.abc import Iterator, Sequence
from typing import Any

from ....actions.ports.events import (
    MessageAdded,
    PlanChanged,
    RunStarted,
    StepChanged,
    ToolFinished,
    ToolRequested,
    UsageChanged,
)
from ....actions.turn.plan.decision_tools import RESERVED_NAMES
from ....agent.graph import traits_of
from ....agent.session.run_result import EXIT_CODES
from ....state.application import Usage, VibeStep
from ....state.calls import PendingCall, restore_arguments
from ....state.conversation.messages import Message
from ....state.errors import list_exit_codes
from ....state.store.recording import Fields, RecordedStep, list_objects
from ....state.store.sessions.record_feed import FeedItem, FeedStep, FeedTrace, StepMessage
from ....state.trace import FlowStarted, RunBegan, RunEnded
from ...headless.json_output import Object, pending_objects, stream_object

_STEP_FIELDS = {"chat_history", "tool_calls", "tool_results"}


def list_stored_events(item: FeedItem) -> list[Object]:
    """Return the events of one recorded item, in order, without `session_id` and `seq`.

    The same item always gives the same events, so that a place among them can be named.
    """
    return list(_events_of_trace(item) if isinstance(item, FeedTrace) else _events_of_step(item))


def _events_of_trace(item: FeedTrace) -> Iterator[Object]:
    match item.traced.record:
        case RunBegan() as began:
            cwd = "" if began.conditions is None else began.conditions.cwd
            line = stream_object(RunStarted("", began.model, began.mode, cwd, began.version)) or {}
            # What the sandbox of the run was is not recorded.
            yield {name: value for name, value in line.items() if name != "sandbox"}
        case FlowStarted() as flow:
            yield {"type": "flow", "flow": flow.name, "does": flow.does, "why": flow.why}
        case RunEnded() as ended if not ended.is_recorded:
            yield _make_result(ended, item)
        case _:
            return


def _make_result(ended: RunEnded, item: FeedTrace) -> Object:
    """Return the result of a run, as the result of a headless run has it."""
    fields, newest = item.fields, item.newest
    is_answered = not fields.get("turn_open") and newest is not None and newest.role == "assistant"
    known: dict[str, int] = {**EXIT_CODES}
    codes = list_exit_codes()
    exit_code = known.get(ended.status, 1)
    return {
        "type": "result",
        "status": ended.status,
        "exit_code": exit_code if ended.error is None else codes.get(ended.error.code, exit_code),
        "result": newest.display_text if is_answered and newest is not None else None,
        "workflow_mode": fields.get("workflow_mode", "chat"),
        "steps": [
            {
                "step_id": step.step_id,
                "description": step.description,
                "status": step.status,
                "summary": step.analysis,
            }
            for step in list_plan_steps(fields)
        ],
        "pending": pending_objects(list_waiting_calls(fields, item.asked)),
        "usage": Usage.model_validate(fields.get("turn_usage") or {}).model_dump(),
        "duration_ms": ended.duration_ms,
        "error": None if ended.error is None else {"code": ended.error.code, "message": ended.error.message},
    }


def _events_of_step(item: FeedStep) -> Iterator[Object]:
    step = item.step
    if not step.action:
        yield {"type": "notice", "message": f"The record of step {step.seq} is damaged."}
        return
    for place, added in enumerate(item.messages, 1):
        yield from _events_of_message(added, step, is_last=place == len(item.messages))
    yield from _usage_event(step)
    yield from _plan_events(step)
    waiting = list_waiting_calls(step.after, item.asked)
    ids = {call.call_id for call in list_waiting_calls(step.before, None)}
    if waiting and {call.call_id for call in waiting} - ids:
        yield {"type": "approval", "pending": pending_objects(waiting)}


def _events_of_message(added: StepMessage, step: RecordedStep, is_last: bool) -> Iterator[Object]:
    message, step_id = added.message, added.step_id
    if message is None:
        yield {"type": "notice", "message": f"A message of step {step.seq} is damaged."}
        return
    kind = traits_of(step.action).step_kind
    if kind == "compression" or any(result.put_away for result in message.tool_results):
        return
    if _is_shown(message, kind, is_last):
        role = "user" if message.role == "user" else "assistant"
        yield stream_object(MessageAdded(role, message.display_text, step_id)) or {}
    for use in message.tool_uses:
        if use.tool not in RESERVED_NAMES:
            yield stream_object(ToolRequested(use.call_id, use.tool, use.arguments, step_id)) or {}
    for result in message.tool_results:
        if result.tool not in RESERVED_NAMES:
            yield stream_object(ToolFinished.of(result, step_id)) or {}


def _is_shown(message: Message, kind: str, is_last: bool) -> bool:
    """Return whether the text of a message is one that people read."""
    if message.role == "tool" or not message.display_text.strip() or message.is_cut_mark:
        return False
    if message.origin == "runtime":
        # The line with which a step of a plan ends; other texts of the runtime are for the model.
        return message.role == "assistant" and kind == "summary" and is_last
    return message.role in ("user", "assistant")


def _usage_event(step: RecordedStep) -> Iterator[Object]:
    used: Any = step.after.get("turn_usage")
    if used and used != step.before.get("turn_usage"):
        usage = Usage.model_validate(used)
        yield stream_object(UsageChanged(usage, usage)) or {}


def _plan_events(step: RecordedStep) -> Iterator[Object]:
    before = {one.step_id: one for one in list_plan_steps(step.before)}
    after = list_plan_steps(step.after)
    if [(one.step_id, one.description) for one in after] != [
        (one.step_id, one.description) for one in before.values()
    ]:
        if after:
            yield stream_object(PlanChanged(tuple(after))) or {}
        return
    for one in after:
        if one.status != before[one.step_id].status:
            yield stream_object(StepChanged(one.step_id, one.status, one.analysis or None)) or {}


def list_plan_steps(fields: Fields) -> list[VibeStep]:
    """Return the steps of the plan, without their histories."""
    return [
        VibeStep.model_validate({name: value for name, value in step.items() if name not in _STEP_FIELDS})
        for step in list_objects(fields, "vibe_plan")
    ]


def list_waiting_calls(fields: Fields, asked: Message | None) -> Sequence[PendingCall]:
    """Return the calls that wait for a decision, with the arguments from the message that requested them."""
    stored = list_objects(fields, "pending_tool_calls")
    waiting = (PendingCall.model_validate(one) for one in stored if one.get("decision") == "undecided")
    return restore_arguments(tuple(waiting), asked)
