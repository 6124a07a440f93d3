"""The parameters with which a supervisor starts a command in a sandbox."""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import field

from .....state.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """The parameters for one command in a sandbox."""

    words: tuple[str, ...] = ()
    """The words in front of the command."""
    orders: int = -1
    """The descriptor of an open file with orders for the supervisor's child; -1 if there is none."""
    descriptors: tuple[int, ...] = ()
    """The open files that the supervisor gets."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SANDBOX = Launch()


def spell(steps: Iterable[tuple[str, str]]) -> bytes:
    """Return orders in the format that the child of a supervisor reads."""
    return b"".join(os.fsencode(word) + b"\0" for step in steps for word in step)


@contextmanager
def open_file(content: bytes) -> Generator[int]:
    """Yield the descriptor of a file that has no name and can be read once."""
    descriptor = os.memfd_create("sandbox")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
