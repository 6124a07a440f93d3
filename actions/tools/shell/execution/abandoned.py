"""Marks the folder of each shell command, and ends commands that have neither an agent nor a supervisor.

Every start of the agent loads this module, so it does not import the modules that run commands.
"""

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .....state.process.identity import is_process_gone
from ..supervisor.claim import STARTED
from .process_marker import kill_marked


def this_boot() -> str:
    """Return an id of the current boot of the machine, or an empty text if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class CallMark(NamedTuple):
    """The content of the file that shows whether a command was started."""

    marker: str
    """A text in the environment of every process of the command."""
    boot: str
    """The boot of the machine in which the command was prepared, as `this_boot` returns it."""
    agent: str
    """The process name of the agent that prepared the command; empty in folders of older versions."""


def call_mark(text: str) -> CallMark:
    marker, boot, agent, *_ = [*text.split("\n"), "", "", ""]
    return CallMark(marker, boot, agent)


def end_abandoned(scratch: Path) -> int:
    """Kill the processes of abandoned calls, and return their number. `scratch` contains a folder for each
    session.
    """
    calls = (call for session in _list_folders(scratch) for call in _list_folders(session))
    markers = [mark for call in calls if (mark := _find_abandoned_marker(call / STARTED))]
    return kill_marked(*markers) if markers else 0


def _list_folders(folder: Path) -> list[Path]:
    """Return what is in a folder. Other sessions remove theirs at any moment, so a missing one is empty."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return list(folder.iterdir())
    return []


def _find_abandoned_marker(started: Path) -> str:
    """Return the marker of a call that has neither an agent nor a supervisor, or an empty text for any other
    call.
    """
    with suppress(OSError, ValueError), started.open("rb") as file:
        mark = call_mark(file.read().decode("ascii", "replace"))
        if mark.boot == this_boot() and is_process_gone(mark.agent):
            # If its supervisor lives, it holds the lock and ends the command by itself.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return mark.marker
    return ""
