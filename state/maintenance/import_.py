"""Takes an exported session in: everything is checked before anything is written."""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from pydantic import ValidationError

from ..clock import now
from ..databases.chain import digest_of, first_digest
from ..databases.database import Database, Statement
from ..databases.schema import CHAINED, SESSION_TABLES
from ..errors import UsageError
from ..session import SessionSettings
from ..store.integrity import place_of
from .export import BadLine, ExportFile, Record, SessionPart, chained_row, content_chunk

_BATCH_BYTES = 4_000_000
_MAX_CONTENT_BYTES = 1_000_000_000
_TEXTS = ("title", "status", "created_at", "chain")


@dataclass(frozen=True, slots=True)
class Imported:
    session_id: str
    title: str
    settings: SessionSettings
    records: int
    brought: tuple[str, ...]
    """The sessions that came in, ancestors first."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """A session of the file that may be written."""

    part: SessionPart
    settings: SessionSettings


def import_session(database: Database, tenant: str, file: BinaryIO) -> Imported:
    """Bring an exported session and what it was forked from into the store; raises `UsageError`."""
    export = ExportFile(file)
    checked = {name: _checked(export, name, part) for name, part in export.sessions.items()}
    new = [name for name, session in checked.items() if not _is_here(database, export, name, session.part)]
    for name in new:
        _write(database, tenant, export, name, checked[name])
    last = checked[export.session_id]
    return Imported(
        export.session_id, last.part.head["title"], last.settings, len(last.part.rows), tuple(new)
    )


def _checked(export: ExportFile, name: str, part: SessionPart) -> _Checked:
    """Follow the hash chain from the session's first row to its head."""
    number, head = part.place.number, part.head
    if any(not isinstance(head.get(text), str) for text in _TEXTS) or not _has_proper_parent(export, head):
        raise BadLine(number, "does not describe a session")
    try:
        settings = SessionSettings.model_validate(head.get("settings"))
    except ValidationError:
        raise BadLine(number, "has settings that this version cannot read") from None
    if sorted(part.rows) != list(range(head.get("records") or 0)):
        raise BadLine(number, f"names a session of {head.get('records')} records; not all of them are there")
    damaged = {(record.get("source"), record.get("place")) for record in part.quarantine}
    digest = first_digest(name)
    for record in range(len(part.rows)):
        place = part.rows[record]
        table, values, own = chained_row(place.number, export.read(place))
        if digest_of(digest, table, values) != own and (table, place_of(table, values)) not in damaged:
            raise BadLine(place.number, "is not what was written: its digest does not fit")
        digest = own
    if part.rows and digest != head["chain"]:
        raise BadLine(number, "does not fit the last record of its session")
    for sha256 in part.contents:
        _check_content(export, part, sha256)
    return _Checked(part, settings)


def _has_proper_parent(export: ExportFile, head: Record) -> bool:
    parent, seq, last = head.get("parent_id"), head.get("parent_seq"), head.get("last_seq")
    if not isinstance(last, int):
        return False
    return (parent is None and seq is None) or (parent in export.sessions and isinstance(seq, int))


def _check_content(export: ExportFile, part: SessionPart, sha256: str) -> None:
    """Unpack a file content no further than it says, and compare it with its name."""
    unpacker, total, size = zlib.decompressobj(), hashlib.sha256(), 0
    number = part.contents[sha256][0].number
    try:
        for place in part.contents[sha256]:
            number = place.number
            _, whole, packed = content_chunk(number, export.read(place))
            left = min(whole, _MAX_CONTENT_BYTES) - size
            piece = unpacker.decompress(packed, left + 1)
            size += len(piece)
            total.update(piece)
    except zlib.error:
        raise BadLine(number, "holds a file content that cannot be unpacked") from None
    if total.hexdigest() != sha256:
        raise BadLine(number, "holds a file content that is not what was written")


def _is_here(database: Database, export: ExportFile, name: str, part: SessionPart) -> bool:
    """Tell whether an ancestor is in the store already; raises `UsageError` for what cannot be taken."""
    if not database.query("SELECT 1 FROM sessions WHERE id = ?", (name,)):
        return False
    if name == export.session_id:
        raise UsageError(f"A session {name} exists already.", f"Go on with it: sandbur -r {name}")
    last = len(part.rows) - 1
    for table in CHAINED:
        rows = database.query(f"SELECT digest FROM {table} WHERE session_id = ? AND record = ?", (name, last))
        if rows and rows[0][0] == part.head["chain"]:
            return True
    raise UsageError(
        f"The session {name}, which this one was forked from, is in the store, but not as in the file.",
        "Import into another store with --store.",
    )


def _write(database: Database, tenant: str, export: ExportFile, name: str, session: _Checked) -> None:
    """Write the rows in batches; the session exists with the last of them."""
    batch: list[Statement] = [
        (f"DELETE FROM {table} WHERE session_id = ?", (name,)) for table in SESSION_TABLES
    ]
    size = 0
    for statement in _statements(export, name, session.part):
        batch.append(statement)
        size += sum(len(value) for value in statement[1] if isinstance(value, str | bytes))
        if size > _BATCH_BYTES:
            database.commit(batch)
            batch, size = [], 0
    database.commit([*batch, *_session_rows(tenant, name, session)])
    database.mark(name, len(session.part.rows))


def _statements(export: ExportFile, name: str, part: SessionPart) -> Iterator[Statement]:
    for record, place in sorted(part.rows.items()):
        table, values, digest = chained_row(place.number, export.read(place))
        columns = ("session_id", *CHAINED[table], "record", "digest")
        yield _insert(table, columns), (name, *values, record, digest)
    for found in part.quarantine:
        columns = ("source", "place", "at", "reason")
        yield _insert("quarantine", ("session_id", *columns)), (name, *(str(found.get(c)) for c in columns))
    for sha256, places in part.contents.items():
        for place in places:
            chunk, size, packed = content_chunk(place.number, export.read(place))
            key = (sha256, name, chunk)
            yield (
                "INSERT INTO blobs (digest, session_id, chunk, size, body) SELECT ?, ?, ?, ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = ? AND session_id = ? AND chunk = ?)",
                (*key, size, packed, *key),
            )


def _session_rows(tenant: str, name: str, session: _Checked) -> list[Statement]:
    head = session.part.head
    status = "interrupted" if head["status"] == "running" else head["status"]
    values: tuple[Any, ...] = (name, tenant, head["parent_id"], head["parent_seq"], head["created_at"][:32])
    settings = session.settings.model_dump_json(ensure_ascii=True)
    return [
        (
            "INSERT INTO sessions (id, tenant, parent_id, parent_seq, created_at, settings)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (*values, settings),
        ),
        (
            "INSERT INTO heads (session_id, title, status, updated_at, wake_at, last_seq, records, chain,"
            " owner, epoch, lease_until) VALUES (?, ?, ?, ?, '', ?, ?, ?, '', 0, '')",
            (name, head["title"].replace("\0", ""), status[:32], now(), head["last_seq"],
             len(session.part.rows), head["chain"]),
        ),
    ]  # fmt: skip


def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
