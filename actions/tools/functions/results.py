"""Converts the return value of a function to a text for the model."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json

from ....state.conversation.attachments import AttachedFile
from ....state.conversation.messages import Document, Text
from ...ports import ToolOutcome
from .calling import Pieces

_Content = Text | AttachedFile


class ToolError(Exception):
    """A failure whose message is meant for the model, which reads it unchanged."""


class TaskComplete(Exception):
    """The task is done. A tool returns or raises this object, and the run ends with its answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def outcome_of(result: Any, tool: str) -> ToolOutcome:
    """Return the outcome for a return value: a text stays unchanged, content blocks are kept, other values
    become JSON.
    """
    if isinstance(result, ToolOutcome):
        return result
    if isinstance(result, TaskComplete):
        return ToolOutcome("ok", result.message, ends_run=result.message)
    if isinstance(result, Pieces):
        return _join_stream(result, tool)
    if isinstance(result, _Content):
        return _make_block_outcome([result])
    if isinstance(result, list | tuple) and any(isinstance(part, _Content) for part in cast(Any, result)):
        return _join_parts(cast(Sequence[Any], result), tool)
    return _make_text_outcome(result, tool)


def _join_stream(pieces: Pieces, tool: str) -> ToolOutcome:
    """Join the texts of a stream. A `TaskComplete` in the stream ends the run."""
    for piece in pieces:
        if isinstance(piece, TaskComplete):
            return outcome_of(piece, tool)
    joined: list[Any] = []
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        together = list(group)
        joined += ["".join(together)] if is_text else together
    return _make_text_outcome("", tool) if not joined else _join_parts(joined, tool)


def _join_parts(parts: Sequence[Any], tool: str) -> ToolOutcome:
    blocks: list[_Content] = []
    for part in parts:
        if isinstance(part, _Content):
            blocks.append(part)
            continue
        outcome = outcome_of(part, tool)
        if outcome.outcome != "ok":
            return outcome
        blocks += [Text(text=outcome.content), *outcome.blocks]
    return _make_block_outcome(blocks)


def _make_block_outcome(blocks: Sequence[_Content]) -> ToolOutcome:
    """Return the texts before the first image or document as content, and the other blocks as attachments."""
    first = next((n for n, block in enumerate(blocks) if not isinstance(block, Text)), len(blocks))
    texts = [block.text for block in blocks[:first] if isinstance(block, Text)]
    rest = tuple(blocks[first:])
    names = ", ".join(_describe_block(block) for block in rest if not isinstance(block, Text))
    return ToolOutcome("ok", "\n".join(texts) or f"[{names}]", blocks=rest)


def _describe_block(block: AttachedFile) -> str:
    return f"{block.name} ({block.media_type})" if isinstance(block, Document) else block.media_type


def _make_text_outcome(result: Any, tool: str) -> ToolOutcome:
    if result is None:
        return ToolOutcome("ok", "Done.")
    if isinstance(result, str):
        return ToolOutcome("ok", result or "(an empty text)")
    try:
        return ToolOutcome("ok", to_json(result, inf_nan_mode="null").decode())
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        why = str(error).splitlines()[0].removeprefix("Error serializing to JSON: ")
        return ToolOutcome(
            "error",
            f"{tool} ran to its end, but what it returned, {_name_type(result)}, is not JSON ({why}), so you"
            " cannot read it. It was not run again. This is a mistake in the tool.",
        )


def _name_type(result: Any) -> str:
    name = cast(type[Any], type(result)).__qualname__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
