"""Detects the form of a text file (encoding, byte order mark, line ends), and formats diffs."""

import codecs
import difflib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

from ...state.lazy_dataclass import dataclass
from .paths import FileProblem, FileStat, format_path, format_size, open_regular, translate_errors

SAMPLE_BYTES = 65_536
"""The number of bytes at the start of a file that are used to detect its form."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive or Office document"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"(\xb5/\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"\xca\xfe\xba\xbe", "Java class or macOS program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg audio"),
    (b"RIFF", "RIFF media"),
    (b"\x00asm", "WebAssembly module"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class TextForm:
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark before the text."""
    newline: Literal["\n", "\r\n"] = "\n"

    def decode(self, content: bytes) -> str:
        """Return the text without the byte order mark. Raises `UnicodeDecodeError`."""
        return content[len(self.mark) :].decode(self.encoding)

    def encode(self, text: str) -> bytes:
        """Return the bytes of the file. Raises `UnicodeEncodeError`."""
        return self.mark + text.encode(self.encoding)

    @property
    def name(self) -> str:
        return self.encoding.upper() + (" with BOM" if self.mark and self.encoding == "utf-8" else "")


def detect_sample_form(sample: bytes) -> TextForm | None:
    """Return the form of a file that begins with `sample`, or None if the file is not text."""
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return TextForm(encoding, mark)
    if sample.startswith(b"%PDF-"):
        return None
    if b"\0" in sample:
        return _detect_unmarked_utf16(sample)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(sample) < SAMPLE_BYTES)
    except UnicodeDecodeError:
        return None if _is_odd(sample) else TextForm("latin-1")
    return TextForm()


def detect_text_form(content: bytes) -> TextForm | None:
    """Return the form of a complete file with its line ends, or None if the file is not text."""
    form = detect_sample_form(content[:SAMPLE_BYTES])
    if form is None:
        return None
    try:
        text = form.decode(content)
    except UnicodeDecodeError:
        if form.encoding != "utf-8" or form.mark:
            return None
        form, text = TextForm("latin-1"), content.decode("latin-1")
    crlf = text.count("\r\n")
    return replace(form, newline="\r\n" if crlf > text.count("\n") - crlf else "\n")


def name_binary_kind(sample: bytes) -> str:
    """Return the kind of a binary file, recognized by its first bytes."""
    return next((kind for magic, kind in _MAGIC if sample.startswith(magic)), "unknown type")


def _is_odd(sample: bytes) -> bool:
    """Return whether the sample has more control characters than a text."""
    return len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) // 100


def _detect_unmarked_utf16(sample: bytes) -> TextForm | None:
    half = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if half < 2 or even + odd < half // 2:
        return None
    encoding = "utf-16-le" if even < odd // 20 + 1 else "utf-16-be" if odd < even // 20 + 1 else None
    if encoding is None:
        return None
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else TextForm(encoding)


MAX_LINES = 200
MAX_LINE_CHARACTERS = 300
_MOST_PAIRS = 4_000_000
_CONTEXT = 3
_RANGES = re.compile(r"@@ -(\d+)(\S*) \+(\d+)(\S*) @@")


def format_diff(old: str, new: str, name: str, max_lines: int = MAX_LINES) -> str:
    """Return a unified diff of at most `max_lines` lines, or one sentence if the comparison would take too
    long.
    """
    before, after = _split_lines(old), _split_lines(new)
    start = max(_count_common(before, after) - _CONTEXT, 0)
    before, after = before[start:], after[start:]
    same_end = max(_count_common(before[::-1], after[::-1]) - _CONTEXT, 0)
    before, after = before[: len(before) - same_end], after[: len(after) - same_end]
    if len(before) * len(after) > _MOST_PAIRS:
        return f"(no diff: from line {start + 1} on, {len(before):,} lines became {len(after):,})"
    diff = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=_CONTEXT)
    return "\n".join(
        _cap_lines([text for line in diff for text in _format_diff_line(line, start)], max_lines)
    )


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _count_common(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = zip(count(), left, right)
    return next((index for index, a, b in pairs if a != b), min(len(left), len(right)))


def _format_diff_line(line: str, start: int) -> Iterator[str]:
    if ranges := _RANGES.match(line):
        old, old_length, new, new_length = ranges.groups()
        yield f"@@ -{int(old) + start}{old_length} +{int(new) + start}{new_length} @@"
        return
    text = line.removesuffix("\n").removesuffix("\r")
    yield text if len(text) <= MAX_LINE_CHARACTERS else text[:MAX_LINE_CHARACTERS] + "... [line cut]"
    if not line.endswith("\n"):
        yield "\\ No newline at end of file"


def _cap_lines(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"[{len(lines) - most} more lines of the diff left out]"]


MAX_BYTES = 64_000_000
"""The largest size in bytes of a file that is changed as a whole."""


@dataclass(frozen=True, slots=True)
class FileText:
    version: FileStat
    mode: int
    """The permission bits."""
    content: bytes
    form: TextForm | None
    """The form of the text; None if the file is not text."""
    text: str | None


def load_text(path: Path) -> FileText:
    """Read the complete file at a real path, with its version. Raises `FileProblem`."""
    with open_regular(path) as file, translate_errors(path, "read"):
        version = FileStat.of(os.fstat(file.fileno()))
        if version.size > MAX_BYTES:
            raise FileProblem(
                f"{format_path(path)} is too large to be changed as a whole ({format_size(version.size)};"
                f" the limit is {format_size(MAX_BYTES)}). Use a shell command."
            )
        content = file.read(MAX_BYTES + 1)
    form = detect_text_form(content)
    text = form.decode(content) if form else None
    return FileText(version, stat.S_IMODE(version.mode), content, form, text)
