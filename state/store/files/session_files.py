"""The files of one session's memory: written in its transactions, and part of its forks and exports."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from ...databases.chain import Entry, list_sound_rows
from ...databases.database import Database
from ..writer import SessionWriter

_CHUNK = -1
"""The chunk number of rows in `outputs` that hold such a file; outputs of calls have none below 0."""
_NAME = "memory:"
"""The start of the key of a row in `outputs`; a number follows."""


class SessionFiles:
    """The files that the calls of a session, and of its ancestors before the fork, wrote.

    A write is committed in the same transaction as the result of its call.
    """

    def __init__(
        self, database: Database, writer: SessionWriter, lineage: Sequence[tuple[str, int | None]]
    ) -> None:
        """`lineage` is oldest first: each session with its last step that counts (None: all)."""
        self._database = database
        self._writer = writer
        self._lineage = lineage
        self._known: dict[str, bytes] | None = None
        self._next_n = 0

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        return {path: len(content) for path, content in (await self._load()).items()}

    async def read(self, path: str) -> bytes | None:
        return (await self._load()).get(path)

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Replace the content with SHA-256 `expected` (None: no file); return False if it is another one."""
        known = await self._load()
        there = known.get(path)
        if (None if there is None else hashlib.sha256(there).hexdigest()) != expected:
            return False
        head = json.dumps({"path": path, "seq": self._writer.last_seq}, ensure_ascii=True)
        n, self._next_n = self._next_n, self._next_n + 1
        self._writer.queue(Entry("outputs", (f"{_NAME}{n}", _CHUNK, f"{head}\n".encode() + content)))
        known[path] = content
        return True

    async def _load(self) -> dict[str, bytes]:
        if self._known is None:
            self._known = await self._database.offload(self._load_files)
        return self._known

    def _load_files(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for session_id, last in self._lineage:
            condition = f"chunk = {_CHUNK} AND SUBSTR(call_id, 1, {len(_NAME)}) = ?"
            rows = list_sound_rows(self._database, "outputs", session_id, ("body",), condition, (_NAME,))
            numbered = sorted((int(name.removeprefix(_NAME)), bytes(body)) for name, _, body in rows)
            for n, body in numbered:
                head, _, content = body.partition(b"\n")
                entry = json.loads(head)
                if session_id == self._writer.session_id:
                    self._next_n = max(self._next_n, n + 1)
                if last is None or entry["seq"] < last:
                    found[entry["path"]] = content
        return found
