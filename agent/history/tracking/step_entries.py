"""Renders the steps of a session as entries of Burr's log: begin, end, spans, attributes, streams."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from ....state.application import ApplicationState
from ....state.conversation.approved_plan import ApprovedPlan
from ....state.conversation.messages import Message, ToolResult, parse_json_or_text
from ....state.store.call_moves import NESTED, without_nested
from ....state.store.recording import CallMove, MessagePages, RecordedStep, Reference, list_objects
from ....state.trace import RunEnded
from ...graph import HALTS, traits_of
from ..timeline import describe_step, list_decided_calls
from .entries import (
    SpanDraft,
    add_duration,
    attributes,
    begin_entry,
    end_entry,
    failure_text,
    model_span,
    spans,
    stream,
    tool_spans,
)
from .live_recording import Interval, LiveRecording, Tail, interval
from .texts import Json, Texts, arguments_view, message_view

_KEPT = ("call_id", "tool", "decision", "decided_by", "reason", "edited", "settled_as")


def describe_run_events(passed: Interval, texts: Texts) -> Json:
    """Return the attributes of a step about its run and about earlier runs that did not finish it."""
    facts: Json = {}
    if passed.began is not None and passed.began.record is not None:
        facts["run"] = {"at": passed.began.at, **texts.value(passed.began.record.model_dump())}
    if passed.attempts:
        facts["earlier_attempts"] = [
            {"at": one.began.at, "ended": _end(one.ended, texts)} for one in passed.attempts
        ]
    # A nested call is a span. Only one that waits for a decision has none yet.
    moves = [
        move for move in passed.moves if not move.body.get(NESTED) or move.text("decision") == "undecided"
    ]
    if proposed := _moves(moves, "proposed", texts):
        facts["proposed_calls"] = proposed
    return facts


def describe_inbox_after(after: Interval, texts: Texts) -> Json:
    """Return an attribute about the end of the run after a step, if it ended."""
    return {"run_ended": _end(after.leaving, texts)} if after.was_left else {}


def run_inputs(step: RecordedStep, passed: Interval, texts: Texts) -> Json:
    """Return the external inputs of a step: the person's message or decisions."""
    if traits_of(step.action).waits_for == "message":
        return {"user_input": texts.format_text(str(step.after.get("user_input") or ""))}
    if traits_of(step.action).waits_for == "decision":
        return {"decisions": _moves(passed.moves, "decided", texts) or _list_decisions(step, texts)}
    return {}


def _list_decisions(step: RecordedStep, texts: Texts) -> list[Json]:
    """Return the decisions of a step, for sessions whose journal does not contain them."""
    return [
        {name: texts.value(call[name]) for name in _KEPT if call.get(name)}
        for call in list_decided_calls(step)
    ]


def _moves(moves: Iterable[CallMove], kind: str, texts: Texts) -> list[Json]:
    return [
        {"call_id": move.call_id, "at": move.at, **texts.value(without_nested(move.body))}
        for move in moves
        if move.move == kind
    ]


def _end(ended: RunEnded | None, texts: Texts) -> Any:
    if ended is None:
        return "its process died"
    facts: Json = {"status": ended.status, "duration_ms": ended.duration_ms}
    if ended.error is not None:
        facts["error"] = failure_text(ended.error.code, ended.error.message, texts)
    return facts


class StepMessages:
    """Messages by their place in the store, and the arguments of the calls that they request."""

    def __init__(self, pages: MessagePages, wanted: Sequence[Reference], texts: Texts) -> None:
        self._texts = texts
        self._messages = {place: pages.load(place) for place in wanted}
        found = (message for message in self._messages.values() if message is not None)
        self._asked = {use.call_id: use.arguments for message in found for use in message.tool_uses}
        self._displayed: dict[str, Any] = {}

    def messages(self, places: Sequence[Reference]) -> list[Message | None]:
        return [self._messages[place] for place in places]

    def results(self, places: Sequence[Reference]) -> dict[str, ToolResult]:
        found = (message for message in self.messages(places) if message is not None)
        return {result.call_id: result for message in found for result in message.tool_results}

    def arguments(self, call_ids: Sequence[str]) -> Mapping[str, Any]:
        for call_id in call_ids:
            if call_id not in self._displayed:
                self._displayed[call_id] = arguments_view(self._asked.get(call_id, ""), self._texts)
        return {call_id: self._displayed[call_id] for call_id in call_ids}


Added = Mapping[str | None, Sequence[Json]]
"""Plan step (None: the main history) -> the messages that a step added to its history."""

_FIRST = ("user_input", "current_goal", "workflow_mode", "phase", "execution_mode")
_UNCHANGED = "(at their defaults)"


