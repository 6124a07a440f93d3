"""Where messages are on disk: numbers for logs, and which of their messages are written."""

from weakref import WeakValueDictionary

from state.store.codec import decode_message, encode_message
from state.store.database import Database, Statement
from state.transcript import Log, Span, Transcript

_INSERT = "INSERT INTO messages (session_id, log, idx, body) VALUES (?, ?, ?, ?)"


class SessionLogs:
    """The logs of one session and, read-only, those of the sessions it was forked from."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._logs: WeakValueDictionary[tuple[str, int], Log] = WeakValueDictionary()
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

    def load(self, transcript: Transcript) -> None:
        """Read the messages of every span from the store."""
        for log, _, end in transcript.spans:
            rows = self._database.query(
                "SELECT body FROM messages WHERE session_id = ? AND log = ? AND idx >= ? AND idx < ?"
                " ORDER BY idx",
                (log.session_id, log.number, len(log.messages), end),
            )
            for (body,) in rows:
                log.append(decode_message(body))
            log.saved = len(log.messages)

    def unsaved(self) -> list[Statement]:
        """Return the statements that write every message that is not on disk yet."""
        return [
            (_INSERT, (session_id, number, idx, encode_message(log.messages[idx])))
            for (session_id, number), log in self._growing.items()
            for idx in range(log.saved, len(log.messages))
        ]

    def mark_saved(self) -> None:
        for log in self._growing.values():
            log.saved = len(log.messages)
        self._growing.clear()
