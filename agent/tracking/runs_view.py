"""What is said beside a step: the run it belongs to, earlier tries, how the run ended, who decided what."""

from collections.abc import Iterable
from typing import Any

from agent.tracking.intervals import Interval
from agent.tracking.recording import CallMove, RecordedStep, body_of
from agent.tracking.spans import failure_text
from agent.tracking.texts import Texts
from state.trace import RunEnded

Json = dict[str, Any]

_KEPT = ("call_id", "tool", "decision", "decided_by", "reason", "edited", "settled_as")


def told(passed: Interval, texts: Texts) -> Json:
    """Return what is to be said about the run that a step belongs to, and about its calls."""
    said: Json = {}
    if passed.began is not None:
        said["run"] = {"at": passed.began.at, **texts.value(passed.began.record.model_dump())}
    if passed.attempts:
        said["earlier_attempts"] = [
            {"at": one.began.at, "ended": _end(one.ended, texts)} for one in passed.attempts
        ]
    if proposed := _moves(passed.moves, "proposed", texts):
        said["proposed_calls"] = proposed
    return said


def left(after: Interval, texts: Texts) -> Json:
    """Return how the run ended behind a step, if it did."""
    return {"run_ended": _end(after.leaving, texts)} if after.was_left else {}


def inputs(step: RecordedStep, passed: Interval, texts: Texts) -> Json:
    """Return what came from outside: a message, or decisions."""
    if step.action == "prompt":
        return {"user_input": texts.shown(str(step.after.get("user_input") or ""))}
    if step.action == "human_confirm":
        return {"decisions": _moves(passed.moves, "decided", texts) or _changed(step, texts)}
    return {}


def _changed(step: RecordedStep, texts: Texts) -> list[Json]:
    """Return the decisions of a session whose journal does not have them."""
    before = {call["call_id"]: call for call in step.before.get("pending_tool_calls") or () if call}
    return [
        {name: texts.value(call[name]) for name in _KEPT if call.get(name)}
        for call in step.after.get("pending_tool_calls") or ()
        if call and call != before.get(call["call_id"])
    ]


def _moves(moves: Iterable[CallMove], kind: str, texts: Texts) -> list[Json]:
    return [
        {"call_id": move.call_id, "at": move.at, **texts.value(body_of(move))}
        for move in moves
        if move.move == kind
    ]


def _end(ended: RunEnded | None, texts: Texts) -> Any:
    if ended is None:
        return "its process died"
    said: Json = {"status": ended.status, "duration_ms": ended.duration_ms}
    if ended.error is not None:
        said["error"] = failure_text(ended.error.code, ended.error.message, texts)
    return said
