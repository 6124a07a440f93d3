"""Contents by their SHA-256, each stored once: old contents of files, pictures, documents."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ...conversation.content import Attachment, Source
from ...conversation.media_types import is_text_type
from ...databases.database import Database, Statement

_CHUNK_BYTES = 256 * 1024
"""The largest size of a chunk in bytes. It fits the packet limit of every MySQL server."""
_FAST_FROM_BYTES = 1_000_000
_USED = -1
"""Replaces a chunk number. The row means that a message of this session refers to the content."""
BEFORE_AT = len('{"before":"') + 1
"""The position of the old content's digest in `files.body`, for SQL."""

USED_CONTENTS = f"SELECT digest FROM blobs WHERE chunk = {_USED} AND session_id = ?"
"""Selects the contents that the messages of a session refer to."""
UNUSED_CONTENTS: tuple[Statement, ...] = (
    (
        f"DELETE FROM blobs WHERE chunk = {_USED} AND session_id NOT IN (SELECT id FROM sessions)"
        # Sessions that have messages but no row yet are being imported.
        " AND session_id NOT IN (SELECT session_id FROM messages)",
        (),
    ),
    (
        f"DELETE FROM blobs WHERE digest NOT IN (SELECT SUBSTR(body, {BEFORE_AT}, 64) FROM files)"
        # MySQL cannot delete from a table that the same statement reads, except through a derived table.
        f" AND digest NOT IN (SELECT digest FROM (SELECT digest FROM blobs WHERE chunk = {_USED}) used)",
        (),
    ),
)
"""The statements that delete the contents that no file change and no message refers to."""

_INSERT = (
    "INSERT INTO blobs (digest, session_id, chunk, size, body) SELECT ?, ?, ?, ?, ?"
    " WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = ? AND chunk >= 0"
    " AND (session_id <> ? OR chunk = ?)) ON CONFLICT (digest, session_id, chunk) DO NOTHING"
)


def insert_content(
    session_id: str, digest: str, content: bytes, is_packed: bool = False
) -> Iterator[Statement]:
    """Yield statements that store a content under the session's id, so that two sessions never conflict.

    A process that sends a message, and the writer of its session, may store one content at the same time.

    `is_packed`: the content is compressed already, so another compression would not make it smaller.
    """
    level = 0 if is_packed else 1 if len(content) >= _FAST_FROM_BYTES else 6
    packed = zlib.compress(content, level)
    for chunk, start in enumerate(range(0, len(packed), _CHUNK_BYTES)):
        body = packed[start : start + _CHUNK_BYTES]
        yield _INSERT, (digest, session_id, chunk, len(content), body, digest, session_id, chunk)


def insert_chunk(session_id: str, digest: str, chunk: int, size: int, body: bytes) -> Statement:
    """Return the statement that stores a chunk exactly as another store contained it."""
    sql = (
        "INSERT INTO blobs (digest, session_id, chunk, size, body) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (digest, session_id, chunk) DO NOTHING"
    )
    return sql, (digest, session_id, chunk, size, body)


def insert_uses(session_id: str, files: Iterable[Attachment]) -> Iterator[Statement]:
    """Yield statements that record which files a message uses, and that store the files that are in
    memory.
    """
    for file in files:
        yield insert_chunk(session_id, file.sha256, _USED, file.size, b"")
        if file.bytes_in_memory is not None:
            is_packed = not is_text_type(file.media_type)
            yield from insert_content(session_id, file.sha256, file.bytes_in_memory, is_packed)


def read_content(database: Database, digest: str) -> bytes | None:
    """Return a stored content of any session, or None if it is missing or damaged."""

    def sound_copy() -> bytes | None:
        return next((found for found in _load_copies(database, digest) if found is not None), None)

    found = sound_copy()
    return database.read_again(sound_copy, lambda again: again is not None) if found is None else found


def is_used(database: Database, digest: str, session_ids: Sequence[str]) -> bool:
    """Return whether messages of one of these sessions refer to a content."""
    owners = ", ".join("?" * len(session_ids))
    sql = f"SELECT 1 FROM blobs WHERE digest = ? AND chunk = {_USED} AND session_id IN ({owners}) LIMIT 1"
    return bool(database.query(sql, (digest, *session_ids)))


def make_content_reader(database: Database) -> Source:
    """Return a function that reads the attachments of messages."""

    def read(sha256: str) -> bytes | None:
        return read_content(database, sha256)

    return read


class Copies(NamedTuple):
    """The number of stored copies of a content, by their condition."""

    sound: int
    damaged: int


def count_copies(database: Database, digest: str) -> Copies:
    """Verify every stored copy of a content by its digest, and return the number of valid and damaged
    copies.
    """

    def count() -> Copies:
        is_sound = [found is not None for found in _load_copies(database, digest)]
        return Copies(is_sound.count(True), is_sound.count(False))

    counted = count()
    if counted.sound and not counted.damaged:
        return counted
    return database.read_again(count, lambda again: again.sound > counted.sound) or counted


def _load_copies(database: Database, digest: str) -> Iterator[bytes | None]:
    """Yield each stored copy of a content, or None for a damaged copy."""
    rows = database.query(
        "SELECT session_id, size, body FROM blobs WHERE digest = ? AND chunk >= 0 ORDER BY session_id, chunk",
        (digest,),
    )
    for _, chunks in groupby(rows, key=lambda row: row[0]):
        copy = list(chunks)
        found = _unpack(b"".join(bytes(chunk[2]) for chunk in copy), int(copy[0][1]))
        yield found if found is not None and hashlib.sha256(found).hexdigest() == digest else None


def _unpack(packed: bytes, size: int) -> bytes | None:
    """Unpack up to `size` bytes. Return None if this fails."""
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except (zlib.error, ValueError, OverflowError):
        return None
