"""Bytes that are in a file instead of memory while they wait for the transaction that stores them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import StoreError


class OpenFile:
    """An open file. It is closed when nothing refers to it any more."""

    def __init__(self, descriptor: int) -> None:
        """Take ownership of a file descriptor."""
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def create_nameless(cls, folder: Path) -> Self:
        """Return an empty file without a name. Raises `OSError`."""
        path = folder / f"masked-{os.urandom(8).hex()}"
        file = cls(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        path.unlink()
        return file

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on, or fewer at the end of the file."""
        pieces: list[bytes] = []
        while size and (piece := os.pread(self._descriptor, size, start)):
            pieces.append(piece)
            start, size = start + len(piece), size - len(piece)
        return b"".join(pieces)


class FilePart:
    """A part of a file as the value in a row. It is read when the row is written."""

    def __init__(self, file: OpenFile, start: int, size: int) -> None:
        self._file, self._start, self._size = file, start, size

    def read(self) -> bytes:
        """Return the bytes. Raises `StoreError` if they cannot be read any more."""
        try:
            found = self._file.read(self._start, self._size)
        except OSError as error:
            raise StoreError(f"The output of a command could not be read back: {error.strerror}.") from error
        if len(found) != self._size:
            raise StoreError("The output of a command could not be read back: its file became shorter.")
        return found


def read_file_parts(parameters: Sequence[Any]) -> Sequence[Any]:
    """Return the parameters of a statement, with the bytes of each `FilePart`."""
    if FilePart not in map(type, parameters):
        return parameters
    return tuple(value.read() if isinstance(value, FilePart) else value for value in parameters)
