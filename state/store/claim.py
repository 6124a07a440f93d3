"""The right to write a session: the first commit of a run takes it, so what the run begins with is in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..databases.chain import Chain
from ..databases.database import GuardedUpdate, Statement, exists, update


def head_update(
    session_id: str, was: Mapping[str, Any], columns: Mapping[str, Any], now: Mapping[str, Any]
) -> GuardedUpdate:
    """Return the update of a session's row: it holds where that is what it `was`, and has landed if `now`."""
    mine = {"session_id": session_id}
    return GuardedUpdate(update("heads", columns, {**mine, **was}), exists("heads", {**mine, **now}))


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

    def guard(self, columns: Mapping[str, Any], end: Chain) -> GuardedUpdate:
        """Return the claim on the session's row, which gets `columns`.

        It holds if the session's chain still ends with `end`, and nobody else claimed it.
        """
        columns = {"owner": self.runner, "epoch": self.epoch, "status": "running", "wake_at": "", **columns}
        now = {name: columns[name] for name in ("epoch", "owner", "records", "chain")}
        if self.was_epoch is not None:
            was = {"epoch": self.was_epoch, "records": end.records, "chain": end.digest}
            return head_update(self.session_id, was, columns, now)
        mine = {"session_id": self.session_id}
        return GuardedUpdate(
            self._insertion({**mine, "title": self.title, **columns}), exists("heads", {**mine, **now})
        )

    def _insertion(self, columns: Mapping[str, Any]) -> Statement:
        """Return what makes the session's row; it makes none where there is one."""
        return (
            f"INSERT INTO heads ({', '.join(columns)}) SELECT {', '.join('?' * len(columns))} FROM meta"
            " WHERE name = 'schema' AND NOT EXISTS (SELECT 1 FROM heads WHERE session_id = ?)",
            (*columns.values(), self.session_id),
        )
