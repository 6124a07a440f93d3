"""Steps of a session in the form of Burr's log: begin, end, spans, attributes, streams."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.tracking import runs_view
from agent.tracking.entries import SpanDraft, attributes, begin_entry, end_entry, spans, stream
from agent.tracking.intervals import Interval, interval
from agent.tracking.messages import arguments_view, message_view
from agent.tracking.recording import RecordedStep, Recording
from agent.tracking.said import Said
from agent.tracking.spans import later, model_span, tool_spans
from agent.tracking.state_view import state_view
from agent.tracking.tail import Tail
from agent.tracking.texts import Texts
from state.store.line_texts import step_text

Json = dict[str, Any]

_LOOK_BACK = 20
"""Steps in front of one that may say what its calls are and what its request adds."""
_NO_END = "unknown: no end is recorded"
_PEOPLE = ("prompt", "human_confirm")
"""Actions in front of which a session waits."""


class StepRenderer:
    """Renders the steps of a recording from index `first` to before `end`."""

    def __init__(self, recording: Recording, first: int, end: int, texts: Texts) -> None:
        self._recording = recording
        self._texts = texts
        steps = recording.steps[max(0, first - _LOOK_BACK) : end]
        self._said = Said(recording, [reference for step in steps for reference in step.added], texts)

    def step(self, index: int) -> Json:
        """Return the step at `index` as Burr logs it."""
        step, passed = self._recording.steps[index], interval(self._recording, index)
        said = runs_view.told(passed, self._texts)
        if self._recording.trace:
            said |= runs_view.left(interval(self._recording, index + 1), self._texts)
        inputs = runs_view.inputs(step, passed, self._texts)
        state = self._state(step, self._added(step))
        return {
            "step_start_log": begin_entry(step.seq, self._began_at(index, passed), step.action, inputs),
            "step_end_log": end_entry(step.seq, step.at, step.action, state, self._result(step)),
            **self._beside(step.seq, index, passed, said, step.at, step.at),
        }

    def unfinished(self, seq: int, end: Tail) -> Json:
        """Return what is behind the last step: under way, or ended with an exception."""
        steps = self._recording.steps
        passed = interval(self._recording, len(steps))
        began_at = self._began_at(len(steps), passed) or end.at
        said = {
            **({"waits_for": end.waits_for} if end.waits_for else {}),
            **runs_view.told(passed, self._texts),
        }
        state = self._state(steps[-1], {}) if steps else {}
        finished = None
        if end.exception is not None:
            exception = self._texts.shown(end.exception)
            finished = end_entry(seq, end.at, end.action, state, None, exception)
        return {
            "step_start_log": begin_entry(seq, began_at, end.action, {}),
            "step_end_log": finished,
            **self._beside(seq, len(steps), passed, said, began_at, end.at if finished else None),
        }

    def _beside(
        self, seq: int, index: int, passed: Interval, said: Json, at: str, ended_at: str | None
    ) -> Json:
        drafts = self._spans(index, passed)
        for draft in drafts:
            if draft.ended_at is None:
                # An open span grows to this very moment.
                draft.ended_at = ended_at
                draft.attributes["outcome"] = _NO_END if ended_at else "running"
        found, told = spans(seq, drafts)
        return {
            "spans": found,
            "attributes": [*attributes(seq, None, said, at), *told],
            "streaming_events": _stream(seq, passed),
        }

    def _began_at(self, index: int, passed: Interval) -> str:
        """Return when the step began: behind the step before, or with its run; empty if nobody knows."""
        steps = self._recording.steps
        own_end = steps[index].at if index < len(steps) else ""
        if passed.began is not None:
            return passed.began.at
        if not own_end and passed.attempts:
            return passed.attempts[-1].began.at
        if index == 0:
            return own_end
        if own_end and not self._recording.trace and steps[index].action in _PEOPLE:
            return own_end
        # Clocks may be set back.
        return min(steps[index - 1].at, own_end or steps[index - 1].at)

    def _state(self, step: RecordedStep, added: Mapping[str | None, Sequence[Json]]) -> Json:
        calls = [call for call in step.after.get("pending_tool_calls") or () if call]
        arguments = self._said.arguments([str(call.get("call_id")) for call in calls])
        return state_view(step, added, arguments, self._texts)

    def _added(self, step: RecordedStep) -> dict[str | None, list[Json]]:
        return {
            step_id: [message_view(message, self._texts) for message in messages]
            for step_id, messages in self._said.by_history(step.added).items()
        }

    def _result(self, step: RecordedStep) -> Json:
        try:
            found = step_text(step.action, step.before, step.after, self._said.lines(step.added), {})
        except (KeyError, TypeError, AttributeError):
            return {"summary": "(the record of this step is damaged)"}
        result: Json = {"summary": self._texts.shown(found.text)}
        return result | ({"plan_step": step.step_id} if step.step_id else {})

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
            {**self._said.arguments(calls), **self._edited(index)},
            self._recording.files,
            self._said.results(done),
            self._texts,
        )

    def _edited(self, index: int) -> Json:
        """Return the arguments that a person put in place of the model's."""
        steps = self._recording.steps
        calls: Sequence[Json | None] = steps[index - 1].after.get("pending_tool_calls") or () if index else ()
        return {
            str(call["call_id"]): arguments_view(str(call["arguments"]), self._texts)
            for call in calls
            if call is not None and call.get("arguments")
        }

    def _new_messages(self, index: int) -> list[Json]:
        """Return the messages since the request before."""
        new: list[Json] = []
        for at in range(index - 1, max(-1, index - _LOOK_BACK), -1):
            new = self._said.messages(self._recording.steps[at].added) + new
            if interval(self._recording, at).models:
                break
        return new


def _stream(seq: int, passed: Interval) -> list[Json]:
    """Return the streaming of the last model call that said something."""
    for called in reversed(passed.models):
        if called.first_ms is not None and called.pieces:
            first_at = later(called.began_at, called.first_ms)
            return stream(
                seq, called.began_at, first_at, later(called.began_at, called.duration_ms), called.pieces
            )
    return []
