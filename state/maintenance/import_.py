"""Takes an exported session in: everything is checked before anything is written."""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pydantic import ValidationError

from ..databases.chain import Chain, digest_of, first_digest, row_of
from ..databases.database import Database, Statement
from ..databases.schema import CHAINED
from ..errors import UsageError
from ..session import SessionSettings
from ..store.integrity import place_of
from ..store.seals import CHANGED, broken_seals, mark, read, sealed_anew
from ..store.sessions import new_head, new_session, rows_deleted
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


def import_session(database: Database, tenant: str, file: BinaryIO) -> Imported:
    """Bring an exported session and what it was forked from into the store; raises `UsageError`."""
    export = ExportFile(file)
    checked = {name: _checked(database, export, name, part) for name, part in export.sessions.items()}
    new = [name for name, part in export.sessions.items() if not _is_here(database, export, name, part)]
    for name in new:
        _write(database, tenant, export, name, checked[name])
    last = export.sessions[export.session_id]
    title, settings = last.head["title"], checked[export.session_id]
    return Imported(export.session_id, title, settings, len(last.rows), tuple(new))


def _checked(database: Database, export: ExportFile, name: str, part: SessionPart) -> SessionSettings:
    """Follow the hash chain from the session's first row to its head; return its settings."""
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
    _check_seals(database, export, name, part)
    for sha256 in part.contents:
        _check_content(export, part, sha256)
    return settings


def _check_seals(database: Database, export: ExportFile, name: str, part: SessionPart) -> None:
    """Refuse what was changed after this machine's key had sealed it; another's seals cannot be checked."""
    seals = read(part.head.get("seals", []))
    if seals is None or any(seal.records > len(part.rows) for seal in seals):
        raise BadLine(part.place.number, "has seals that cannot be")
    ends = {seal.records - 1: part.rows[seal.records - 1] for seal in seals if seal.records}
    digests = {n: chained_row(place.number, export.read(place))[2] for n, place in ends.items()}
    end = Chain(len(part.rows), part.head["chain"])
    if any(broken.problem == CHANGED for broken in broken_seals(database, name, end, seals, digests)):
        raise BadLine(part.place.number, "is not what was sealed with this machine's key")


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


def _write(database: Database, tenant: str, export: ExportFile, name: str, settings: SessionSettings) -> None:
    """Write the rows in batches; the session exists with the last of them."""
    part = export.sessions[name]
    batch, size = rows_deleted(name), 0
    for statement in _statements(export, name, part):
        batch.append(statement)
        size += sum(len(value) for value in statement[1] if isinstance(value, str | bytes))
        if size > _BATCH_BYTES:
            database.commit(batch)
            batch, size = [], 0
    head, end = part.head, Chain(len(part.rows), part.head["chain"])
    parent, made = (head["parent_id"], head["parent_seq"]), head["created_at"][:32]
    batch.append(new_session(name, tenant, settings, parent, made))
    status = "interrupted" if head["status"] == "running" else head["status"]
    batch.append(new_head(name, head["title"].replace("\0", ""), status[:32], head["last_seq"], end))
    batch += sealed_anew(database, name, read(head.get("seals", [])) or [], end)
    database.commit(batch)
    mark(database, name, end.records)


def _statements(export: ExportFile, name: str, part: SessionPart) -> Iterator[Statement]:
    for record, place in sorted(part.rows.items()):
        table, values, digest = chained_row(place.number, export.read(place))
        yield row_of(table, (name, *values, record, digest))
    for found in part.quarantine:
        columns = ("source", "place", "at", "reason")
        yield row_of("quarantine", (name, *(str(found.get(column)) for column in columns)))
    for sha256, places in part.contents.items():
        for place in places:
            chunk, size, packed = content_chunk(place.number, export.read(place))
            key = (sha256, name, chunk)
            yield (
                "INSERT INTO blobs (digest, session_id, chunk, size, body) SELECT ?, ?, ?, ?, ?"
                " WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = ? AND session_id = ? AND chunk = ?)",
                (*key, size, packed, *key),
            )