def state_view(step: RecordedStep, added: Added, arguments: Mapping[str, Any], texts: Texts) -> Json:
    """Return the state as JSON. `arguments` are those of all calls so far, by call id."""
    fields = step.after
    plan = list_objects(fields, "vibe_plan")
    fields_of_view: Json = {name: texts.value(fields[name]) for name in _FIRST if name in fields}
    fields_of_view["chat_history"] = _history(fields.get("chat_history"), added.get(None, ()))
    fields_of_view["vibe_plan"] = [_plan_line(one, texts) for one in plan]
    for one in plan:
        if one.get("step_id") == fields.get("active_step_id"):
            fields_of_view["active_step"] = _active_step(one, added, texts)
    fields_of_view["pending_tool_calls"] = [
        _pending(call, arguments, texts) for call in list_objects(fields, "pending_tool_calls")
    ]
    for name in ("approved_plan", "earlier_plan"):
        if isinstance(fields.get(name), dict):
            fields_of_view[name] = _plan_view(cast("Json", fields[name]), texts)
    fields_of_view |= {
        name: texts.value(value) for name, value in fields.items() if name not in fields_of_view
    }
    fields_of_view = _without_defaults(fields_of_view)
    for name in ("usage", "turn_usage"):
        if isinstance(fields_of_view.get(name), dict):
            fields_of_view[name] = {key: value for key, value in fields_of_view[name].items() if value != 0}
    return fields_of_view


def _without_defaults(values: Json) -> Json:
    """Return the fields, with those at their defaults on one line: the page uses two lines for every
    field."""
    default = _defaults()
    usual = [name for name, value in values.items() if name in default and value == default[name]]
    changed = {name: value for name, value in values.items() if name not in usual}
    return changed | ({_UNCHANGED: ", ".join(usual)} if usual else {})


@cache
def _defaults() -> Json:
    return ApplicationState().model_dump(mode="json", exclude={"chat_history", "user_input"})


def _history(spans: Sequence[Sequence[Any]] | None, added: Sequence[Json]) -> Json:
    count = sum(int(end) - int(start) for _, _, start, end in spans or ())
    return {"messages": count, "added": list(added)} if added else {"messages": count}


def _plan_view(plan: Json, texts: Texts) -> Json:
    """Return an approved plan with its digest and its text, a line at a time."""
    return {
        "digest": ApprovedPlan.model_validate(plan).digest,
        "plan": texts.value(str(plan.get("text", "")).split("\n")),
    }


def _plan_line(step: Json, texts: Texts) -> str:
    line = f"{step.get('step_id')}. {step.get('status', 'pending')}: {step.get('description', '')}"
    analysis = step.get("analysis")
    return texts.format_text(f"{line}\n{analysis}" if analysis else line, 600)


def _active_step(step: Json, added: Added, texts: Texts) -> Json:
    values = {name: texts.value(value) for name, value in step.items() if name != "chat_history"}
    values["chat_history"] = _history(step.get("chat_history"), added.get(step.get("step_id"), ()))
    return values


def _pending(call: Json, arguments: Mapping[str, Any], texts: Texts) -> Json:
    values = {name: texts.value(value) for name, value in call.items()}
    if not values.get("arguments"):
        # The store holds them once, in the message that requests the call.
        values["arguments"] = arguments.get(str(call.get("call_id")), "")
    return values


_LOOK_BACK = 20
"""The number of earlier steps that are searched for the calls and requests of a step."""
_DAMAGED = "(damaged record)"
_NO_END = "unknown: no end is recorded"


