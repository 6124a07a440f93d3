"""The interface between the file tools and the files, which are on the disk or in another back end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from os import stat_result
from pathlib import Path
from typing import Literal, Protocol

from ....state.calls import FileChange
from ....state.lazy_dataclass import dataclass
from ...ports import Prepared, ToolContext, ToolOutcome, Verified
from ...workspace.backends.backend import KeptFiles
from ...workspace.paths import FileProblem
from ...workspace.text import FileText

Access = Literal["names", "content", "tree", "write"]
"""The access that a call needs. `names`: the names of files. `content`: the named file. `tree`: all files
below the path. `write`: writing the named file.
"""


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """The replacement of the content of a file."""

    target: Path
    """The real path of the file."""
    name: str
    """The path in messages."""
    old: FileText | None
    """The old file; None for a new file."""
    content: bytes
    report: Callable[[stat_result | None], str]
    """Returns the text for the model from the status of the replaced file, or from None for a file that is
    not on disk.
    """
    is_complete: bool = False
    """Whether the new content does not depend on the old one, so that a change that the model has not read
    would be lost.
    """


class FileWrite(Protocol):
    """A recorded write that is ready to run. It is `Prepared.work` of the tools that write."""

    async def write(self) -> ToolOutcome:
        """Write exactly the planned bytes, unless the file has changed since the plan."""
        ...


class FileView(Protocol):
    """The files of one call as real files. A tool opens them within the scope of the context."""

    @property
    def path(self) -> Path:
        """Return the absolute path that the call names. Links in it are not resolved."""
        ...

    @property
    def context(self) -> ToolContext:
        """Return the context of the call. Its `cwd` and `reach` are those of these files."""
        ...

    def translate(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return an outcome with the paths in the form that the model knows."""
        ...

    def resolve_secrets(self, texts: Mapping[str, str]) -> Mapping[str, str]:
        """Return the texts to write, by argument, with or without secrets as these files require. Raises
        `FileProblem`.
        """
        ...

    def record(self, planned: PlannedWrite) -> Prepared:
        """Return a planned write in its recorded form. Raises `FileProblem` if the write is not possible."""
        ...


class FileSystem(Protocol):
    """The files that a tool works on."""

    @property
    def description(self) -> str:
        """Return one sentence for the model about the paths; empty if there is nothing to explain."""
        ...

    @property
    def is_kept_by_session(self) -> bool:
        """Return whether the files belong to a session, so that `of_session` must be called."""
        ...

    def of_session(self, kept: KeptFiles) -> FileSystem:
        """Return the files of a session."""
        ...

    def is_virtual(self, path: str) -> bool:
        """Return whether a path in a call is virtual, which means that it is not on the disk."""
        ...

    def find_disk_path(self, path: str) -> str:
        """Return the path on the disk that a path in a call means, by default the path itself."""
        ...

    def name_subject(self, path: str) -> str:
        """Return the text that rules match against for a path that is another one on the disk, or none."""
        ...

    def open(self, path: str, access: Access, context: ToolContext) -> AbstractAsyncContextManager[FileView]:
        """Provide the files that a call with this path needs. Raises `FileProblem`."""
        ...

    async def verify(self, changes: Sequence[FileChange]) -> Verified:
        """Determine from the files whether a recorded write happened."""
        ...


def require_read_version(
    planned: PlannedWrite, change: FileChange, known: Mapping[str, str] | None, *also: str
) -> None:
    """Raise `FileProblem` if the model last read another version than the one that it would replace
    completely.

    `known` contains the versions that the model knows, `also` contains further names of the replaced version.
    """
    if not planned.is_complete or known is None or change.before in (None, change.after):
        return
    if known.get(change.path) not in (None, change.before, *also):
        raise FileProblem(explain_change(planned.name))


def explain_change(name: str) -> str:
    return f"{name} has changed since you read it: nothing was written. Read it again."
