"""The folder of one call: what a tool leaves there outlives a crash, until the result is on disk."""

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path

from actions.ports import Ports


def scratch_of(ports: Ports, call_id: str) -> Path | None:
    """Return where a call keeps things; None if the session has no place for that."""
    if ports.scratch is None:
        return None
    # Call ids come from providers, so they are no file names.
    return ports.scratch / hashlib.sha256(call_id.encode()).hexdigest()[:24]


def clear(scratch: Path | None) -> None:
    if scratch is not None and scratch.exists():
        shutil.rmtree(scratch, ignore_errors=True)
        with suppress(OSError):
            scratch.parent.rmdir()


def clear_once_committed(ports: Ports, call_id: str) -> None:
    """Let go of what a call left as soon as its result is on disk."""
    scratch = scratch_of(ports, call_id)
    ports.journal.once_committed(lambda: clear(scratch))
