"""Finds out what came of a shell command whose agent died, from the folder that its supervisor wrote."""

import asyncio
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from actions.ports import Recovered, ToolOutcome
from actions.tools.boot import this_boot
from actions.tools.call_folder import ENDED, OUTPUT, READY, STARTED
from actions.tools.capture import Captured, captured
from actions.tools.ending import Ended, Limits, ended
from actions.tools.marked_processes import kill_marked
from actions.tools.shell_report import outcome_of

_PATIENCE_S = 1.5
"""A supervisor whose agent died needs less to end the command and to say so."""
_POLL_S = 0.02
_AWAY = "the agent had died when this ended; the process that watched the command recorded it"
_RESTARTED = "The machine was started again since then, so how far it came is not recorded."
_NEVER_STARTED = "The command was not run: the agent died before it was started."


async def recover(scratch: Path, limits: Limits) -> Recovered | None:
    """End what is left of the command and say what is known of it; None if it left no folder."""
    return await asyncio.to_thread(_recovered, scratch, limits)


def _recovered(scratch: Path, limits: Limits) -> Recovered | None:
    taken_back = _take_back(scratch)
    if taken_back is not None:
        if taken_back and taken_back == this_boot():
            return Recovered(ToolOutcome("error", _NEVER_STARTED), is_not_started=True)
        return Recovered(None, "", _RESTARTED)
    try:
        marker, _, boot = scratch.joinpath(STARTED).read_text().partition("\n")
    except FileNotFoundError:
        return None
    if boot != this_boot():
        # The supervisor's record was never synced: what is left of it may be a part.
        return Recovered(None, _output(scratch).text, _RESTARTED)
    _wait_for_supervisor(scratch / STARTED)
    killed = kill_marked(marker)
    output = _output(scratch)
    try:
        report = scratch.joinpath(ENDED).read_bytes()
    except FileNotFoundError:
        return Recovered(None, output.text, _unrecorded(killed))
    return _told(ended(report, "", limits), output, limits)


def _take_back(scratch: Path) -> str | None:
    """See to it that a command that nobody has started never is; return the boot it was made ready in."""
    for ready in scratch.glob(f"{READY}*"):
        with suppress(FileNotFoundError):
            boot = ready.read_text().partition("\n")[2]
            ready.unlink()
            return boot
    return None


def _wait_for_supervisor(started: Path) -> None:
    latest = time.monotonic() + _PATIENCE_S
    with _opened(started) as file:
        while time.monotonic() < latest:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            time.sleep(_POLL_S)


def _output(scratch: Path) -> Captured:
    try:
        with _opened(scratch / OUTPUT) as file:
            return captured(file)
    except FileNotFoundError:
        return Captured("", None)


@contextmanager
def _opened(path: Path) -> Generator[int]:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        yield file
    finally:
        os.close(file)


def _told(end: Ended, output: Captured, limits: Limits) -> Recovered:
    if end.reason == "agent":
        note = f"It was stopped {end.after_s:.1f} s after its start because the agent was gone."
        return Recovered(None, output.text, note)
    if end.reason == "cancelled":
        content = (
            f"Interrupted after {end.after_s:.1f} s and stopped; a part of it may have taken effect."
            f" Output so far:\n{output.text or '(none)'}"
        )
        return Recovered(ToolOutcome("interrupted", content, output.full))
    return Recovered(outcome_of(output, end, limits, _AWAY))


def _unrecorded(killed: int) -> str:
    if not killed:
        return "How it ended is not recorded."
    return "How it ended is not recorded; what was left of it was killed now."
