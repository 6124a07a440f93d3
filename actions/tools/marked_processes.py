"""Kills the processes of a call, which carry its marker in their environment, when its supervisor cannot."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from actions.tools.shell_environment import CALL_VARIABLE

_MOST_ROUNDS = 20


def kill_marked(marker: str) -> int:
    """Kill all of them, also those that are started meanwhile; return how many were found."""
    wanted = f"{CALL_VARIABLE}={marker}".encode()
    killed: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        marked = [pid for pid in _pids() if wanted in _environment(pid) and pid != os.getpid()]
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not marked:
            break
        killed.update(marked)
    return len(killed)


def _pids() -> list[int]:
    folder = Path("/proc")
    return [int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()] if folder.is_dir() else []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
