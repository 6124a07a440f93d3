"""The step behind which two sessions part."""

from collections.abc import Sequence
from dataclasses import dataclass

Lineage = Sequence[tuple[str, int | None]]
"""Sessions, oldest first, each with its last step that counts (None: all)."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The last step that two sessions have in common: one is a fork of the other, or both are of a third."""

    session_id: str
    seq: int


def parting(left: Lineage, right: Lineage) -> Parting | None:
    """Return where two different sessions part; None if they have nothing in common."""
    limits = dict(right)
    for session_id, limit in reversed(left):
        if session_id in limits:
            known = [seq for seq in (limit, limits[session_id]) if seq is not None]
            return Parting(_owner(left, min(known)), min(known)) if known else None
    return None


def _owner(lineage: Lineage, seq: int) -> str:
    """Return the session that holds a step: a fork at an earlier step of a fork goes back to its parent."""
    return next(session_id for session_id, limit in lineage if limit is None or seq <= limit)
