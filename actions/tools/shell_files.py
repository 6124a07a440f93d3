"""What a shell command did to the files of the workspace, also if its agent died meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from actions.ports import Changed, ToolContext
from actions.tools.snapshot import Snapshot
from state.files import FileChange

_RECORD = "files.json"


@dataclass(frozen=True, slots=True)
class FilesBefore:
    """The files as they were before the command."""

    note: str = ""
    """What cannot be undone, in a sentence; empty if all can."""
    snapshot: Snapshot | None = None

    def compare(self) -> Changed:
        """Return what is different now. Takes a while."""
        return _changed(self.snapshot.changes) if self.snapshot is not None else Changed()


def look(context: ToolContext, folder: Path) -> FilesBefore:
    """Look at the workspace, and leave in the call's folder what another process needs. Takes a while."""
    if context.cache is None:
        return FilesBefore()
    try:
        left_out = (*context.private, folder)
        snapshot = Snapshot.take(context.cwd, context.cache, folder / _RECORD, left_out)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return FilesBefore(f"Changes of files cannot be undone: they cannot be recorded ({why}).")
    return FilesBefore(snapshot.note, snapshot)


def left(context: ToolContext, folder: Path) -> Changed:
    """Return what a command did whose agent looked before it, and died. Takes a while."""
    snapshot = None if context.cache is None else Snapshot.load(folder / _RECORD, context.cache)
    return Changed() if snapshot is None else _changed(snapshot.changes)


def _changed(compare: Callable[[], tuple[tuple[FileChange, ...], dict[str, bytes]]]) -> Changed:
    try:
        return Changed(*compare())
    except OSError:
        # The workspace is gone, or may not be entered any more.
        return Changed()
