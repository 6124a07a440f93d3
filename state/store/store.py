"""The store as the layers above see it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from state.application import ApplicationState
from state.errors import UsageError
from state.session import SessionSettings, SessionSummary, SessionView
from state.store.database import Database
from state.store.journal import CallJournal
from state.store.persister import DeltaPersister, load_histories
from state.store.sessions import SessionIndex
from state.store.writer import SessionWriter


class Store:
    """One database with every session, its steps, messages, calls and outputs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path)
        self._writers: dict[str, SessionWriter] = {}
        self.index = SessionIndex(self._database)

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open `sqlite:///PATH`, creating file and tables if they are not there."""
        scheme, separator, path = url.partition(":///")
        if scheme != "sqlite" or not separator or not path:
            raise UsageError(f"{url!r} is not a store this version opens.", "Use sqlite:///PATH.")
        return cls(Path(path) if path.startswith("/") else Path.cwd() / path)

    def close(self) -> None:
        self._database.close()

    def persister(self) -> DeltaPersister:
        return DeltaPersister(self._database, self.writer)

    def journal(self, session_id: str) -> CallJournal:
        return CallJournal(self._database, self.writer(session_id), self.index.ancestors(session_id))

    def writer(self, session_id: str) -> SessionWriter:
        if session_id not in self._writers:
            self._writers[session_id] = SessionWriter(self._database, session_id, ApplicationState)
        return self._writers[session_id]

    def create(self, session_id: str, settings: SessionSettings) -> None:
        self.index.create(session_id, settings)

    def fork(self, session_id: str, new_id: str, at: int | None = None) -> None:
        """Make a session that continues `session_id` behind its step `at`; no row is copied."""
        parent = self.index.summary(session_id)
        newest = parent.steps - 1
        at = newest if at is None else at
        if not 0 <= at <= newest:
            raise UsageError(f"Session {session_id} has no step {at}.", f"It has the steps 0 to {newest}.")
        settings = self.index.settings(session_id)
        self.index.create(new_id, settings, parent.title, (session_id, at))

    def sessions(self, cwd: str | None = None) -> list[SessionSummary]:
        return self.index.list(cwd)

    def find(self, text: str) -> str:
        return self.index.find(text)

    def delete(self, session_id: str) -> None:
        self.index.delete(session_id)
        self._writers.pop(session_id, None)

    def show(self, session_id: str, seq: int | None = None) -> SessionView:
        """Read a session's state without becoming its writer; every history is loaded."""
        summary = self.index.summary(session_id)
        reader = SessionWriter(self._database, session_id, ApplicationState)
        found = reader.load(seq)
        values = {} if found is None else found[3]
        if values:
            load_histories(reader.logs, values)
        state = ApplicationState.model_construct(**values) if values else ApplicationState()
        for step in state.vibe_plan:
            reader.logs.load(step.chat_history)
        position = None if found is None else found[1]
        return SessionView(summary, self.index.settings(session_id), state, position)

    def output(self, session_id: str, call_id: str) -> bytes | None:
        """Return the whole output of a call whose result shows a part of it."""
        rows = self._database.query(
            "SELECT body FROM outputs WHERE session_id = ? AND call_id = ? ORDER BY chunk",
            (session_id, call_id),
        )
        return b"".join(row[0] for row in rows) if rows else None

    def export(self, session_id: str) -> Iterator[dict[str, Any]]:
        """Yield the session as JSON-safe records: itself, steps, messages, call moves, whole outputs."""
        summary = self.index.summary(session_id)
        settings = self.index.settings(session_id)
        yield {
            "kind": "session",
            "id": summary.id,
            "title": summary.title,
            "created_at": summary.created_at,
            "parent_id": summary.parent_id,
            "parent_seq": summary.parent_seq,
            "settings": settings.model_dump(mode="json"),
        }
        for kind, columns, order in _EXPORTED:
            names = columns.split(", ")
            rows = self._database.query(
                f"SELECT {columns} FROM {kind}s WHERE session_id = ? ORDER BY {order}", (session_id,)
            )
            for row in rows:
                yield {"kind": kind, **_parsed(dict(zip(names, row, strict=True)))}
        cut = self._database.query(
            "SELECT DISTINCT call_id FROM outputs WHERE session_id = ? ORDER BY call_id", (session_id,)
        )
        for (call_id,) in cut:
            whole = self.output(session_id, call_id) or b""
            yield {"kind": "output", "call_id": call_id, "text": whole.decode("utf-8", "replace")}

    def check(self) -> list[str]:
        """Return the integrity problems of the database file; empty if there are none."""
        rows = self._database.query("PRAGMA integrity_check")
        return [row[0] for row in rows if row[0] != "ok"]


_EXPORTED = (
    ("step", "seq, position, is_snapshot, at, fields", "seq"),
    ("message", "log, idx, body", "log, idx"),
    ("call", "n, call_id, move, at, body", "n"),
)


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json.loads(value) if name in ("fields", "body") else value for name, value in row.items()}
