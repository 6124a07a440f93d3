"""The one interface between the file tools and the files: those on the disk, or those of other back ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from os import stat_result
from pathlib import Path
from typing import Literal, Protocol

from ....state.calls import FileChange
from ...ports import Prepared, ToolContext, ToolOutcome, Verified
from ...workspace.backends.backend import KeptFiles
from ...workspace.paths import FileProblem
from ...workspace.text import FileText

Access = Literal["names", "content", "tree", "write"]
"""What a call needs: the names of files, the named file, all files below the path, or to write the file."""


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The replacement of a file by new content."""

    target: Path
    """The real path."""
    name: str
    """The path for messages."""
    old: FileText | None
    """None: a new file."""
    content: bytes
    report: Callable[[stat_result | None], str]
    """Returns the text for the model from the status of the replaced file, if it is on the disk."""
    is_complete: bool = False
    """The new content does not depend on the old one, so that an unread change would be lost."""


class FileWrite(Protocol):
    """A recorded write, ready to happen: `Prepared.work` of the tools that write."""

    async def write(self) -> ToolOutcome:
        """Write exactly the planned bytes, unless the file has changed since."""
        ...


class FileView(Protocol):
    """The files of one call as real files, which a tool opens within the scope of the context."""

    @property
    def path(self) -> Path:
        """The absolute path that the call names; links in it are not resolved."""
        ...

    @property
    def context(self) -> ToolContext:
        """The context of the call; `cwd` and `reach` are those of these files."""
        ...

    def translate(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return an outcome with the paths that the model knows."""
        ...

    def resolve_secrets(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return texts to write, by argument, as the files may hold them; raises `FileProblem`."""
        ...

    def record(self, planned: PlannedWrite) -> Prepared:
        """Return a planned write in the form that is recorded; raises `FileProblem`."""
        ...


class FileSystem(Protocol):
    """The files that a tool works on."""

    @property
    def description(self) -> str:
        """One sentence for the model about the paths; empty if there is nothing to explain."""
        ...

    @property
    def is_kept_by_session(self) -> bool:
        """True if a session has to bind it, see `of_session`."""
        ...

    def of_session(self, kept: KeptFiles) -> FileSystem:
        """Return the files of a session."""
        ...

    def is_virtual(self, path: str) -> bool:
        """Return whether a path, as a call writes it, is not on the disk."""
        ...

    def name_subject(self, path: str) -> str:
        """Return what rules match against for a virtual path."""
        ...

    def open(self, path: str, access: Access, context: ToolContext) -> AbstractAsyncContextManager[FileView]:
        """Provide the files that a call with this path needs; raises `FileProblem`."""
        ...

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Determine from the files whether a recorded write happened."""
        ...


def require_read_version(
    planned: PlannedWrite, change: FileChange, known: Mapping[str, str] | None, *also: str
) -> None:
    """Raise `FileProblem` if the model has read another version than the one that it replaces completely.

    `known` has the versions that the model knows; `also` has further names of the replaced version.
    """
    if not planned.is_complete or known is None or change.before in (None, change.after):
        return
    if known.get(change.path) not in (None, change.before, *also):
        raise FileProblem(explain_change(planned.name))


def explain_change(name: str) -> str:
    return f"{name} has changed since you read it: nothing was written. Read it again."
