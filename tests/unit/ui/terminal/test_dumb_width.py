"""Without redrawing, too, an answer has the width of its window."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator

import pytest

from sandbur.ui.terminal.terminal import make_console


@pytest.fixture
def window() -> Iterator[int]:
    near, far = pty.openpty()
    yield far
    os.close(near)
    os.close(far)


def resize(window: int, columns: int) -> None:
    fcntl.ioctl(window, termios.TIOCSWINSZ, struct.pack("HHHH", 33, columns, 0, 0))


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_console_that_cannot_redraw_has_the_size_of_its_window(
    window: int, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    with open(window, "w", closefd=False) as file:
        console = make_console(file)
        for columns in (40, 60, 120):
            resize(window, columns)
            assert (console.width, console.height) == (columns, 33)
