"""Reads a file or a page as chunks without secrets, with its digest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .....actions.tools.web.web_fetch import parse_apart
from .....actions.workspace.paths import FileProblem, format_size, open_regular
from .....actions.workspace.protected.secret_files import is_secret_file
from .....actions.workspace.text import SAMPLE_BYTES, detect_text_form, name_binary_kind
from .....state.conversation.docx_text import is_docx, read_docx
from .....state.errors import UsageError
from .....state.process.cancellation import run_in_thread
from .....state.process.installation import make_install_command
from .....state.search.knowledge_rows import StoredChunk, Unit
from ..chunking.code_chunks import chunk_code, has_grammar
from ..chunking.line_chunks import MOST_CHARS, Chunk, chunk_lines
from ..chunking.structured_chunks import chunk_markdown, chunk_python
from .picture_reader import has_picture_name, is_picture, make_picture_words

if TYPE_CHECKING:
    from .....actions.ports import Masker

MOST_TEXT_BYTES = 5_000_000
MOST_DOCUMENT_BYTES = 32_000_000
MOST_CHUNKS = 5_000
"""The most chunks of one file. The rest of a file with more is not searched."""
SECRET = "it is a file of secrets"
_DOCUMENTS = (".pdf", ".docx")
_BINARY = (
    *_DOCUMENTS, ".doc", ".xls", ".xlsx", ".ppt", ".pptx", ".odt", ".ods", ".odp", ".epub", ".zip", ".gz",
    ".bz2", ".xz", ".zst", ".7z", ".rar", ".jar", ".whl", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp",
    ".tiff", ".ico", ".mp3", ".mp4", ".wav", ".ogg", ".woff", ".woff2", ".ttf", ".otf", ".exe", ".dll",
    ".so", ".pyc", ".class", ".sqlite", ".parquet", ".wasm",
)  # fmt: skip
"""The suffixes of formats that are no text. A text with such a name is a damaged file, or a stub of one."""
_MARKDOWN = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd")
_PYTHON = (".py", ".pyi")
_SETTLED_NS = 50_000_000
"""If a file was read less than this time after its change, it may change again with the same timestamp."""


class ReadSource(NamedTuple):
    """A file or a page as it was read."""

    size: int
    modified_ns: int
    """0 if the file may change without another timestamp."""
    digest: str
    chunks: Sequence[StoredChunk] = ()
    problem: str = ""
    """Why it has no chunks, as a clause; empty if it has some, or if it is empty."""


class SourceVersion(NamedTuple):
    size: int
    modified_ns: int


def find_version(path: str) -> SourceVersion | None:
    """Return the version of a file by its status, or None if it is not a regular file."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return SourceVersion(status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def find_obstacle(path: str, size: int) -> str:
    """Return why a file is left out without being read, as a clause; empty if it is read."""
    if is_secret_file(path):
        return SECRET
    limit = MOST_DOCUMENT_BYTES if path.lower().endswith(_DOCUMENTS) else MOST_TEXT_BYTES
    return f"it has {format_size(size)}, and the limit is {format_size(limit)}" if size > limit else ""


def read_content(path: str, now_ns: int) -> tuple[bytes, ReadSource]:
    """Return the bytes of a file, and the source without chunks. A file that cannot be read has a problem."""
    try:
        with open_regular(Path(path)) as file:
            status = os.fstat(file.fileno())
            content = file.read(MOST_DOCUMENT_BYTES + 1)
    except (FileProblem, OSError, ValueError) as error:
        reason = f"it cannot be read: {error}"
        return b"", ReadSource(0, 0, "", problem=reason.rstrip("."))
    is_settled = abs(now_ns - status.st_mtime_ns) > _SETTLED_NS
    digest = hashlib.sha256(content).hexdigest()
    read = ReadSource(len(content), status.st_mtime_ns if is_settled else 0, digest)
    obstacle = find_obstacle(path, len(content))
    return content, read._replace(problem=obstacle)


class FileContent(NamedTuple):
    digest: str
    """The SHA-256 of its bytes; empty if it cannot be read."""
    lines: int | None
    """How many lines it has; None if it is no text."""


