"""The files in the memory of one session. They are written in its transactions, and belong to its forks and
exports.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from ...conversation.messages import parse_json_object
from ...databases.chain import Entry, list_sound_rows
from ...databases.database import Database
from ..writer import SessionWriter

_CHUNK = -1
"""The chunk number of rows in `outputs` that contain such a file. Outputs of calls have no chunk below 0."""
_NAME = "memory:"
"""The start of the key of such a row in `outputs`. A number follows."""


class SessionFiles:
    """The files that were written by the calls of a session, and by those of its ancestors before the fork.

    A write is committed in the same transaction as the result of its call.
    """

    def __init__(
        self, database: Database, writer: SessionWriter, lineage: Sequence[tuple[str, int | None]]
    ) -> None:
        """`lineage` is oldest first. It names each session with its last step that counts (None: all steps
        count).
        """
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
        """Replace the content with the SHA-256 `expected` (None: there is no file). Return False if the file
        has another content.
        """
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
            named = ((name.removeprefix(_NAME), bytes(body)) for name, _, body in rows)
            numbered = sorted((int(number), body) for number, body in named if number.isdecimal())
            for n, body in numbered:
                head, _, content = body.partition(b"\n")
                entry = parse_json_object(head.decode("utf-8", "replace")) or {}
                if session_id == self._writer.session_id:
                    self._next_n = max(self._next_n, n + 1)
                path, seq = entry.get("path"), entry.get("seq")
                if isinstance(path, str) and isinstance(seq, int) and (last is None or seq < last):
                    found[path] = content
        return found
