"""Files that all sessions of a tenant share. Each is one row, which is replaced only if the old digest
matches.
"""

import hashlib
import json
from collections.abc import Mapping

from ...databases.database import (
    Database,
    GuardedUpdate,
    LateTables,
    Statement,
    exists,
    insert_once,
    update,
)
from ...errors import GuardFailed, StoreError
from ...process.clock import now
from ...process.crashpoints import reach

TABLE = """CREATE TABLE shared_files (
    owner VARCHAR(64) NOT NULL,
    name VARCHAR(64) NOT NULL,
    path {long_text} NOT NULL,
    digest VARCHAR(64) NOT NULL,
    size BIGINT NOT NULL,
    updated_at VARCHAR(32) NOT NULL,
    body {blob} NOT NULL,
    PRIMARY KEY (owner, name))"""
"""The table. `owner` and `name` are hashes of tenant and path, because a database may treat two texts as
equal.
"""
_VERSION = 1


class SharedFiles:
    """The shared files of a tenant in a store."""

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._owner = _digest(json.dumps(["tenant", tenant]).encode())
        self._tables = LateTables(database, "shared_files", _VERSION, (TABLE,), "files")

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        return await self._database.offload(self._list)

    async def read(self, path: str) -> bytes | None:
        return await self._database.offload(lambda: self._read(path))

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Replace the content with the SHA-256 `expected` (None: there is no file). Return False if the file
        has another content.
        """
        return await self._database.offload(lambda: self._write(path, content, expected))

    def _list(self) -> dict[str, int]:
        if not self._tables.are_there():
            return {}
        rows = self._database.query("SELECT path, size FROM shared_files WHERE owner = ?", (self._owner,))
        return {path: int(size) for path, size in rows}

    def _read(self, path: str) -> bytes | None:
        if not self._tables.are_there():
            return None
        rows = self._database.query(
            "SELECT body FROM shared_files WHERE owner = ? AND name = ?", (self._owner, _name(path))
        )
        return bytes(rows[0][0]) if rows else None

    def _write(self, path: str, content: bytes, expected: str | None) -> bool:
        self._tables.create()
        digest = _digest(content)
        there = self._load_digest(path)
        if there != expected or there == digest:
            return there == expected
        claim = self._make_claim(path, content, digest, expected)
        place = {"owner": self._owner, "name": _name(path), "digest": digest}
        reach("shared_file_before_commit")
        try:
            self._database.commit([], GuardedUpdate(claim, exists("shared_files", place)))
        except GuardFailed:
            return False
        except StoreError:
            # Two processes wrote a new file at the same time, and the database accepted one of them.
            if expected is None and (found := self._load_digest(path)) is not None:
                return found == digest
            raise
        reach("shared_file_after_commit")
        return True

    def _make_claim(self, path: str, content: bytes, digest: str, expected: str | None) -> Statement:
        new = {"digest": digest, "size": len(content), "updated_at": now(), "body": content}
        place = {"owner": self._owner, "name": _name(path)}
        if expected is not None:
            return update("shared_files", new, {**place, "digest": expected})
        return insert_once("shared_files", {**place, "path": path, **new}, unless=place)

    def _load_digest(self, path: str) -> str | None:
        rows = self._database.query(
            "SELECT digest FROM shared_files WHERE owner = ? AND name = ?", (self._owner, _name(path))
        )
        return str(rows[0][0]) if rows else None


def _name(path: str) -> str:
    return _digest(path.encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
