"""Files that belong to one session: written in its own transactions, kept, forked and exported with it."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from ...databases.chain import Entry, sound_rows
from ...databases.database import Database
from ..writer import SessionWriter

_CHUNK = -1
"""In place of the number of a chunk: no output of a call has it."""
_NAME = "memory:"
"""Begins the key of a row in `outputs`; its number follows."""


class SessionFiles:
    """What the calls of a session wrote, with what those before its fork wrote.

    A write goes to disk in the transaction that holds the result of its call: both are there, or neither.
    """

    def __init__(
        self, database: Database, writer: SessionWriter, lineage: Sequence[tuple[str, int | None]]
    ) -> None:
        """Take the sessions oldest first, each with its last step that counts (None: all)."""
        self._database = database
        self._writer = writer
        self._lineage = lineage
        self._known: dict[str, bytes] | None = None
        self._next_n = 0

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        return {path: len(content) for path, content in (await self._contents()).items()}

    async def read(self, path: str) -> bytes | None:
        return (await self._contents()).get(path)

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Replace what has the SHA-256 `expected` (None: no file); False: something else is there."""
        known = await self._contents()
        there = known.get(path)
        if (None if there is None else hashlib.sha256(there).hexdigest()) != expected:
            return False
        head = json.dumps({"path": path, "seq": self._writer.last_seq}, ensure_ascii=True)
        n, self._next_n = self._next_n, self._next_n + 1
        self._writer.queue(Entry("outputs", (f"{_NAME}{n}", _CHUNK, f"{head}\n".encode() + content)))
        known[path] = content
        return True

    async def _contents(self) -> dict[str, bytes]:
        if self._known is None:
            self._known = await self._database.offload(self._stored)
        return self._known

    def _stored(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for session_id, last in self._lineage:
            condition = f"chunk = {_CHUNK} AND SUBSTR(call_id, 1, {len(_NAME)}) = ?"
            rows = sound_rows(self._database, "outputs", session_id, ("body",), condition, (_NAME,))
            numbered = sorted((int(name.removeprefix(_NAME)), bytes(body)) for name, _, body in rows)
            for n, body in numbered:
                head, _, content = body.partition(b"\n")
                told = json.loads(head)
                if session_id == self._writer.session_id:
                    self._next_n = max(self._next_n, n + 1)
                if last is None or told["seq"] < last:
                    found[told["path"]] = content
        return found
