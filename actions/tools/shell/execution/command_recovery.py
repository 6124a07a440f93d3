"""Finds the outcome of a shell command whose agent died, from the folder that the supervisor wrote."""

import asyncio
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ....ports import Recovered, ToolOutcome
from ....workspace.atomic_write import wait_for_lock
from ....workspace.paths import open_descriptor
from ..command_output import Captured, capture, outcome_of, outcome_with
from ..supervisor.claim import ENDED, OUTPUT, READY, STARTED
from .abandoned import call_mark, this_boot
from .process_marker import find_marked_processes, kill_marked
from .spool import CommandLimits, Ended, parse_report

_PATIENCE_S = 1.5
"""The seconds to wait for the report. A supervisor without an agent ends the command and reports in less
time.
"""
_AWAY = "the agent had died before the command ended; the supervisor of the command recorded its end"
_RESTARTED = "The machine was restarted since then, so it is not known how far the command came."
_INCOMPLETE = "The file about its start is incomplete, so it is not known whether and how far it ran."
_UNRECORDED = "Its end is not recorded."
_UNRECORDED_AND_KILLED = "Its end is not recorded. Its remaining processes were killed now."
_NEVER_STARTED = "The command was not run: the agent died before it was started."


async def recover(scratch: Path, limits: CommandLimits, takes_file: bool) -> Recovered | None:
    """End the command's remaining processes and return the known facts, or None if the command left no
    folder.
    """
    return await asyncio.to_thread(_recover_scratch, scratch, limits, takes_file)


def _recover_scratch(scratch: Path, limits: CommandLimits, takes_file: bool) -> Recovered | None:
    taken_back = _take_back(scratch)
    if taken_back is not None:
        if taken_back and taken_back == this_boot():
            return Recovered(ToolOutcome("error", _NEVER_STARTED), is_not_started=True)
        return Recovered(None, "", _describe_other_boot(taken_back))
    try:
        mark = call_mark(scratch.joinpath(STARTED).read_text())
    except FileNotFoundError:
        return None
    if mark.boot != this_boot():
        # The report of the supervisor was not synced to the disk, so it may be incomplete.
        return Recovered(None, _output(scratch, True).text, _describe_other_boot(mark.boot))
    with open_descriptor(scratch / STARTED, os.O_RDONLY | os.O_NOFOLLOW) as started:
        wait_for_lock(started, fcntl.LOCK_SH, _PATIENCE_S)
    killed = kill_marked(mark.marker)
    output = _output(scratch, takes_file)
    try:
        report = scratch.joinpath(ENDED).read_bytes()
    except FileNotFoundError:
        return Recovered(None, output.text, _UNRECORDED_AND_KILLED if killed else _UNRECORDED)
    return _describe_end(parse_report(report, "", limits), output, limits)


def _describe_other_boot(boot: str) -> str:
    """Return what a file proves that names another boot than this one. A full disk cuts the name."""
    return _INCOMPLETE if this_boot().startswith(boot) else _RESTARTED


def still_running(scratch: Path) -> list[str]:
    """Return the running processes of a call, each as `pid name`."""
    with suppress(OSError, ValueError):
        mark = call_mark(scratch.joinpath(STARTED).read_text())
        return find_marked_processes(mark.marker) if mark.boot == this_boot() else []
    return []


def _take_back(scratch: Path) -> str | None:
    """Invalidate the order of a command that has not started. Return the boot in which it was prepared, else
    None.
    """
    for ready in scratch.glob(f"{READY}*"):
        with suppress(FileNotFoundError):
            boot = call_mark(ready.read_text()).boot
            ready.unlink()
            return boot
    return None


def _output(scratch: Path, takes_file: bool) -> Captured:
    try:
        with open_descriptor(scratch / OUTPUT, os.O_RDONLY | os.O_NOFOLLOW) as file:
            return capture(file, takes_file)
    except FileNotFoundError:
        return Captured("", None)


def _describe_end(end: Ended, output: Captured, limits: CommandLimits) -> Recovered:
    if end.reason == "agent":
        note = f"It was stopped {end.after_s:.1f} s after its start because the agent was gone."
        return Recovered(None, output.text, note)
    if end.reason == "cancelled":
        content = (
            f"Interrupted after {end.after_s:.1f} s and stopped; a part of it may have taken effect."
            f" Output so far:\n{output.text or '(none)'}"
        )
        return Recovered(outcome_with("interrupted", content, output))
    return Recovered(outcome_of(output, end, limits, _AWAY))
