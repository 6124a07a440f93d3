"""Searches files for a regular expression in a separate process, which can be killed if it is slow.

Standard input: one line of JSON (`pattern`, `limit`, `block`), then the paths, separated by NUL. Standard
output: one line of JSON per file with matches. It contains the index of the path, the number of matching
lines, and the first of these lines. Each has its number, its beginning (the bytes as Latin-1) and its length
in bytes. When `limit` lines are found, the search ends after the block of `block` files.
"""

import codecs
import io
import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, BinaryIO, cast

_SAMPLE_BYTES = 65_536
_KEPT_LINE_BYTES = 8192
_NO_TEXT = "no-text"
_LONGEST_LINE_BYTES = 8 << 20
_SCANNED_BYTES = 1 << 20
_NEW_LINE = ord("\n")
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, ""))
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

# The module that `re` itself uses to parse patterns.
_parse: Any = import_module("re._parser").parse
_OPS: Any = import_module("re._constants")

Line = tuple[int, str, int]


def main() -> None:
    header, _, rest = sys.stdin.buffer.read().partition(b"\n")
    options = json.loads(header)
    warnings.simplefilter("ignore")
    # As in ripgrep, bytes that are not UTF-8 are not characters; `.` does not match a line break.
    codecs.register_error(_NO_TEXT, _line_break)
    expression = re.compile(options["pattern"])
    literal = find_required_literal(expression)
    room, block = cast(tuple[int, int], (options["limit"], options["block"]))
    output = os.fdopen(1, "wb")
    folders = OpenFolders()
    for index, path in enumerate(rest.split(b"\0")):
        if room == 0 and index % block == 0:
            break
        count, lines = _search(folders, path, expression, literal, room)
        if count:
            room -= len(lines)
            output.write(json.dumps([index, count, lines]).encode() + b"\n")
            output.flush()


def _line_break(error: UnicodeError) -> tuple[str, int]:
    return "\n", cast(UnicodeDecodeError, error).end


def find_required_literal(expression: "re.Pattern[str]") -> bytes:
    """Return the longest text, as UTF-8, that every match contains; empty if there is no such text."""
    if expression.flags & re.IGNORECASE:
        return b""
    runs: list[list[str]] = [[]]
    for op, value in _walk_sequence(_parse(expression.pattern)):
        if op is _OPS.LITERAL and value != _NEW_LINE and not 0xD800 <= value < 0xE000:
            runs[-1].append(chr(value))
        else:
            runs.append([])
    return max(("".join(run).encode() for run in runs), key=len)


def _walk_sequence(parsed: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a pattern that follow each other in every match. Groups that change no flags are
    replaced by their parts.
    """
    for op, value in parsed:
        if op is _OPS.SUBPATTERN and not value[1] and not value[2]:
            yield from _walk_sequence(value[3])
        else:
            yield op, value


def _search(
    folders: "OpenFolders", path: bytes, expression: "re.Pattern[str]", literal: bytes, room: int
) -> tuple[int, list[Line]]:
    """Return the number of matching lines, and the first of them."""
    count, lines = 0, list[Line]()
    try:
        for number, line in enumerate(_open_lines(folders.open(path), literal), 1):
            # The bytes are searched first, so that few lines must be decoded.
            if isinstance(line, bytes):
                is_match = literal in line and expression.search(line.decode("utf-8", _NO_TEXT))
            else:
                is_match = expression.search(line)
            if is_match:
                count += 1
                if len(lines) < room:
                    found = line if isinstance(line, bytes) else line.encode()
                    lines.append((number, found[:_KEPT_LINE_BYTES].decode("latin-1"), len(found)))
    except OSError:
        pass
    return count, lines


def _open_lines(descriptor: int, literal: bytes) -> Iterable[bytes | str]:
    """Return the lines of a text file without line ends, as text if that is as fast, otherwise as UTF-8.

    Return no lines for a binary file, and for a file that does not contain the literal.
    """
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return ()
        # One byte more than the size: a shorter result is the whole file.
        asked = min(status.st_size + 1, _SAMPLE_BYTES)
        sample = os.read(descriptor, asked)
        is_whole = len(sample) < asked
        if is_whole and literal not in sample and not sample.startswith(_WIDE_MARKS):
            return ()
        mark, encoding = next(((m, e) for m, e in _MARKS if sample.startswith(m)), (b"", ""))
        if not encoding and (b"\0" in sample or not (is_whole or _contains(descriptor, sample, literal))):
            return ()
        if not mark and is_whole:
            return _split(sample)
        os.lseek(descriptor, 0 if encoding else len(mark), os.SEEK_SET)
        source = os.fdopen(os.dup(descriptor), "rb")
    finally:
        os.close(descriptor)
    return _read_lines(source, encoding)


def _split(content: bytes) -> Sequence[bytes | str]:
    """Return the lines of a whole file."""
    try:
        lines = content.decode().removesuffix("\n").split("\n") if content else []
    except UnicodeDecodeError:
        return [line.removesuffix(b"\r") for line in content.removesuffix(b"\n").split(b"\n")]
    return [line.removesuffix("\r") for line in lines] if b"\r" in content else lines


def _read_lines(file: BinaryIO, encoding: str) -> Iterator[bytes]:
    with file:
        source = _convert_to_utf8(file, encoding) if encoding else file
        while line := source.readline(_LONGEST_LINE_BYTES):
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def _contains(descriptor: int, sample: bytes, literal: bytes) -> bool:
    """Return whether the literal is in the sample or in the rest of the file."""
    while literal not in sample:
        more = os.read(descriptor, _SCANNED_BYTES)
        if not more:
            return False
        sample = sample[len(sample) - len(literal) + 1 :] + more if len(literal) > 1 else more
    return True


class OpenFolders:
    """Opens files below the working folder. No link is followed: the listed files had no link in
    their paths.
    """

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._open = [os.open(b".", _FOLDER)]
        """The descriptors of the working folder and of the folders in `_names`, each below the one before.
        Most files share them.
        """

    def open(self, path: bytes) -> int:
        *folders, name = path.split(b"/")
        if folders != self._names:
            self._enter(folders)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=self._open[-1])

    def _enter(self, folders: list[bytes]) -> None:
        same = 0
        while same < min(len(folders), len(self._names)) and folders[same] == self._names[same]:
            same += 1
        for descriptor in self._open[same + 1 :]:
            os.close(descriptor)
        del self._names[same:], self._open[same + 1 :]
        for folder in folders[same:]:
            self._open.append(os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=self._open[-1]))
            self._names.append(folder)


def _convert_to_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    return io.BytesIO(file.read().decode(encoding, "replace").encode())


if __name__ == "__main__":
    main()
