"""Where messages are on disk: numbers for logs, and which of their messages are written."""

from collections.abc import Sequence
from typing import cast
from weakref import WeakValueDictionary

from state.calls import PendingCall
from state.messages import Message
from state.store.chain import Entry
from state.store.codec import decode_message, encode_message
from state.store.database import Database
from state.store.health import places_set_aside
from state.store.stand_ins import filled
from state.transcript import Log, Span, Transcript


class SessionLogs:
    """The logs of one session and, read-only, those of the sessions it was forked from."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._logs: WeakValueDictionary[tuple[str, int], Log] = WeakValueDictionary()
        self._set_aside: dict[str, set[str]] = {}
        self._growing: dict[tuple[str, int], Log] = {}
        """Logs with messages that are not on disk; the others live as long as a history needs them."""
        newest = database.query(
            "SELECT COALESCE(MAX(log), -1) FROM messages WHERE session_id = ?", (session_id,)
        )
        self._next_number = int(newest[0][0]) + 1

    def locate(self, span: Span) -> tuple[str, int]:
        """Return the log's name in the store, giving it one if it is new."""
        log = span.log
        if log.session_id is None or log.number is None:
            log.session_id, log.number = self._session_id, self._next_number
            self._next_number += 1
        name = log.session_id, log.number
        self._logs.setdefault(name, log)
        if log.saved < len(log.messages):
            self._growing[name] = log
        return name

    def log(self, session_id: str, number: int) -> Log:
        """Return a known log, or a reference to one whose messages are not loaded."""
        log = self._logs.get((session_id, number))
        if log is None:
            log = self._logs[session_id, number] = Log(session_id, number)
            log.sealed = session_id != self._session_id
        return log

    def load(self, transcript: Transcript, pending: Sequence[PendingCall] = ()) -> None:
        """Read the messages of every span from the store, with stand-ins for damaged ones.

        `pending` are the calls that the last message asks for.
        """
        for log, _, end in transcript.spans:
            if len(log.messages) < end:
                is_last = log is transcript.spans[-1].log
                self._extend(log, end, pending if is_last else ())

    def seal(self) -> None:
        """Let every known log end where it is: the rows behind it belong to a past that does not count."""
        for log in self._logs.values():
            log.sealed = True

    def _extend(self, log: Log, end: int, pending: Sequence[PendingCall]) -> None:
        start = len(log.messages)
        assert log.session_id is not None
        rows = self._database.query(
            "SELECT idx, body FROM messages WHERE session_id = ? AND log = ? AND idx >= ? AND idx < ?",
            (log.session_id, log.number, start, end),
        )
        bodies = {int(idx): str(body) for idx, body in rows}
        for place in self._damaged(log.session_id):
            number, _, idx = place.partition("/")
            if int(number) == log.number:
                bodies.pop(int(idx), None)
        found = [decode_message(bodies[idx]) if idx in bodies else None for idx in range(start, end)]
        is_whole = None not in found
        for message in cast(list[Message], found) if is_whole else filled(found, log.messages, pending):
            log.append(message)
        log.saved = len(log.messages)

    def _damaged(self, session_id: str) -> set[str]:
        if session_id not in self._set_aside:
            self._set_aside[session_id] = places_set_aside(self._database, session_id, "messages")
        return self._set_aside[session_id]

    def unsaved(self) -> list[Entry]:
        """Return a row for every message that is not on disk yet."""
        return [
            Entry("messages", (number, idx, encode_message(log.messages[idx])))
            for (_, number), log in self._growing.items()
            for idx in range(log.saved, len(log.messages))
        ]

    def mark_saved(self) -> None:
        for log in self._growing.values():
            log.saved = len(log.messages)
        self._growing.clear()
