"""How the text of a file is stored: encoding, byte order mark and line ends; tells text from binary."""

import codecs
from dataclasses import dataclass, replace
from typing import Literal

SAMPLE_BYTES = 65_536
"""How much of a file decides what it is."""

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

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1"]


@dataclass(frozen=True, slots=True)
class TextForm:
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark in front of the text."""
    newline: Literal["\n", "\r\n"] = "\n"

    def decode(self, content: bytes) -> str:
        """Return the text without its mark; raises `UnicodeDecodeError`."""
        return content[len(self.mark) :].decode(self.encoding)

    def encode(self, text: str) -> bytes:
        """Return the bytes of the file; raises `UnicodeEncodeError`."""
        return self.mark + text.encode(self.encoding)

    @property
    def name(self) -> str:
        return self.encoding.upper() + (" with BOM" if self.mark and self.encoding == "utf-8" else "")


def detected(sample: bytes) -> TextForm | None:
    """Return the form of a file that begins with `sample`; None if it is no text."""
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return TextForm(encoding, mark)
    if sample.startswith(b"%PDF-"):
        return None
    if b"\0" in sample:
        return _unmarked_utf16(sample)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(sample) < SAMPLE_BYTES)
    except UnicodeDecodeError:
        return None if _is_odd(sample) else TextForm("latin-1")
    return TextForm()


def text_form(content: bytes) -> TextForm | None:
    """Return the form of a whole file, its line ends included; None if it is no text."""
    form = detected(content[:SAMPLE_BYTES])
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


def binary_kind(sample: bytes) -> str:
    """Name what a file seems to be that is no text."""
    return next((kind for magic, kind in _MAGIC if sample.startswith(magic)), "unknown type")


def _is_odd(sample: bytes) -> bool:
    """Tell whether there are more control characters than any text has."""
    return len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) // 100


def _unmarked_utf16(sample: bytes) -> TextForm | None:
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
