"""What the supervisor of a command is given to start it in a sandbox."""

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Launch:
    """What a supervisor needs to start one command in a sandbox."""

    words: tuple[str, ...] = ()
    """In front of the command."""
    orders: int = -1
    """An open file of orders to the child of the supervisor; -1: there are none."""
    descriptors: tuple[int, ...] = ()
    """Open files that go along."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SANDBOX = Launch()


def spell(steps: Iterable[tuple[str, str]]) -> bytes:
    """Return orders as the child of a supervisor reads them."""
    return b"".join(os.fsencode(word) + b"\0" for step in steps for word in step)


@contextmanager
def open_file(content: bytes) -> Generator[int]:
    """Yield a file without a name that can be read once."""
    descriptor = os.memfd_create("sandbox")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
