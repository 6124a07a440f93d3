"""Marks the folder of each shell command, and ends the commands that no process supervises any more.

A start of the agent loads this, so it imports nothing of what runs commands.
"""

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .....state.process.identity import is_process_gone
from ..supervisor.claim import STARTED
from .process_marker import kill_marked


def this_boot() -> str:
    """Return an id of the current boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class CallMark(NamedTuple):
    """The content of the file that shows whether a command was started."""

    marker: str
    """In the environment of every process of the command."""
    boot: str
    """When the machine was started that it ran on."""
    agent: str
    """The agent that prepared it; empty in folders of older versions."""


def call_mark(text: str) -> CallMark:
    marker, boot, agent, *_ = [*text.split("\n"), "", "", ""]
    return CallMark(marker, boot, agent)


def end_abandoned(scratch: Path) -> int:
    """Kill the processes of abandoned calls, whose folders are in those of `scratch`; return how many."""
    markers = [
        mark for started in scratch.glob(f"*/*/{STARTED}") if (mark := _find_abandoned_marker(started))
    ]
    return kill_marked(*markers) if markers else 0


def _find_abandoned_marker(started: Path) -> str:
    """Return the marker of a call without a supervisor; nothing for any other."""
    with suppress(OSError, ValueError), started.open("rb") as file:
        mark = call_mark(file.read().decode("ascii", "replace"))
        if mark.boot == this_boot() and is_process_gone(mark.agent):
            # Its supervisor holds the lock, and ends the command by itself.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return mark.marker
    return ""
