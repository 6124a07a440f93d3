"""Server-sent events out of bytes that come in pieces of any size."""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    name: str
    data: str


class EventParser:
    """Takes CR, LF and CRLF, comments, any cut between two pieces, and bytes that are no UTF-8."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        """The unfinished line."""
        self._name = ""
        self._data: list[str] = []
        self._is_first_line = True

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Return the events that are whole now."""
        was_cr = bool(self._pieces) and self._pieces[-1].endswith(b"\r")
        self._pieces.append(piece)
        if not was_cr and b"\n" not in piece and b"\r" not in piece:
            return []
        lines = b"".join(self._pieces).splitlines(keepends=True)
        # A CR at the very end may be half of a CRLF: the next piece tells.
        self._pieces = [lines.pop()] if lines and not lines[-1].endswith(b"\n") else []
        return [event for line in lines if (event := self._take(line))]

    def end(self) -> list[ServerEvent]:
        """Return what a server left without its closing empty line."""
        lines = [*b"".join(self._pieces).splitlines(), b""]
        self._pieces = []
        return [event for line in lines if (event := self._take(line))]

    def _take(self, line: bytes) -> ServerEvent | None:
        line = line.rstrip(b"\r\n")
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, "\n".join(data)) if data else None
