"""The tool `read_file`: a page of a text file with line numbers."""

import asyncio
import codecs
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from actions.ports import ToolContext, ToolOutcome
from actions.tools.arguments import Arguments, PlainText, Whole, parsed, spec_of
from actions.tools.files import FileProblem, open_regular, translated
from actions.tools.places import resolved, shown, size_text
from actions.tools.text_form import SAMPLE_BYTES, TextForm, binary_kind, detected
from state.calls import Effect

MAX_LINES = 2000
MAX_BYTES = 50_000
MAX_LINE_CHARACTERS = 2000
_LONGEST_LINE_BYTES = 4 * MAX_LINE_CHARACTERS
_CHUNK_BYTES = 1 << 20
_COUNTING_TIME_S = 2.0
_SEARCHING_TIME_S = 20.0

_DESCRIPTION = (
    "Read a text file. Each line comes as its number, a tab and its text. One call returns at most"
    f" {MAX_LINES} lines and {MAX_BYTES // 1000} KB and says at which offset to go on; lines over"
    f" {MAX_LINE_CHARACTERS} characters are cut. UTF-8, UTF-16 and Latin-1 are recognised; binary files"
    " are refused."
)


class ReadFileArguments(Arguments):
    path: PlainText = Field(description="The file; relative paths start at the working folder.")
    offset: Annotated[Whole, Field(ge=1, description="First line to read, counted from 1. Default: 1.")] = 1
    limit: Annotated[Whole, Field(ge=1, description=f"How many lines. Default and most: {MAX_LINES}.")] = (
        MAX_LINES
    )


class ReadFile:
    effect: Effect = "read"

    def __init__(self) -> None:
        self.spec = spec_of("read_file", _DESCRIPTION, ReadFileArguments)

    def parse(self, arguments: str) -> ReadFileArguments:
        return parsed(self.spec, ReadFileArguments, arguments)

    def subject(self, arguments: ReadFileArguments) -> str:
        return arguments.path

    def paths(self, arguments: ReadFileArguments) -> Sequence[str]:
        return (arguments.path,)

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolOutcome:
        path = resolved(arguments.path, context.cwd)
        try:
            page = await asyncio.to_thread(_page, path, arguments.offset, min(arguments.limit, MAX_LINES))
        except FileProblem as error:
            return ToolOutcome("error", str(error))
        return ToolOutcome("ok", page)


@dataclass(slots=True)
class _Window:
    """The wanted lines, picked from a stream of bytes; of a long line only the beginning is kept."""

    first: int
    limit: int
    form: TextForm
    number: int = 1
    """Of the line that comes next."""
    kept_bytes: int = 0
    is_full: bool = False
    _line: bytearray = None  # type: ignore[assignment]
    lines: list[str] = None  # type: ignore[assignment]
