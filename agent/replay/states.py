"""The state after each step of a recording, with every history at hand."""

from collections.abc import Iterable, Mapping
from typing import Any

from state.application import ApplicationState, ExecutionMode
from state.calls import restore_arguments
from state.store.codec import decode_fields
from state.store.fields import merge
from state.store.recorded_rows import SessionRows
from state.transcript import Log, Span, Transcript

Values = Mapping[str, Any]
"""Field -> value, as in `ApplicationState`."""


class RecordedLogs:
    """All logs of a session and of those that it was forked from, loaded whole; read-only."""

    def __init__(self, sessions: Iterable[SessionRows]) -> None:
        self._logs: dict[tuple[str, int], Log] = {}
        for session in sessions:
            for number, message, _ in session.messages:
                log = self.log(session.session_id, number)
                log.append(message)
                log.saved += 1

    def log(self, session_id: str, number: int) -> Log:
        name = session_id, number
        if name not in self._logs:
            log = self._logs[name] = Log(session_id, number)
            # What a walk appends goes into logs of its own.
            log.sealed = True
        return self._logs[name]

    def locate(self, span: Span) -> tuple[str, int]:
        raise LookupError("a recording is only read")

    def loaded(self, history: Transcript) -> Transcript:
        """Return the history with the messages of spans that only refer to the store."""
        spans = [
            span if span.is_loaded else span._replace(log=self.log(span.log.session_id, span.log.number))
            for span in history.spans
            if span.log.session_id is not None and span.log.number is not None
        ]
        return Transcript(spans) if len(spans) == len(history.spans) else history


class StateReader:
    """Follows the steps of a recording; a field that did not change stays the very same object."""

    def __init__(self, logs: RecordedLogs, mode: ExecutionMode) -> None:
        """Begin with the state of a new session in this mode."""
        self._logs = logs
        self._stored: dict[str, Any] = {}
        self.values: Values = dict(ApplicationState(execution_mode=mode))

    def take(self, delta: str) -> Values:
        """Return every field behind the step that wrote `delta`."""
        before = dict(self._stored)
        merge(self._stored, delta)
        changed = {
            name: value
            for name, value in self._stored.items()
            if value is not before.get(name) and (name not in before or value != before[name])
        }
        decoded = decode_fields(ApplicationState, changed, self._logs)
        values = {**self.values, **{name: decoded[name] for name in changed if name in decoded}}
        if "pending_tool_calls" in changed and values["pending_tool_calls"]:
            asked = ApplicationState.model_construct(**values).active_history.last
            values["pending_tool_calls"] = restore_arguments(values["pending_tool_calls"], asked)
        self.values = values
        return values
