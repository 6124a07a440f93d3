"""The few lines at the bottom of the screen that change while something runs."""

from typing import TYPE_CHECKING

from ui.terminal import can_redraw

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

MAX_LINES = 24


class LiveRegion:
    """Lines that are redrawn in place. What is printed in between goes above them.

    The cursor stays visible and no thread runs, so that a killed process leaves a sane terminal.
    """

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._widths: list[int] = []
        """Cells of each line that is on the screen."""

    def draw(self, content: "RenderableType") -> None:
        if not can_redraw(self._console):
            return
        from rich.cells import cell_len
        from rich.text import Text

        lines = self._render(content)
        painted = "".join(f"{line}\n" for line in lines)
        self._console.file.write(self._erasure() + painted)
        self._console.file.flush()
        self._widths = [cell_len(Text.from_ansi(line).plain) for line in lines]

    def clear(self) -> None:
        if self._widths:
            self._console.file.write(self._erasure())
            self._console.file.flush()
            self._widths = []

    def _render(self, content: "RenderableType") -> list[str]:
        with self._console.capture() as capture:
            self._console.print(content)
        room = min(MAX_LINES, self._console.height - 2)
        return [line.rstrip() for line in capture.get().splitlines()][-room:]

    def _erasure(self) -> str:
        """Return what takes the cursor to the first line and clears from there, also after a resize."""
        if not self._widths:
            return ""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._widths)
        return f"\r\x1b[{rows}A\x1b[J"
