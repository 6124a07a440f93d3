"""Reads the moves of calls step by step, and the calls that the tools of other calls made."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..calls import NESTED_CALL_DECIDES, NestedCall, PendingCall
from ..conversation.messages import ToolResult
from ..databases.chain import list_rows
from ..databases.database import Database
from .recording import CallMove, Lineage, list_call_moves

NESTED = "nested"
"""The field of a proposal that contains a nested call, because no message contains it."""


class PlacedMove(NamedTuple):
    step: int
    """The step that follows the move. If that step was never written, it is one more than the newest step."""
    move: CallMove


def list_placed_moves(
    database: Database, lineage: Lineage, only_nested: bool = False
) -> Iterator[PlacedMove]:
    """Yield the moves that count, oldest first, each with the step that follows it."""
    for session_id, last in lineage:
        rows = list(list_rows(database, "steps", session_id, ("record",)))
        records = [int(record) for _, record in rows]
        steps = [*(int(seq) for seq, _ in rows), int(rows[-1][0]) + 1 if rows else 0]
        for move in list_call_moves(database, session_id, only_nested=only_nested):
            step = steps[bisect_left(records, move.row)]
            if last is None or step <= last:
                yield PlacedMove(step, move)


def find_nested_call(move: CallMove) -> PendingCall | None:
    """Return the nested call that a move proposes, or None for every other move."""
    if NESTED not in move.body:
        return None
    try:
        return NestedCall.model_validate(move.body[NESTED]).call
    except ValidationError:  # the record is damaged, and no check has found it yet
        return None


def find_recorded_result(move: CallMove) -> ToolResult | None:
    """Return the result that a move records; None if it records none, or if the record is damaged."""
    try:
        return move.result
    except ValidationError:
        return None


def without_nested(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a move without the nested call in it."""
    return {name: value for name, value in body.items() if name != NESTED}


def waits_for_nested(move: CallMove) -> bool:
    """Return whether a move only says that a call stopped and runs again once its nested call is decided."""
    return move.move == "decided" and move.text("who") == NESTED_CALL_DECIDES


class MadeCall(NamedTuple):
    """A call that the tool of another call made."""

    call: PendingCall
    """The call as it was proposed."""
    result: ToolResult | None
    """The result; None if the call has not ended."""


def list_made_calls(database: Database, lineage: Lineage) -> dict[str, list[MadeCall]]:
    """Return the nested calls of a session in order, by the id of the call whose tool made them."""
    found: dict[str, MadeCall] = {}
    for _, move in list_placed_moves(database, lineage, only_nested=True):
        if (call := find_nested_call(move)) is not None:
            found.setdefault(move.call_id, MadeCall(call, None))
        elif move.call_id in found and (result := find_recorded_result(move)) is not None:
            found[move.call_id] = found[move.call_id]._replace(result=result)
    by_parent: dict[str, list[MadeCall]] = {}
    for made in found.values():
        by_parent.setdefault(made.call.parent_call_id, []).append(made)
    return by_parent
