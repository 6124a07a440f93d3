"""The file changes by the calls of a session, and the contents before each change."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from ...calls import FileChange
from ...databases.chain import Entry, find_next_number, list_sound_rows
from ...databases.database import Database, Statement
from . import contents


class RecordedChange(NamedTuple):
    """A file change with its step and its call."""

    seq: int
    """The newest committed step at the time of the change. The change belongs to the next step."""
    call_id: str
    change: FileChange


class FileHistory:
    """The file changes of one session, in the order in which they were recorded."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._next_n: int | None = None

    def make_entries(self, call_id: str, changes: Sequence[FileChange], seq: int) -> list[Entry]:
        """Return the rows for `changes`. `seq` is the newest committed step."""
        if self._next_n is None:
            self._next_n = find_next_number(self._database, "files", self._session_id)
        first, self._next_n = self._next_n, self._next_n + len(changes)
        return [
            Entry("files", (n, seq, call_id, change.path, change.model_dump_json(exclude={"path"})))
            for n, change in enumerate(changes, first)
        ]

    def insert_contents(self, pre_images: Mapping[str, bytes]) -> list[Statement]:
        """Return the statements that store the contents that are not stored yet."""
        return [
            statement
            for digest, content in pre_images.items()
            for statement in contents.insert_content(self._session_id, digest, content)
        ]

    def load_changes(self, call_id: str) -> list[FileChange]:
        """Return the changes by a call. If it was started several times, return the newest change of each
        path.
        """
        rows = self._database.query(
            "SELECT path, body FROM files WHERE session_id = ? AND call_id = ? ORDER BY n",
            (self._session_id, call_id),
        )
        return list({path: _parse_change(path, body) for path, body in rows}.values())

    def list_changes(self, seq: int = -1, last: int | None = None) -> list[RecordedChange]:
        """Return the changes that were recorded after step `seq` was committed and before step `last` was."""
        columns, values = ("seq", "call_id", "path", "body"), (seq, 2**62 if last is None else last)
        rows = list_sound_rows(
            self._database, "files", self._session_id, columns, "seq >= ? AND seq < ?", values
        )
        return [
            RecordedChange(int(at), call_id, _parse_change(path, body)) for _, at, call_id, path, body in rows
        ]

    def read_content(self, digest: str) -> bytes | None:
        """Return a stored content, or None if it is missing or damaged."""
        return contents.read_content(self._database, digest)


class LineageFiles:
    """The file changes of a session and its ancestors. The changes of an ancestor count up to the fork."""

    def __init__(self, database: Database, lineage: Sequence[tuple[str, int | None]]) -> None:
        """`lineage` is oldest first. It names each session with its last step that counts (None: all steps
        count).
        """
        self._histories = [(FileHistory(database, session_id), last) for session_id, last in lineage]

    def list_changes(self, seq: int = -1) -> list[RecordedChange]:
        """Return the changes on the disk from step `seq` on, the oldest first."""
        return [found for found in self._list_recorded(seq) if not found.change.is_virtual]

    def list_virtual_changes(self, seq: int = -1) -> list[RecordedChange]:
        """Return the changes in back ends and in memory from step `seq` on, the oldest first."""
        return [found for found in self._list_recorded(seq) if found.change.is_virtual]

    def _list_recorded(self, seq: int) -> Iterator[RecordedChange]:
        return (found for history, last in self._histories for found in history.list_changes(seq, last))

    def read_content(self, digest: str) -> bytes | None:
        return self._histories[-1][0].read_content(digest)


_UNREADABLE = "unreadable"
"""In place of a digest; no file has it."""


def _parse_change(path: str, body: str) -> FileChange:
    """Return a stored change; one that cannot be read fits no file, so that nothing is concluded from it."""
    try:
        return FileChange.model_validate_json(f'{{"path":"",{body[1:]}').model_copy(update={"path": path})
    except ValidationError:
        return FileChange(
            path=path, before=_UNREADABLE, before_mode=None, after=_UNREADABLE, is_restorable=False
        )
