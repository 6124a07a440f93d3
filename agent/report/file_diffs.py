"""What a call changed in files, as diffs, as far as the contents of then are known."""

import hashlib
from collections.abc import Callable, Sequence
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from agent.report.account import FileDiff
from state.files import FileChange

_MAX_BYTES = 400_000
"""Of a content that is compared."""

ContentOf = Callable[[str], bytes | None]


class Contents:
    """Finds a content by its digest: stored, written by a call, or still in the workspace."""

    def __init__(self, stored: ContentOf) -> None:
        self._stored = stored
        self._written: dict[str, str] = {}
        self._places: dict[str, str] = {}

    def wrote(self, content: str) -> None:
        """Note what a call wrote: nothing else may have kept it."""
        if len(content) <= _MAX_BYTES:
            self._written[hashlib.sha256(content.encode()).hexdigest()] = content

    def is_at(self, digest: str | None, path: str) -> None:
        """Note where a content was last."""
        if digest is not None:
            self._places[digest] = path

    def find(self, digest: str) -> bytes | None:
        if digest in self._written:
            return self._written[digest].encode()
        found = self._stored(digest)
        return found if found is not None else self._in_workspace(digest)

    def _in_workspace(self, digest: str) -> bytes | None:
        path = Path(self._places.get(digest, ""))
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                return None
            content = path.read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None


def file_diff(change: FileChange, contents: Contents, most_lines: int) -> FileDiff:
    """Return the difference that a call made to a file."""
    kind = "changed"
    if change.before_mode is None:
        kind = "created"
    elif change.after is None and change.after_mode is None:
        kind = "deleted"
    elif change.before == change.after:
        kind = "touched"
    if not change.is_restorable:
        return FileDiff(change.path, kind, (), note="what it held before is not known")
    before = _lines(change.before, contents)
    after = _lines(change.after, contents)
    if before is None or after is None:
        which = "before" if before is None else "after"
        return FileDiff(change.path, kind, (), note=f"what it held {which} is not kept, or is no text")
    return _compared(change, kind, before, after, most_lines)


def _compared(
    change: FileChange, kind: str, before: Sequence[str], after: Sequence[str], most_lines: int
) -> FileDiff:
    difference = islice(unified_diff(before, after, lineterm="", n=3), 2, None)
    lines = tuple(difference)
    note = "" if lines or kind in ("created", "deleted") else "its content stayed as it was"
    shown = lines[:most_lines]
    return FileDiff(change.path, kind, shown, len(lines) - len(shown), note)  # pyright: ignore[reportArgumentType]


def _lines(digest: str | None, contents: Contents) -> list[str] | None:
    """Return the lines of a content; none for no file, None for one that is not known or no text."""
    if digest is None:
        return []
    content = contents.find(digest)
    if content is None or len(content) > _MAX_BYTES or b"\0" in content:
        return None
    try:
        return content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
