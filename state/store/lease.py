"""How long a session belongs to the process that runs it, and what another one is told."""

import os
from datetime import UTC, datetime, timedelta

from state.errors import SessionHeld
from state.store.clock import text_of
from state.store.owner import is_gone


def _lease_s(text: str) -> float:
    try:
        return max(float(text), 0.5)
    except ValueError:
        return 20.0


LEASE_S = _lease_s(os.environ.get("SANDBUR_LEASE_S", ""))
"""Seconds without a sign of life after which another process may take a session over."""
BEAT_S = LEASE_S / 4
"""Seconds between two signs of life."""


def lease_end() -> str:
    """Return the end of a lease that is renewed now: UTC, ISO 8601."""
    return text_of(datetime.now(UTC) + timedelta(seconds=LEASE_S))


def is_fresh(lease_until: str) -> bool:
    """Tell whether a lease counts by this machine's clock. One that ends impossibly late does not:
    one of the two clocks was changed."""
    try:
        left_s = (datetime.fromisoformat(lease_until) - datetime.now(UTC)).total_seconds()
    except ValueError:
        return False
    return 0 < left_s <= LEASE_S * 1.5


def seems_held(owner: str, lease_until: str) -> bool:
    """Tell whether a process most likely runs the session: it is not known to be dead, its lease counts."""
    return bool(owner) and not is_gone(owner) and is_fresh(lease_until)


def held(session_id: str, owner: str, was_taken: bool = False) -> SessionHeld:
    """Return the error of a process that may not write."""
    host, pid, *_ = [*owner.split(":"), "?"]
    if was_taken:
        who = f"process {pid} on {host} took it over" if owner else "another process took it over"
        return SessionHeld(
            f"Session {session_id} is not this process's any more: {who}. Nothing more was done here.",
            f"See what it did: sandbur sessions show {session_id}",
        )
    return SessionHeld(
        f"Session {session_id} is running in process {pid} on {host}.",
        "Wait for it, stop it, or go on beside it with: sandbur fork",
    )
