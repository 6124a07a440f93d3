"""The file with a server's standard error, and the last line in it."""

from pathlib import Path

from ..text import one_line

_MOST_TAIL_BYTES = 4096


class ErrorLog:
    """The log file of one server. The server's keeper writes the file and limits its size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began = 0

    def open_file(self) -> Path:
        """Make the folder of the log file and return the file's path, for a keeper that starts now."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._began = self.path.stat().st_size if self.path.exists() else 0
        return self.path

    def last_words(self) -> str:
        """Return `; it wrote: ...` with the server's last line, or an empty text without one."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                begin = self._began if self._began <= size else 0
                file.seek(max(begin, size - _MOST_TAIL_BYTES))
                lines = file.read(_MOST_TAIL_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return ""
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        return f"; it wrote: {one_line(last_line)}" if last_line else ""