def read_file_content(path: str) -> FileContent:
    content, read = read_content(path, 0)
    form = None if content.startswith(b"%PDF-") or is_docx(content) else detect_text_form(content)
    if form is None:
        return FileContent(read.digest, None)
    text = _unify(form.decode(content))
    return FileContent(read.digest, text.count("\n") + (bool(text) and not text.endswith("\n")))


async def split_source(
    content: bytes, read: ReadSource, path: str, masker: Masker, folder: str = ""
) -> ReadSource:
    """Return a source with the chunks of its content. `path` is a path or an address.

    A picture is found by the words of its path below `folder`.
    """
    if read.problem:
        return read
    try:
        if is_picture(content):
            words = masker.text(await run_in_thread(make_picture_words, path, folder, content))
            return read._replace(chunks=[StoredChunk("picture", 0, 0, "", _clean(words))])
        unit, chunks = await _split(content, path, masker)
    except UsageError as error:
        return read._replace(problem=f"{error.message} {error.hint or ''}".strip().rstrip("."))
    kept = [StoredChunk(unit, one.first, one.last, _clean(one.title), _clean(one.text)) for one in chunks]
    return read._replace(chunks=kept[:MOST_CHUNKS])


async def _split(content: bytes, path: str, masker: Masker) -> tuple[Unit, list[Chunk]]:
    """Return what the numbers of the chunks count, and the chunks. Raises `UsageError`."""
    if content.startswith(b"%PDF-"):
        return "page", await _split_pages(content, masker)
    if is_docx(content):
        text = await run_in_thread(read_docx, content, Path(path).name)
        return "line", chunk_markdown(mask_lines(_unify(text), masker))
    form = detect_text_form(content)
    if form is None:
        wanted = "a picture that models see" if has_picture_name(path) else "text"
        raise UsageError(f"it is not {wanted} ({name_binary_kind(content[:SAMPLE_BYTES])})")
    if content and (suffix := Path(path).suffix.lower()) in _BINARY:
        raise UsageError(f"it is not of the format that its name says ({suffix})")
    return "line", split_text(_unify(form.decode(content)), path, masker)


def split_text(text: str, path: str, masker: Masker) -> list[Chunk]:
    """Return the chunks of a text whose kind the suffix of its path tells."""
    text = mask_lines(text, masker)
    suffix = Path(path).suffix.lower()
    if suffix in _MARKDOWN:
        return chunk_markdown(text)
    if suffix in _PYTHON:
        return chunk_python(text)
    return chunk_code(text, suffix) if has_grammar(suffix) else chunk_lines(text.split("\n"))


async def _split_pages(content: bytes, masker: Masker) -> list[Chunk]:
    read = await parse_apart(content, "pages")
    if "missing" in read:
        raise UsageError(
            "it is a PDF, but the library for PDFs is not installed.", f"Run: {make_install_command('web')}"
        )
    if "problem" in read:
        raise UsageError(f"{read['problem']}")
    found: list[Chunk] = []
    for number, page in enumerate(read["pages"], 1):
        lines = masker.text(_unify(page)).split("\n")
        found += [Chunk(number, number, "", one.text) for one in chunk_lines(lines)]
    if not found and read["pages"]:
        raise UsageError("it is a PDF without text, such as a scan")
    return found


def mask_lines(text: str, masker: Masker) -> str:
    """Return a text without secrets whose lines have the same numbers as before.

    A placeholder may replace several lines. Blank lines are then added after the last changed line.
    """
    masked = masker.text(text)
    if masked is text or masked.count("\n") == text.count("\n"):
        return masked
    before, after = text.split("\n"), masked.split("\n")
    most = min(len(before), len(after))
    end = 0
    while end < most and before[-1 - end] == after[-1 - end]:
        end += 1
    missing = [""] * (len(before) - len(after))
    return "\n".join([*after[: len(after) - end], *missing, *after[len(after) - end :]])


def _unify(text: str) -> str:
    """Return a text in which every line ends with a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _clean(text: str) -> str:
    """Return a text that every database stores as it is."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")[:MOST_CHARS]
