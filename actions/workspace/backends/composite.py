"""Finds the back end for a path, and the path inside the back end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from ....state.conversation.messages import encodable
from ....state.errors import UsageError
from ..paths import FileProblem, format_path
from .backend import FileBackend, KeptFiles, SessionMemory, StoreFiles, WorkspaceFolder

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


class _FoundPlace(NamedTuple):
    """What a path belongs to: a back end, or the working folder."""

    backend: FileBackend | WorkspaceFolder
    prefix: str
    path: str


class BackendTable:
    """Several back ends by prefix, of which the longest one counts. The prefix of all others is empty."""

    def __init__(self, backends: Mapping[str, FileBackend | WorkspaceFolder]) -> None:
        self.backends = backends
        """The back end of each prefix, which has no slash at its end."""
        self._default = backends[""]
        longest = sorted(backends.items(), key=lambda item: -len(item[0]))
        self._prefixes = {prefix: backend for prefix, backend in longest if prefix}

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Return the prefixes; empty if every path is one of the working folder."""
        found = tuple(f"{prefix}/" for prefix in self._prefixes)
        return found if isinstance(self._default, WorkspaceFolder) else ("/", *found)

    @property
    def folder_prefixes(self) -> tuple[str, ...]:
        """Return the prefixes whose files are in the working folder."""
        found = self._prefixes.items()
        return tuple(f"{prefix}/" for prefix, backend in found if isinstance(backend, WorkspaceFolder))

    def of_session(self, kept: KeptFiles) -> BackendTable:
        """Return a table that is bound to the back ends of a session."""
        return BackendTable({prefix: _bind(backend, kept) for prefix, backend in self.backends.items()})

    def has(self, path: str) -> bool:
        """Return whether a path, as it is written, is outside of the working folder."""
        try:
            return not isinstance(self._find(path).backend, WorkspaceFolder)
        except FileProblem:
            return True

    def place(self, path: str) -> FilePlace:
        """Return the back end of a path. Raises `FileProblem` if no back end takes the path. See `has`."""
        found = self._find(path)
        if isinstance(found.backend, WorkspaceFolder):
            raise FileProblem(f"{format_path(path)} belongs to no back end of files.")
        return FilePlace(found.backend, found.prefix, found.path)

    def find_folder_path(self, path: str) -> tuple[str, str] | None:
        """Return the prefix and the normal form of a path below a prefix of the working folder, else None."""
        try:
            found = self._find(path)
        except FileProblem:
            return None
        is_folder = isinstance(found.backend, WorkspaceFolder) and found.prefix
        return (found.prefix, found.path) if is_folder else None

    def _find(self, path: str) -> _FoundPlace:
        is_own = not isinstance(self._default, WorkspaceFolder)
        if not is_own and not any(_is_below(path, prefix) for prefix in self._prefixes):
            return _FoundPlace(self._default, "", path)
        path = normalize_path(path)
        for prefix, backend in self._prefixes.items():
            if _is_below(path, prefix):
                return _FoundPlace(backend, prefix, path)
        return _FoundPlace(self._default, "", path)


class Composite:
    """Several back ends as one. A path belongs to the longest prefix that it begins with.

    Args:
        prefixes: Maps a prefix to its back end, as in `{"/memories/": StoreFiles()}`. The back end gets paths
            without the prefix. The paths of a `WorkspaceFolder` are those in the working folder.
        default: The back end of all other paths.

    Raises `UsageError` for a prefix that is not valid, and for a value that is no back end.
    """

    def __init__(
        self,
        prefixes: Mapping[str, FileBackend | WorkspaceFolder | Composite],
        default: FileBackend | WorkspaceFolder | Composite | None = None,
    ) -> None:
        named = [("", WorkspaceFolder() if default is None else default)]
        named += [(_check_prefix(prefix), backend) for prefix, backend in prefixes.items()]
        known: dict[str, FileBackend | WorkspaceFolder] = {}
        for prefix, backend in named:
            for below, one in _split_composite(backend, prefix).items():
                if below in known:
                    raise UsageError("Two prefixes of files are the same.", "Leave one of them out.")
                known[below] = _require_backend(one)
        self._table = BackendTable(known)


def open_table(backend: FileBackend | WorkspaceFolder | Composite) -> BackendTable:
    """Return what finds the back end of a path; a single back end has every path."""
    composite = backend if isinstance(backend, Composite) else Composite({}, backend)
    return composite._table  # pyright: ignore[reportPrivateUsage]


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


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


def _split_composite(
    backend: FileBackend | WorkspaceFolder | Composite, prefix: str
) -> dict[str, FileBackend | WorkspaceFolder]:
    """Return the back ends below a prefix: those of a composite have longer prefixes."""
    if not isinstance(backend, Composite):
        return {prefix: backend}
    return {f"{prefix}{below}": one for below, one in open_table(backend).backends.items()}


def _require_backend(backend: FileBackend | WorkspaceFolder) -> FileBackend | WorkspaceFolder:
    """Return the back end. Raises `UsageError` if the value is none."""
    given = cast(object, backend)
    if isinstance(given, type):
        raise UsageError(
            f"{given.__name__} is a class, not a back end of files.", f"Write {given.__name__}()."
        )
    if isinstance(given, WorkspaceFolder):
        return given
    missing = [name for name in ("files", "read", "write") if not callable(getattr(given, name, None))]
    if missing:
        raise UsageError(
            f"A {type(given).__name__} is no back end of files: it has no method `{missing[0]}`.",
            "See docs/files.md for the three methods.",
        )
    return backend


def _bind(backend: FileBackend | WorkspaceFolder, kept: KeptFiles) -> FileBackend | WorkspaceFolder:
    if isinstance(backend, SessionMemory):
        return kept.session
    return kept.store if isinstance(backend, StoreFiles) else backend
