"""Searches files for a regular expression in a process of its own, which can be killed when it is slow.

Standard input: one line of JSON (`pattern`, `limit`), then the paths, separated by NUL.
Standard output: one line of JSON per file that has matches: path index, count, and of the first matching
lines the number, the beginning (its bytes as Latin-1) and the length.
"""

import codecs
import io
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterator
from typing import BinaryIO, cast

_SAMPLE_BYTES = 65_536
_KEPT_LINE_BYTES = 8192
_NO_TEXT = "no-text"
_LONGEST_LINE_BYTES = 8 << 20
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, ""))
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

Line = tuple[int, str, int]


def main() -> None:
    header, _, rest = sys.stdin.buffer.read().partition(b"\n")
    options = json.loads(header)
    warnings.simplefilter("ignore")
    # As for ripgrep, bytes that are no UTF-8 are no characters: a line break is what `.` does not match.
    codecs.register_error(_NO_TEXT, _line_break)
    expression = re.compile(options["pattern"])
    room: int = options["limit"]
    output = os.fdopen(1, "wb")
    for index, path in enumerate(rest.split(b"\0")):
        count, lines = _search(path, expression, room)
        if count:
            room -= len(lines)
            output.write(json.dumps([index, count, lines]).encode() + b"\n")
            output.flush()


def _line_break(error: UnicodeError) -> tuple[str, int]:
    return "\n", cast(UnicodeDecodeError, error).end


def _search(path: bytes, expression: "re.Pattern[str]", room: int) -> tuple[int, list[Line]]:
    """Return how many lines match, and the first of them."""
    count, lines = 0, list[Line]()
    try:
        for number, line in enumerate(_lines(path), 1):
            if expression.search(line.decode("utf-8", _NO_TEXT)):
                count += 1
                if len(lines) < room:
                    lines.append((number, line[:_KEPT_LINE_BYTES].decode("latin-1"), len(line)))
    except OSError:
        pass
    return count, lines


def _lines(path: bytes) -> Iterator[bytes]:
    """Yield the lines of a text file as UTF-8 without their ends; nothing for a binary file."""
    descriptor = _opened(path)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        sample = file.read(_SAMPLE_BYTES)
        mark, encoding = next(((m, e) for m, e in _MARKS if sample.startswith(m)), (b"", ""))
        if b"\0" in sample and not encoding:
            return
        file.seek(0 if encoding else len(mark))
        source = _as_utf8(file, encoding) if encoding else file
        while line := source.readline(_LONGEST_LINE_BYTES):
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def _opened(path: bytes) -> int:
    """Open a file below the working folder; a link on the way was put there after the file was listed."""
    *folders, name = path.split(b"/")
    here = os.open(b".", _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=here)
    finally:
        os.close(here)


def _as_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    return io.BytesIO(file.read().decode(encoding, "replace").encode())


if __name__ == "__main__":
    main()