class StepRenderer:
    """Renders the steps of a recording from index `first` to before `end`."""

    def __init__(self, recording: LiveRecording, first: int, end: int, texts: Texts) -> None:
        self._recording = recording
        self._texts = texts
        steps = recording.steps[max(0, first - _LOOK_BACK) : end]
        wanted = [place for step in steps for place in step.added]
        self._messages = StepMessages(MessagePages(recording.database), wanted, texts)

    def step(self, index: int) -> Json:
        """Return the step at `index` in the form of Burr's log."""
        step, passed = self._recording.steps[index], interval(self._recording, index)
        facts = describe_run_events(passed, self._texts)
        if self._recording.traces:
            facts |= describe_inbox_after(interval(self._recording, index + 1), self._texts)
        action = step.action or _DAMAGED
        inputs = run_inputs(step, passed, self._texts)
        state = self._state(step, self._list_added_messages(step))
        return {
            "step_start_log": begin_entry(step.seq, self._began_at(index, passed), action, inputs),
            "step_end_log": end_entry(step.seq, step.at, action, state, self._result(step)),
            **self._render_attributes(step.seq, index, passed, facts, step.at, step.at),
        }

    def render_unfinished(self, seq: int, end: Tail) -> Json:
        """Return the entry after the last step: a step in progress, or one that ended with an exception."""
        steps = self._recording.steps
        passed = interval(self._recording, len(steps))
        began_at = self._began_at(len(steps), passed) or end.at
        waits = {"waits_for": end.waits_for} if end.waits_for else {}
        facts = {**waits, **describe_run_events(passed, self._texts)}
        state = self._state(steps[-1], {}) if steps else {}
        finished = None
        if end.exception is not None:
            exception = self._texts.format_text(end.exception)
            finished = end_entry(seq, end.at, end.action, state, None, exception)
        return {
            "step_start_log": begin_entry(seq, began_at, end.action, {}),
            "step_end_log": finished,
            **self._render_attributes(seq, len(steps), passed, facts, began_at, end.at if finished else None),
        }

    def _render_attributes(
        self, seq: int, index: int, passed: Interval, facts: Json, at: str, ended_at: str | None
    ) -> Json:
        drafts = self._spans(index, passed)
        for draft in (*drafts, *(one for outer in drafts for one in outer.below)):
            if draft.ended_at is None:
                # An open span extends to the present moment.
                draft.ended_at = ended_at
                draft.attributes["outcome"] = _NO_END if ended_at else "running"
        found, span_facts = spans(seq, drafts)
        return {
            "spans": found,
            "attributes": [*attributes(seq, None, facts, at), *span_facts],
            "streaming_events": _stream(seq, passed),
        }

    def _began_at(self, index: int, passed: Interval) -> str:
        """Return when the step began: at the end of the previous step, or with its run; empty if unknown."""
        steps = self._recording.steps
        own_end = steps[index].at if index < len(steps) else ""
        if passed.began is not None:
            return passed.began.at
        if not own_end and passed.attempts:
            return passed.attempts[-1].began.at
        if index == 0:
            return own_end
        if own_end and not self._recording.traces and steps[index].action in HALTS:
            return own_end
        # The clock may have been set back between two steps.
        return min(steps[index - 1].at, own_end or steps[index - 1].at)

    def _state(self, step: RecordedStep, added: Mapping[str | None, Sequence[Json]]) -> Json:
        calls = list_objects(step.after, "pending_tool_calls")
        arguments = self._messages.arguments([str(call.get("call_id")) for call in calls])
        return state_view(step, added, arguments, self._texts)

    def _list_added_messages(self, step: RecordedStep) -> dict[str | None, list[Json]]:
        found: dict[str | None, list[Json]] = {}
        for place, message in zip(step.added, self._messages.messages(step.added), strict=True):
            found.setdefault(place.step_id, []).append(message_view(message, self._texts))
        return found

    def _result(self, step: RecordedStep) -> Json:
        try:
            found = describe_step(step, self._messages.messages(step.added), {})
        except (KeyError, TypeError, AttributeError):
            return {"summary": "(the record of this step is damaged)"}
        result: Json = {"summary": self._texts.format_text(found.text), **self._output(step)}
        return result | ({"plan_step": step.step_id} if step.step_id else {})

    def _output(self, step: RecordedStep) -> Json:
        """Return the structured answer of the turn that a step ended, or an empty mapping."""
        if step.after.get("turn_open", True) or not step.before.get("turn_open", False) or not step.added:
            return {}
        last = list(self._messages.messages(step.added))[-1]
        answer = parse_json_or_text(last.text) if last is not None and last.role == "assistant" else ""
        return {"output": self._texts.value(answer)} if isinstance(answer, dict | list) else {}

    def _spans(self, index: int, passed: Interval) -> list[SpanDraft]:
        new = self._new_messages(index) if passed.models else []
        models = [model_span(called, new, self._texts) for called in passed.models]
        calls = list(dict.fromkeys(move.call_id for move in passed.moves if move.move != "proposed"))
        if not calls:
            return models
        done = [result for step in self._recording.steps[index : index + 1] for result in step.added]
        return models + tool_spans(
            passed.moves,
            self._recording.facts,
            {**self._messages.arguments(calls), **self._describe_nested(calls), **self._describe_edit(index)},
            self._recording.files,
            self._messages.results(done),
            self._texts,
        )

    def _describe_nested(self, call_ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the arguments of the calls that tools made."""
        known = self._recording.nested
        return {one: arguments_view(known[one], self._texts) for one in call_ids if one in known}

    def _describe_edit(self, index: int) -> Json:
        """Return the arguments that a person wrote in place of the model's."""
        steps = self._recording.steps
        calls = list_objects(steps[index - 1].after, "pending_tool_calls") if index else ()
        return {
            str(call["call_id"]): arguments_view(str(call["arguments"]), self._texts)
            for call in calls
            if call.get("arguments")
        }

    def _new_messages(self, index: int) -> list[Message | None]:
        """Return the messages that were added after the previous request."""
        new: list[Message | None] = []
        for at in range(index - 1, max(-1, index - _LOOK_BACK), -1):
            new = self._messages.messages(self._recording.steps[at].added) + new
            if interval(self._recording, at).models:
                break
        return new


def _stream(seq: int, passed: Interval) -> list[Json]:
    """Return the stream entries for the last model call with a reply."""
    for called in reversed(passed.models):
        if called.first_ms is not None and called.pieces:
            first_at = add_duration(called.began_at, called.first_ms)
            end = add_duration(called.began_at, called.duration_ms)
            return stream(seq, called.began_at, first_at, end, called.pieces)
    return []
