"""Shortens results that are too large for a history to both ends; the store keeps the whole."""

from collections.abc import Iterator
from dataclasses import replace

from ....state.conversation.messages import Text
from ...ports import Toolbox, ToolOutcome

_LEAST_TOKENS_PER_BYTE = 0.25
"""Lower bound: a ratio learned from a few short requests must not let a huge result pass."""
_KEPT_SHARE = 0.25
_HEAD_SHARE = 0.6
_LONGEST_SNAP = 2000
"""Bytes: a cut moves to the end of a line that is at most this far away."""
MAX_ROW_CHARACTERS = 1000
"""Longer lines are split into rows, because JSON is often a single line."""


def most_bytes(max_tokens: int, tokens_per_byte: float) -> int:
    """Return the largest size of a result in bytes; 0: no limit."""
    return int(max_tokens / max(tokens_per_byte, _LEAST_TOKENS_PER_BYTE))


def limit_outcome(outcome: ToolOutcome, call_id: str, limit_bytes: int, tools: Toolbox) -> ToolOutcome:
    """Return the outcome shortened for the model; `full_output` is what the store has to keep."""
    beside = [block.text for block in outcome.blocks if isinstance(block, Text)]
    text = "\n".join((outcome.content, *beside))
    if limit_bytes and len(text.encode(errors="replace")) > limit_bytes:
        files = tuple(block for block in outcome.blocks if not isinstance(block, Text))
        is_whole = not _has_whole(outcome)
        shortened = _cut_middle(text, call_id, int(limit_bytes * _KEPT_SHARE), tools, is_whole)
        outcome = replace(outcome, content=shortened, blocks=files)
        kept = (text if is_whole else "\n".join(("", *beside))).encode(errors="replace")
        if outcome.output_file is not None:
            outcome.output_file.append(kept)
            return outcome
        return replace(outcome, full_output=(outcome.full_output or b"") + kept)
    reader = format_read_call(tools, call_id) if _has_whole(outcome) else ""
    if not reader:
        return outcome
    # The last line is the tool's own: an exit code, or how much of a page there is.
    above, line, last = outcome.content.rpartition("\n")
    hint = f"[the whole output: {reader}]"
    return replace(outcome, content=f"{above}{line}{hint}\n{last}")


def _has_whole(outcome: ToolOutcome) -> bool:
    return outcome.full_output is not None or outcome.output_file is not None


def format_read_call(tools: Toolbox, call_id: str, offset: int = 1) -> str:
    """Return the tool call, as text, that reads a stored result; empty if no tool reads results."""
    reader = next((name for name, tool in tools.items() if tool.traits.reads_results), "")
    more = f", offset={offset}" if offset > 1 else ""
    return f'{reader}(handle="{call_id}"{more})' if reader else ""


def _cut_middle(text: str, call_id: str, size_bytes: int, tools: Toolbox, is_whole: bool) -> str:
    """Return both ends of a text, with one line between them that says how much is left out.

    `is_whole`: the store keeps exactly this text, so row numbers are the same there.
    """
    head, tail = _ends(text, size_bytes)
    left_out = len(text) - len(head) - len(tail)
    reader = format_read_call(tools, call_id, _row_after(head) if is_whole else 1)
    how = f": {reader}" if reader else ""
    note = f"[... {left_out:,} of {len(text):,} characters are left out; all is kept{how} ...]"
    return f"{head.rstrip(chr(10))}\n{note}\n{tail}"


def _row_after(head: str) -> int:
    """Return the number of the first row that `head` does not hold completely."""
    return len(rows_of(head)) + head.endswith("\n")


def _ends(text: str, size_bytes: int) -> tuple[str, str]:
    first = int(size_bytes * _HEAD_SHARE)
    return _beginning(text, first), _end(text, size_bytes - first)


def _beginning(text: str, size_bytes: int) -> str:
    kept = text[:size_bytes].encode(errors="replace")[:size_bytes].decode(errors="ignore")
    snap = kept.rfind("\n", max(len(kept) - _LONGEST_SNAP, 0))
    return kept if snap < 0 else kept[: snap + 1]


def _end(text: str, size_bytes: int) -> str:
    kept = text[-size_bytes:].encode(errors="replace")[-size_bytes:].decode(errors="ignore")
    snap = kept.find("\n", 0, _LONGEST_SNAP)
    return kept if snap < 0 else kept[snap + 1 :]


def rows_of(text: str) -> list[str]:
    """Split a kept text into rows: its lines, with long lines split at `MAX_ROW_CHARACTERS`."""
    return [row for line in _lines(text) for row in _pieces(line)]


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _pieces(line: str) -> Iterator[str]:
    if len(line) <= MAX_ROW_CHARACTERS:
        yield line
        return
    for start in range(0, len(line), MAX_ROW_CHARACTERS):
        yield line[start : start + MAX_ROW_CHARACTERS]
