"""Notices a model that goes round in circles: the same call with the same result again and again."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ...state.calls import PendingCall
from ...state.messages import Document, Image, Text, ToolResult
from ...state.transcript import Transcript

MOST_IN_A_ROW = 3
STUCK = (
    f"Not run: this very call had the same result {MOST_IN_A_ROW} times in a row, and would have it again."
    " Do something else: other arguments, another way, or tell the user what keeps you from going on."
)
"""Stored bytes: answers of this kind are known by their words."""


class _Past(NamedTuple):
    tool: str
    arguments: str
    outcome: str
    content: str
    blocks: tuple[Text | Image | Document, ...]


def is_stuck(call: PendingCall, history: Transcript) -> bool:
    """Tell whether the last calls were this one, or rounds with it, that came to the same each time."""
    asking = history.asking
    together = len(asking.tool_uses) if asking is not None else 1
    past = list(islice(_newest_first(history), MOST_IN_A_ROW * together))
    if any(_is_of(call, one) and one.content == STUCK for one in past[:together]):
        return True
    return any(_repeats(call, past, length) for length in {1, together})


def _repeats(call: PendingCall, past: list[_Past], length: int) -> bool:
    rounds = [past[place * length : (place + 1) * length] for place in range(MOST_IN_A_ROW)]
    if len(rounds[-1]) < length or not any(_is_of(call, one) for one in rounds[0]):
        return False
    return all(one == rounds[0] for one in rounds)


def _is_of(call: PendingCall, past: _Past) -> bool:
    return (past.tool, past.arguments) == (call.tool, call.arguments)


def _newest_first(history: Transcript) -> Iterator[_Past]:
    """Yield the calls since the person's last message that have a result."""
    results: dict[str, ToolResult] = {}
    for message in reversed(history):
        if message.origin == "person":
            return
        results |= {result.call_id: result for result in message.tool_results}
        for use in reversed(message.tool_uses):
            result = results.pop(use.call_id, None)
            if result is not None:
                yield _Past(use.tool, use.arguments, result.outcome, result.content, result.blocks)
