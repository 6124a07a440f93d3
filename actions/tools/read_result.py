"""The tool `read_result`: reads and searches stored results of which the history contains only a part."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator, core_schema

from ...state.calls import KeptResult
from ..ports import ToolContext, ToolOutcome, ToolTraits
from ..turn.calls.tool_results import MAX_ROW_CHARACTERS, split_rows
from .builtin import BuiltinTool
from .schema import Count, PlainText, ToolArguments

MAX_ROWS = 2000
_USUAL_ROWS = 200
_MOST_BYTES = 40_000
_PAGE_SHARE = 0.5
"""The share of a result's size limit that one page may fill."""
_OVERLAP_CHARACTERS = 200

_DESCRIPTION = (
    "Read what an earlier call gave back where its result here shows only a part, or was put away. The handle"
    " stands in that result. Each row comes as its number, a tab and its text; a line over 1000 characters"
    " counts as several rows. With a pattern only matching rows come."
)


class ReadResultArguments(ToolArguments):
    handle: PlainText = Field(description="As the result names it.")
    offset: Count = Field(1, description="First row to read, counted from 1. Default: 1.")
    limit: Count = Field(_USUAL_ROWS, description=f"How many rows. Default: {_USUAL_ROWS}, most: {MAX_ROWS}.")
    pattern: PlainText | None = Field(
        None, max_length=1000, description="A regular expression; (?i) at the start ignores case."
    )


class ReadResult(BuiltinTool[ReadResultArguments]):
    traits = ToolTraits(subject="handle", is_quiet=True, reads_results=True)

    def __init__(self) -> None:
        super().__init__("read_result", _DESCRIPTION, ReadResultArguments)

    async def run(self, arguments: ReadResultArguments, context: ToolContext) -> ToolOutcome:
        handle = arguments.handle.strip()
        kept = await context.results.of(handle) if context.results is not None else None
        if kept is None:
            return ToolOutcome(
                "error", f"No call with the handle {handle[:80]!r} has ended. Take it from the result itself."
            )
        limit = context.results.most_bytes if context.results is not None else 0
        most_bytes = min(_MOST_BYTES, int(limit * _PAGE_SHARE) or _MOST_BYTES)
        return await asyncio.to_thread(_read, kept, arguments, most_bytes)


def _read(kept: KeptResult, arguments: ReadResultArguments, most_bytes: int) -> ToolOutcome:
    is_gone = kept.output is None and kept.output_bytes > 0
    text = kept.content if kept.output is None else kept.output.decode(errors="replace")
    rows = split_rows(text)
    numbers: Sequence[int] = range(1, len(rows) + 1)
    if arguments.pattern is not None:
        try:
            numbers = _find_matching(rows, arguments.pattern)
        except ValueError as error:
            return ToolOutcome("error", f"The pattern cannot be used: {error}.")
    page = _format_page(rows, numbers, arguments, most_bytes)
    if is_gone:
        page = (
            f"[The whole result ({kept.output_bytes:,} bytes) is not in the store any more: it was pruned, or"
            f" its record was damaged. This is the part that the history contained.]\n{page}"
        )
    return ToolOutcome("ok", page)


def _format_page(
    rows: list[str], numbers: Sequence[int], arguments: ReadResultArguments, most_bytes: int
) -> str:
    wanted = [number for number in numbers if number >= arguments.offset]
    lines: list[str] = []
    size = 0
    for number in wanted[: min(arguments.limit, MAX_ROWS)]:
        line = f"{number}\t{rows[number - 1]}"
        size += len(line.encode(errors="replace")) + 1
        if size > most_bytes and lines:
            break
        lines.append(line)
    return "\n".join([*lines, f"[{_describe_page(len(rows), numbers, wanted, len(lines), arguments)}]"])


def _describe_page(
    count: int, numbers: Sequence[int], wanted: Sequence[int], length: int, arguments: ReadResultArguments
) -> str:
    """Describe which part of the result this is, and how to continue."""
    if arguments.pattern is not None:
        what = f"{len(numbers)} of {count:,} rows match"
    else:
        what = f"{count:,} rows in all"
    if length < len(wanted):
        return f"{what}; go on with offset={wanted[length]}"
    return what if wanted or not numbers else f"{what}; none from row {arguments.offset} on"


def _find_matching(rows: Sequence[str], pattern: str) -> list[int]:
    """Return the numbers of the rows that match. Raises `ValueError` if the pattern is invalid."""
    fits = _search(pattern)
    return [number for number, text in enumerate(_join_rows(rows), 1) if fits(text)]


def _join_rows(rows: Sequence[str]) -> Iterator[str]:
    """Yield each row, with the beginning of the next row if both are parts of one line. This finds matches at
    the border of two rows.
    """
    for row, following in zip(rows, (*rows[1:], ""), strict=True):
        yield row + following[:_OVERLAP_CHARACTERS] if len(row) == MAX_ROW_CHARACTERS else row


def _search(pattern: str) -> Callable[[str], bool]:
    """Return a search function that needs linear time for any pattern, because models write the patterns."""
    try:
        # The schema uses the regular expressions of Rust, which do not backtrack.
        schema = core_schema.str_schema(pattern=f"(?m){pattern}", regex_engine="rust-regex")
        return SchemaValidator(schema).isinstance_python
    except SchemaError as error:
        raise ValueError(str(error).rpartition("error: ")[2]) from None
