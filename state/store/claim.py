"""The right to write a session: the first commit of a run takes it, so what the run begins with is in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..databases.database import GuardedUpdate, Statement


@dataclass(frozen=True, slots=True)
class Claim:
    """Changes nothing until a commit takes it in."""

    session_id: str
    runner: str
    """Who runs the session from then on."""
    was_epoch: int | None
    """Of the last claim; None: the session is made by this one."""
    statements: list[Statement] = field(default_factory=list[Statement])
    """What changes with it."""
    title: str = ""
    """Of a session that is made."""

    @property
    def epoch(self) -> int:
        """What every write has to name from then on."""
        return (self.was_epoch or 0) + 1

    def guard(self, columns: Mapping[str, Any], records: int, chain: str) -> GuardedUpdate:
        """Return the claim on the session's row, which gets `columns`.

        It holds if the session still ends with `chain` behind so many `records`, and nobody else claimed it.
        """
        columns = {"owner": self.runner, "epoch": self.epoch, "status": "running", "wake_at": "", **columns}
        new = ("epoch", "owner", "records", "chain")
        landed = (
            f"SELECT 1 FROM heads WHERE session_id = ? AND {' AND '.join(f'{name} = ?' for name in new)}",
            (self.session_id, *(columns[name] for name in new)),
        )
        if self.was_epoch is None:
            return GuardedUpdate(
                self._insertion({"session_id": self.session_id, "title": self.title, **columns}), landed
            )
        claim = (
            f"UPDATE heads SET {', '.join(f'{name} = ?' for name in columns)}"
            " WHERE session_id = ? AND epoch = ? AND records = ? AND chain = ?"
        )
        was = (self.session_id, self.was_epoch, records, chain)
        return GuardedUpdate((claim, (*columns.values(), *was)), landed)

    def _insertion(self, columns: Mapping[str, Any]) -> Statement:
        """Return what makes the session's row; it makes none where there is one."""
        return (
            f"INSERT INTO heads ({', '.join(columns)}) SELECT {', '.join('?' * len(columns))} FROM meta"
            " WHERE name = 'schema' AND NOT EXISTS (SELECT 1 FROM heads WHERE session_id = ?)",
            (*columns.values(), self.session_id),
        )
