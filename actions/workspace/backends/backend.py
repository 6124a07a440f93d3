"""The interface of a file back end, with which the file tools work as in a folder."""

from collections.abc import Mapping
from typing import Protocol

from ....state.lazy_dataclass import dataclass

MAX_FILE_BYTES = 256_000
"""The largest size of one file in a back end, in bytes."""
MAX_FILES = 1000
"""The largest number of files in a back end."""


class FileBackend(Protocol):
    """Stores files by path, such as `/notes/today.md`. Folders need not be created.

    Every method may raise `sandbur.SandburError`. The model reads any other exception as a failure.
    """

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        ...

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if there is no such file."""
        ...

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Write a complete file, unless it has changed. The file is durable when this returns.

        `expected` is the SHA-256 of the content to replace, in hexadecimal; None means that there must be no
        file. If the content is another one, return False and write nothing. The comparison and the write are
        one atomic step.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The back ends that a session gives to its tools."""

    session: FileBackend
    store: FileBackend


class _Unbound:
    """A back end that has no session yet."""

    async def files(self) -> Mapping[str, int]:
        raise self._problem()

    async def read(self, path: str) -> bytes | None:
        raise self._problem()

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        raise self._problem()

    def _problem(self) -> Exception:
        return RuntimeError(f"{type(self).__name__} has files only in a session of an agent")


class SessionMemory(_Unbound):
    """Files that belong to the session. They survive a crash, are part of forks and exports, and end with the
    session.

    A fork has the files as they were at its step.
    """


class StoreFiles(_Unbound):
    """Files that all sessions of a tenant in a store share. They outlive every session.

    They are not part of an export, and a fork or a rewind does not restore them.
    """


class WorkspaceFolder:
    """The working folder of the session, with the normal file tools."""
