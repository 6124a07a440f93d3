"""The interface of a file back end, so that the file tools work there as they do in a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

MAX_FILE_BYTES = 256_000
"""Largest size of one file of a back end."""
MAX_FILES = 1000
"""Largest number of files of a back end."""


class FileBackend(Protocol):
    """Keeps files by path, such as `/notes/today.md`; folders need not be created.

    Every method may raise `sandbur.SandburError`; other exceptions are displayed to the model as a failure.
    """

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        ...

    async def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""
        ...

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Write a complete file, unless it has changed; the file is durable when this returns.

        `expected` is the SHA-256 of the content to replace, in hexadecimal; None means that there must be
        no file. Return False if the content is another one: nothing was written then. The comparison and
        the write are one atomic step.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The back ends that a session gives to its tools."""

    session: FileBackend
    store: FileBackend


@runtime_checkable
class OfSession(Protocol):
    """A back end that is a different one in every session."""

    def of_session(self, kept: KeptFiles) -> FileBackend:
        """Return the back end for a session."""
        ...


class _Unbound:
    """A back end outside of any session."""

    async def files(self) -> Mapping[str, int]:
        raise self._problem()

    async def read(self, path: str) -> bytes | None:
        raise self._problem()

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        raise self._problem()

    def _problem(self) -> Exception:
        return RuntimeError(f"{type(self).__name__} has files only within a session of an agent")


class SessionMemory(_Unbound):
    """Files that belong to the session: they survive a crash, are part of forks and exports, and end with it.

    A fork has the files as they were at its step.
    """

    def of_session(self, kept: KeptFiles) -> FileBackend:
        return kept.session


class StoreFiles(_Unbound):
    """Files that all sessions of a tenant in a store share; they outlive every session.

    They are not part of an export, and a fork or a rewind does not restore them.
    """

    def of_session(self, kept: KeptFiles) -> FileBackend:
        return kept.store


class WorkspaceFolder:
    """The working folder of the session: the normal file tools work on it."""
