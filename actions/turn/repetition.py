"""Detects a model that repeats itself: calls, alone or in a cycle, with the same result each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import accumulate, chain, islice
from typing import NamedTuple

from ...state.application import NOTICES_CYCLES, ApplicationState
from ...state.calls import JournaledCall, PendingCall
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import Message, Text, ToolResult
from ...state.conversation.transcript import Transcript
from ...state.errors import Repeated
from ...state.process.clock import count_milliseconds

MOST_IN_A_ROW = 3
"""Turns of a cycle without pauses between them."""
MOST_WITH_PAUSES = 10
"""Turns with seconds in between, as a model takes them to answer."""
MOST_BY_RULE = 100
"""Turns of calls that a rule allows."""
LONGEST_CYCLE = 4
"""Rounds of calls that make one turn of a cycle."""
MOST_REFUSED_ROUNDS = 5
"""Rounds in a row of which no call ran, before the run ends."""
_SHORT_PAUSE_MS, _LONG_PAUSE_MS = 1_000, 10_000
_STUCK_BEGINS = "Not run: this very call had the same result "
"""Stored bytes: such results are recognized by these words."""


class _Past(NamedTuple):
    call_id: str
    tool: str
    arguments: str
    outcome: str
    content: str
    blocks: tuple[Text | AttachedFile, ...]

    @property
    def is_refused(self) -> bool:
        """True if it did not run because it was a repetition."""
        return self.content.startswith(_STUCK_BEGINS)

    def is_of(self, call: PendingCall) -> bool:
        return (self.tool, self.arguments) == (call.tool, call.arguments)

    def repeats(self, other: _Past) -> bool:
        """Return whether both are the same call with the same result; a refused one matches any result."""
        if (self.tool, self.arguments) != (other.tool, other.arguments):
            return False
        return self[3:] == other[3:] or self.is_refused or other.is_refused


def format_turn_count(turns: int, length: int) -> str:
    return f"{turns} times in a row" + (f", in a cycle of {length} calls" if length > 1 else "")


def describe_repetition(turns: int, length: int) -> str:
    """Return the result text of a call that is refused as a repetition."""
    return (
        f"{_STUCK_BEGINS}{format_turn_count(turns, length)}, and would have it again."
        " Do something else: other arguments, another way, or tell the user what keeps you from going on."
    )


class Cycle(NamedTuple):
    """A sequence of calls that repeats, and that a pending call would continue."""

    length: int
    """Calls of one turn."""
    turns: int
    """Repetitions with the same results, at most `MOST_BY_RULE`."""
    last: tuple[str, str]
    """The ids of the newest two calls that are equal to the pending one."""

    def most_turns(self, recorded: Mapping[str, JournaledCall], by_rule: bool) -> int | None:
        """Return the allowed number of turns for the pause between them; None: no limit."""
        pause_ms = self._pause_ms(recorded)
        if pause_ms >= _LONG_PAUSE_MS:
            return None
        if by_rule:
            return MOST_BY_RULE
        return MOST_IN_A_ROW if pause_ms < _SHORT_PAUSE_MS else MOST_WITH_PAUSES

    def _pause_ms(self, recorded: Mapping[str, JournaledCall]) -> int:
        """Return the milliseconds between the newest two of its calls, without their own duration."""
        newest, before = (recorded.get(call_id) for call_id in self.last)
        if newest is None or before is None:
            return 0
        took_ms = newest.result.duration_ms if newest.result is not None else None
        return count_milliseconds(before.at, newest.at) - (took_ms or 0)


def find_cycle(
    call: PendingCall, history: Transcript, polled: Set[str] = frozenset(), longest: int = LONGEST_CYCLE
) -> Cycle | None:
    """Return the cycle that a call would continue; None if it has fewer than `MOST_IN_A_ROW` turns.

    `polled`: tools whose calls may repeat; they are ignored.
    """
    asking = history.requesting_message
    rounds = list(islice(_rounds(history, asking, polled), longest))
    together = len(asking.tool_uses) if asking is not None else 1
    lengths = sorted({1, together, *accumulate(map(len, rounds))})
    newest = list(islice(chain.from_iterable(_rounds(history, asking, polled)), 2 * lengths[-1]))
    place = next((at for at, past in enumerate(newest[: lengths[-1]]) if past.is_of(call)), None)
    if place is None:
        return None
    for length in lengths:
        if place >= length or len(newest) < 2 * length:
            continue
        turns = _turns(chain.from_iterable(_rounds(history, asking, polled)), length)
        if turns >= MOST_IN_A_ROW:
            return Cycle(length, turns, (newest[place].call_id, newest[place + length].call_id))
    return None


def require_progress(state: ApplicationState) -> None:
    """Raise `Repeated` after `MOST_REFUSED_ROUNDS` rounds of refused repetitions."""
    if state.graph_version < NOTICES_CYCLES:
        return
    if _count_refused_rounds(state.active_history, state.execution_mode == "yolo") >= MOST_REFUSED_ROUNDS:
        raise Repeated(
            "The model repeats itself: it asked for the same calls again after these were refused"
            f" {MOST_REFUSED_ROUNDS} times in a row.",
            "Say what it is to do instead, or resume to let it try once more.",
        )


def _count_refused_rounds(history: Transcript, denied: bool) -> int:
    """Count the newest rounds in a row of which every call was refused as a repetition.

    `denied`: a denied call counts as refused, too.
    """
    count = 0
    for calls in islice(_rounds(history, asking=None), MOST_REFUSED_ROUNDS):
        if not all(past.is_refused or (denied and past.outcome == "denied") for past in calls):
            break
        count += 1
    return count


def _turns(past: Iterable[_Past], length: int) -> int:
    """Count the turns of `length` calls, newest first, that are equal; the first turn counts."""
    turn: list[_Past] = []
    count = 0
    for count, one in enumerate(islice(past, length * MOST_BY_RULE), 1):
        place = (count - 1) % length
        if count <= length:
            turn.append(one)
        elif not one.repeats(turn[place]):
            return (count - 1) // length
        elif turn[place].is_refused:
            turn[place] = one
    return count // length


def _rounds(
    history: Transcript, asking: Message | None, polled: Set[str] = frozenset()
) -> Iterator[list[_Past]]:
    """Yield the calls of each message since the person's last message, newest first, without `asking`."""
    results: dict[str, ToolResult] = {}
    for message in reversed(history):
        if message.origin == "person":
            return
        results |= {result.call_id: result for result in message.tool_results}
        if message is asking or not message.tool_uses:
            continue
        found = [
            _Past(use.call_id, use.tool, use.arguments, result.outcome, result.content, result.blocks)
            for use in reversed(message.tool_uses)
            if (result := results.pop(use.call_id, None)) is not None and use.tool not in polled
        ]
        if found:
            yield found
