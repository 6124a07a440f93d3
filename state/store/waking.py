"""Which runs go on without a person: those whose time has come, and those whose process died."""

from dataclasses import dataclass
from datetime import datetime

from state.store.clock import text_of
from state.store.database import Database
from state.store.lease import held, seems_held


@dataclass(frozen=True, slots=True)
class WaitingRun:
    session_id: str
    title: str
    reason: str
    """Why it is to go on, in words."""
    held_by: str = ""
    """Who runs it already, as a sentence; empty if it is free."""


def due_runs(database: Database, tenant: str, now: datetime) -> list[WaitingRun]:
    """Return the runs that are to go on, those that wait longest first."""
    rows = database.query(
        "SELECT s.id, h.title, h.status, h.wake_at, h.owner, h.lease_until FROM sessions s"
        " JOIN heads h ON h.session_id = s.id WHERE s.tenant = ?"
        " AND (h.status = 'running' OR (h.wake_at <> '' AND h.wake_at <= ?)) ORDER BY h.updated_at, s.id",
        (tenant, text_of(now)),
    )
    return [
        WaitingRun(
            session_id,
            title,
            "its process died" if status == "running" else f"its time came at {wake_at}",
            held(session_id, owner).message if seems_held(owner, lease_until) else "",
        )
        for session_id, title, status, wake_at, owner, lease_until in rows
    ]
