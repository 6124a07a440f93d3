"""Where messages are on disk: numbers for logs, and which of their messages are written."""

from state.messages import Message
from state.store.codec import decode_message, encode_message
from state.store.database import Database, Statement
from state.transcript import Log, Span, Transcript

_INSERT = "INSERT INTO messages (session_id, log, idx, body) VALUES (?, ?, ?, ?)"
_UPDATE = "UPDATE messages SET body = ? WHERE session_id = ? AND log = ? AND idx = ?"


class SessionLogs:
    """The logs of one session and, read-only, those of the sessions it was forked from."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._logs: dict[tuple[str, int], Log] = {}
        self._early: dict[tuple[int, int], Message | None] = {}
        """Messages on disk ahead of their log; None for those of an earlier process."""
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
        self._logs.setdefault((log.session_id, log.number), log)
        return log.session_id, log.number

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
            self._note_early(log)

    def write_early(self, history: Transcript, offset: int, message: Message) -> list[Statement]:
        """Return the statement that writes a message `offset` places behind the end of `history`."""
        span = history.spans[-1]
        session_id, number = self.locate(span)
        place = (number, span.end + offset)
        if place in self._early:
            return []
        self._early[place] = message
        return [(_INSERT, (session_id, *place, encode_message(message)))]

    def unsaved(self) -> list[Statement]:
        """Return the statements that write every message that is not on disk yet."""
        statements: list[Statement] = []
        for (session_id, number), log in self._logs.items():
            for idx in range(log.saved, len(log.messages)):
                statements += self._write(session_id, number, idx, log.messages[idx])
        return statements

    def mark_saved(self) -> None:
        for (_, number), log in self._logs.items():
            for idx in range(log.saved, len(log.messages)):
                self._early.pop((number, idx), None)
            log.saved = max(log.saved, len(log.messages))

    def forget(self, transcript: Transcript) -> None:
        """Drop the logs behind a history that left the working state."""
        for log, _, _ in transcript.spans:
            if log.session_id is not None and log.number is not None:
                self._logs.pop((log.session_id, log.number), None)

    def _write(self, session_id: str, number: int, idx: int, message: Message) -> list[Statement]:
        place = (number, idx)
        if place not in self._early:
            return [(_INSERT, (session_id, *place, encode_message(message)))]
        if self._early[place] is message:
            return []
        return [(_UPDATE, (encode_message(message), session_id, *place))]

    def _note_early(self, log: Log) -> None:
        if log.sealed or log.number is None:
            return
        rows = self._database.query(
            "SELECT idx FROM messages WHERE session_id = ? AND log = ? AND idx >= ?",
            (log.session_id, log.number, len(log.messages)),
        )
        self._early.update({(log.number, int(idx)): None for (idx,) in rows})
