"""A console that has the size of its window on every terminal."""

import os
from contextlib import suppress

from rich.console import Console, ConsoleDimensions


class SizedConsole(Console):
    """A console with the size of its window; rich takes any window of a dumb terminal for 80 columns."""

    @property
    def size(self) -> ConsoleDimensions:
        if self.is_dumb_terminal:
            with suppress(OSError, ValueError):
                columns, rows = os.get_terminal_size(self.file.fileno())
                if columns > 0 and rows > 0:
                    return ConsoleDimensions(columns, rows)
        return super().size

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self.width, self.height = new_size
