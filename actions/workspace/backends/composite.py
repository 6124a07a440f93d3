"""Finds the back end for a path, and the path inside the back end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ....state.conversation.messages import encodable
from ....state.errors import UsageError
from ..paths import FileProblem, format_path
from .backend import FileBackend, KeptFiles, OfSession, WorkspaceFolder

MAX_PATH_CHARS = 1000
_MAX_NAME_BYTES = 255


class FilePlace(NamedTuple):
    """A path and its back end."""

    backend: FileBackend
    prefix: str
    """The common start of all paths of the back end, without the last slash; empty if it has every path."""
    path: str
    """The whole path: `prefix` and the path inside the back end."""

    @property
    def inner(self) -> str:
        return self.path[len(self.prefix) :] or "/"


class Composite:
    """Several back ends as one. A path belongs to the longest prefix that it begins with.

    Args:
        prefixes: Maps a prefix to its back end, as in `{"/memories/": StoreFiles()}`. The back end gets paths
            without the prefix.
        default: The back end of all other paths.

    Raises `UsageError` for a prefix that is not valid.
    """

    def __init__(
        self,
        prefixes: Mapping[str, FileBackend],
        default: FileBackend | WorkspaceFolder | None = None,
    ) -> None:
        self._default = WorkspaceFolder() if default is None else default
        known = {_check_prefix(prefix): backend for prefix, backend in prefixes.items()}
        if len(known) < len(prefixes):
            raise UsageError("Two prefixes of files are the same.", "Leave one of them out.")
        self._prefixes = dict(sorted(known.items(), key=lambda item: -len(item[0])))

    @classmethod
    def of(cls, backend: FileBackend | WorkspaceFolder | Composite) -> Composite:
        return backend if isinstance(backend, Composite) else cls({}, backend)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the prefixes outside of the working folder; empty if every path is in the folder."""
        found = tuple(f"{prefix}/" for prefix in self._prefixes)
        return found if isinstance(self._default, WorkspaceFolder) else ("/", *found)

    def of_session(self, kept: KeptFiles) -> Composite:
        """Return a copy that is bound to the back ends of a session."""
        bound = {prefix: _bind(backend, kept) for prefix, backend in self._prefixes.items()}
        default = self._default
        return Composite(bound, default if isinstance(default, WorkspaceFolder) else _bind(default, kept))

    def has(self, path: str) -> bool:
        """Return whether a path, as it is written, is outside of the working folder."""
        if not isinstance(self._default, WorkspaceFolder):
            return True
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in self._prefixes)

    def place(self, path: str) -> FilePlace:
        """Return the back end of a path. Raises `FileProblem` if no back end takes the path. See `has`."""
        path = normalize_path(path)
        for prefix, backend in self._prefixes.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                return FilePlace(backend, prefix, path)
        if isinstance(self._default, WorkspaceFolder):
            raise FileProblem(f"{format_path(path)} belongs to no back end of files.")
        return FilePlace(self._default, "", path)


def normalize_path(path: str) -> str:
    """Return the normal form of a path: absolute, without `.` and doubled slashes. Raises `FileProblem` if it
    has none.
    """
    if len(path) > MAX_PATH_CHARS:
        raise FileProblem(f"A path of {len(path):,} characters is too long; the limit is {MAX_PATH_CHARS:,}.")
    if encodable(path) != path or not path.isprintable():
        raise FileProblem(
            f"{format_path(encodable(path))} has characters that a path here may not have. Use others."
        )
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise FileProblem(
            f"{format_path(path)} contains `..`, which is not possible here. Write the whole path."
        )
    if any(len(name.encode()) > _MAX_NAME_BYTES for name in names):
        raise FileProblem(
            f"{format_path(path)[:80]}... has a name of over {_MAX_NAME_BYTES} bytes. Use a shorter one."
        )
    return "/" + "/".join(names)


def _check_prefix(prefix: str) -> str:
    try:
        plain = normalize_path(prefix)
    except FileProblem as problem:
        raise UsageError(f"A prefix of files cannot be used: {problem}") from None
    if not prefix.startswith("/") or plain == "/":
        raise UsageError(f"{prefix!r} cannot be a prefix of files.", "Write a prefix such as /memories/.")
    return plain


def _bind(backend: FileBackend, kept: KeptFiles) -> FileBackend:
    return backend.of_session(kept) if isinstance(backend, OfSession) else backend
