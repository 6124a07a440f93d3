"""The tool `read_file`: returns a page of a text file with line numbers, or a picture."""

import asyncio
import codecs
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from ....state.conversation.attachments import MAX_DOCUMENT_BYTES, AttachedFile, attachment_from_bytes
from ....state.conversation.media_types import detect_media_type
from ....state.conversation.messages import encodable
from ....state.errors import UsageError
from ...ports import ToolContext, ToolOutcome, ToolTraits
from ...workspace.content_cache import read_version
from ...workspace.line_reader import LineReader, decode_line
from ...workspace.paths import (
    FileProblem,
    IsFolder,
    format_path,
    format_size,
    locate,
    open_regular,
    translate_errors,
)
from ...workspace.safe_open import PathScope
from ...workspace.text import SAMPLE_BYTES, TextForm, detect_sample_form, name_binary_kind
from ..schema import Count, PlainText, ToolArguments
from .disk import DISK
from .file_system import FileSystem, FileView
from .file_tool import ReadingFileTool

MAX_LINES = 2000
MAX_BYTES = 50_000
MAX_LINE_CHARACTERS = 2000
_CHUNK_BYTES = 1 << 20
_MARK_BYTES = 16
"""The number of bytes that identify a picture or a PDF."""
_COUNTING_TIME_S = 2.0
_SEARCHING_TIME_S = 20.0

_DESCRIPTION = (
    "Read a file. Each line comes as its number, a tab and its text. One call returns at most"
    f" {MAX_LINES} lines and {MAX_BYTES // 1000} KB and says at which offset to go on; lines over"
    f" {MAX_LINE_CHARACTERS} characters are cut. UTF-8, UTF-16 and Latin-1 are recognised. Pictures (PNG,"
    " JPEG, GIF, WebP) and PDFs are shown if you can look at them; other binary files are refused."
)


class ReadFileArguments(ToolArguments):
    path: PlainText = Field(description="The file; relative paths start at the working folder.")
    offset: Count = Field(1, description="First line to read, counted from 1. Default: 1.")
    limit: Count = Field(MAX_LINES, description=f"How many lines. Default and most: {MAX_LINES}.")


class ReadFile(ReadingFileTool[ReadFileArguments]):
    traits = ToolTraits(subject="path", is_quiet=True, shows="content", word="read", also_called=("read",))

    def __init__(self, files: FileSystem = DISK) -> None:
        super().__init__("read_file", _DESCRIPTION, ReadFileArguments, files)

    async def look(self, arguments: ReadFileArguments, view: FileView) -> ToolOutcome:
        path, context = view.path, view.context
        limit = min(arguments.limit, MAX_LINES)
        try:
            # The version is read before the page. If the file changes in between, the version is the older
            # one.
            seen = await asyncio.to_thread(read_version, os.fspath(context.reach.find_on_disk(path)))
            if (picture := await asyncio.to_thread(_read_picture, path, context)) is not None:
                return ToolOutcome("ok", f"{format_path(path)} is shown below.", blocks=(picture,))
            page = await asyncio.to_thread(_read_page, path, context.reach, arguments.offset, limit)
        except IsFolder:
            raise FileProblem(
                f"{format_path(path)} is a folder; use list_directory to look into it."
            ) from None
        return ToolOutcome("ok", page, seen={encodable(name): version for name, version in seen.items()})


def _read_picture(path: Path, context: ToolContext) -> AttachedFile | None:
    """Return a picture or a PDF for the model, or None for any other file."""
    with open_regular(locate(path, context.reach, "read")) as file, translate_errors(path, "read"):
        kind = detect_media_type(file.read(_MARK_BYTES) or b"")
        if kind is None or not (kind.startswith("image/") or kind == "application/pdf"):
            return None
        file.seek(0)
        try:
            found = attachment_from_bytes(file.read(MAX_DOCUMENT_BYTES + 1), format_path(path))
        except UsageError as error:
            raise FileProblem(str(error)) from None
        return found if context.shows(found) else None


def _read_page(path: Path, reach: PathScope, offset: int, limit: int) -> str:
    with open_regular(locate(path, reach, "read")) as file, translate_errors(path, "read"):
        sample = file.read(SAMPLE_BYTES) or b""
        form = detect_sample_form(sample)
        if form is None:
            size = format_size(os.fstat(file.fileno()).st_size)
            raise FileProblem(
                f"{format_path(path)} is a binary file ({name_binary_kind(sample)}, {size}), not text."
            )
        if not sample[len(form.mark) :]:
            return f"[{format_path(path)} is empty: {format_size(len(sample))}]"
        file.seek(len(form.mark))
        lines = LineReader(_utf8_chunks(file, form), time.monotonic() + _SEARCHING_TIME_S)
        try:
            return _number_lines(path, lines, offset, limit, form)
        except TimeoutError:
            raise FileProblem(
                f"{format_path(path)} is too large: line {offset} was not found in"
                f" {_SEARCHING_TIME_S:.0f} s. Use the shell."
            ) from None


def _number_lines(path: Path, lines: LineReader, offset: int, limit: int, form: TextForm) -> str:
    passed = lines.skip(offset - 1)
    stored = "latin-1" if form.encoding == "latin-1" else "utf-8"
    numbered: list[str] = []
    room = MAX_BYTES
    while len(numbered) < limit and (line := lines.peek()) is not None:
        text = f"{offset + len(numbered):6d}\t{decode_line(*line, MAX_LINE_CHARACTERS, stored)}"
        room -= len(text.encode()) + 1
        if room < 0:
            break
        numbered.append(text)
        lines.take()
    if not numbered:
        raise FileProblem(f"{format_path(path)} has only {passed} lines; offset {offset} is after its end.")
    return "\n".join(numbered + _describe_rest(lines, offset, offset + len(numbered), form))


def _describe_rest(lines: LineReader, first: int, following: int, form: TextForm) -> list[str]:
    left, is_exact = lines.count_rest(time.monotonic() + _COUNTING_TIME_S)
    notes = [f"[encoding: {form.name}]"] if form.encoding != "utf-8" else []
    if left:
        amount = f"{left:,}" if is_exact else f"more than {left:,}"
        notes.append(f"[lines {first}-{following - 1} shown; {amount} left; go on with offset {following}]")
    return notes


def _utf8_chunks(file: BinaryIO, form: TextForm) -> Iterator[bytes]:
    """Yield the content as UTF-8. Every line ends with one newline byte."""
    if form.encoding in ("utf-8", "latin-1"):
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(form.encoding)("replace")
    while chunk := file.read(_CHUNK_BYTES):
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()
