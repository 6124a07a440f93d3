"""A session as JSON-safe records, one a line of an export; nothing of it is lost on the way back in."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from state.errors import SessionNotFound
from state.session import SessionSettings
from state.store.database import Database
from state.store.schema import CHAINED, KEYS, SCHEMA_VERSION

FORMAT = 1
TABLES = {
    "step": "steps",
    "message": "messages",
    "call": "calls",
    "output": "outputs",
    "file": "files",
    "trace": "traces",
}
"""Kind of a record -> its table."""
INTEGERS = frozenset({"seq", "is_snapshot", "log", "idx", "n", "chunk", "record"})
_PAGE_ROWS = 200
_BEFORE_AT = len('{"before":"') + 1

Record = dict[str, Any]


def export_session(database: Database, session_id: str) -> Iterator[Record]:
    """Yield what an import needs: the version, every session of the lineage, file contents from before."""
    lineage = _lineage(database, session_id)
    yield {"kind": "export", "format": FORMAT, "schema": SCHEMA_VERSION, "session_id": session_id}
    for owner in lineage:
        head = _head(database, owner)
        yield head
        for kind, table in TABLES.items():
            for row in _rows(database, owner, table, head["records"]):
                yield {"kind": kind, "session_id": owner, **_record(table, row)}
        yield from _quarantined(database, owner)
    for owner in lineage:
        yield from _contents(database, owner)


def place_of(table: str, values: Sequence[Any]) -> str:
    """Return the key of a row within its session, as `quarantine` names it."""
    return "/".join(str(values[CHAINED[table].index(key)]) for key in KEYS[table])


def stored_text(value: Any) -> str:
    """Return the text that a JSON column held, from how `readable` wrote it."""
    return value if isinstance(value, str) else _compact(value)


def readable(text: str) -> Any:
    """Return the JSON in a text, as long as the very same text can be made of it again."""
    try:
        value: Any = json.loads(text)
        return value if not isinstance(value, str) and _compact(value) == text else text
    except (ValueError, RecursionError):
        return text


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _lineage(database: Database, session_id: str) -> list[str]:
    """Return a session and what it was forked from, oldest first."""
    found = [session_id]
    while True:
        rows = database.query("SELECT parent_id FROM sessions WHERE id = ?", (found[0],))
        if not rows or rows[0][0] is None:
            return found
        found.insert(0, rows[0][0])


def _head(database: Database, session_id: str) -> Record:
    columns = ("title", "status", "created_at", "updated_at", "parent_id", "parent_seq", "last_seq",
               "records", "chain", "settings")  # fmt: skip
    rows = database.query(
        f"SELECT {', '.join(columns)} FROM sessions s JOIN heads h ON h.session_id = s.id WHERE s.id = ?",
        (session_id,),
    )
    if not rows:
        raise SessionNotFound(f"There is no session {session_id!r}.", "See them with: sandbur sessions list")
    head = dict(zip(columns, rows[0], strict=True))
    settings = SessionSettings.model_validate_json(head.pop("settings"))
    return {"kind": "session", "id": session_id, **head, "settings": settings.model_dump(mode="json")}


def _rows(database: Database, session_id: str, table: str, records: int) -> Iterator[Sequence[Any]]:
    """Read a table page by page; what a running session adds behind its head is left out."""
    keys = KEYS[table]
    columns = (*CHAINED[table], "record", "digest")
    places = [columns.index(key) for key in keys]
    after: tuple[Any, ...] = ()
    while True:
        behind = f" AND ({', '.join(keys)}) > ({', '.join('?' * len(keys))})" if after else ""
        rows = database.query(
            f"SELECT {', '.join(columns)} FROM {table} WHERE session_id = ? AND record < ?{behind}"
            f" ORDER BY {', '.join(keys)} LIMIT {_PAGE_ROWS}",
            (session_id, records, *after),
        )
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        after = tuple(rows[-1][place] for place in places)


def _record(table: str, row: Sequence[Any]) -> Record:
    record = dict(zip((*CHAINED[table], "record", "digest"), row, strict=True))
    if table == "outputs":
        body = bytes(record.pop("body"))
        try:
            return {**record, "text": body.decode("utf-8")}
        except UnicodeDecodeError:
            return {**record, "base64": base64.b64encode(body).decode()}
    for name in ("fields", "body"):
        if name in record:
            record[name] = readable(record[name])
    return record


def _quarantined(database: Database, session_id: str) -> Iterator[Record]:
    columns = ("source", "place", "at", "reason")
    rows = database.query(f"SELECT {', '.join(columns)} FROM quarantine WHERE session_id = ?", (session_id,))
    for row in rows:
        yield {"kind": "quarantine", "session_id": session_id, **dict(zip(columns, row, strict=True))}


def _contents(database: Database, session_id: str) -> Iterator[Record]:
    """Yield the stored contents that the session's file changes refer to, chunk by chunk, compressed."""
    wanted = database.query(
        f"SELECT DISTINCT SUBSTR(body, {_BEFORE_AT}, 64) FROM files WHERE session_id = ?", (session_id,)
    )
    for (digest,) in cast(list[tuple[str]], wanted):
        writers = database.query(
            "SELECT MIN(session_id) FROM blobs WHERE digest = ? HAVING COUNT(*) > 0", (digest,)
        )
        for (writer,) in writers:
            chunks = database.query(
                "SELECT chunk, size, body FROM blobs WHERE digest = ? AND session_id = ? ORDER BY chunk",
                (digest, writer),
            )
            for chunk, size, body in chunks:
                packed = base64.b64encode(bytes(body)).decode()
                yield {
                    "kind": "blob",
                    "session_id": session_id,
                    "digest": digest,
                    "chunk": chunk,
                    "size": size,
                    "base64": packed,
                }
