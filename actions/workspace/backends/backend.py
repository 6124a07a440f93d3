"""What a place for files has to offer, so that the file tools work there as they do in a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

MAX_FILE_BYTES = 256_000
"""What one file of a back end may take."""
MAX_FILES = 1000
"""How many files a back end may hold."""


class FileBackend(Protocol):
    """Keeps files by path, such as `/notes/today.md`; one file is enough to write another one.

    Every method may raise `sandbur.SandburError`; what else it raises is shown to the model as a failure.
    """

    async def files(self) -> Mapping[str, int]:
        """Return the size of each file in bytes, by path."""
        ...

    async def read(self, path: str) -> bytes | None:
        """Return a content; None if there is no such file."""
        ...

    async def write(self, path: str, content: bytes, expected: str | None) -> bool:
        """Write a file, whole or not at all, unless it has changed; once this returned, it is kept.

        `expected` is the SHA-256 of what it replaces, in hexadecimal; None: there is no such file. False:
        something else is there, and nothing was written. The comparison and the write are one step.
        """
        ...


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What a session lends to the back ends of its tools."""

    session: FileBackend
    store: FileBackend


@runtime_checkable
class OfSession(Protocol):
    """A back end that is another one in every session."""

    def of_session(self, kept: KeptFiles) -> FileBackend:
        """Return the one for a session."""
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
    """Files that belong to the session: they survive a crash, go with a fork and an export, and end with it.

    A fork has them as they were at its step.
    """

    def of_session(self, kept: KeptFiles) -> FileBackend:
        return kept.session


class StoreFiles(_Unbound):
    """Files that all sessions of a store, and there of a tenant, share; they outlive every session.

    They are not part of an export, and no fork or rewind brings them back.
    """

    def of_session(self, kept: KeptFiles) -> FileBackend:
        return kept.store


class WorkspaceFolder:
    """The folder of the session itself: the tools that ship are its tools, just as they are."""
