"""Names processes across machines and restarts, and determines whether a named process has ended.

A runner name is HOST:PID:START:NONCE. START is the start time of the process, so that another process with
the same id has another name.
"""

import os
from functools import lru_cache
from pathlib import Path


def make_runner_name() -> str:
    """Return a name for a runner of a session in this process: HOST:PID:START:NONCE."""
    pid = os.getpid()
    return f"{os.uname().nodename}:{pid}:{_read_own_start(pid)}:{os.urandom(4).hex()}"


@lru_cache(maxsize=1)
def _read_own_start(pid: int) -> str:
    """Return the start time of this process, which stays the same. A forked process has another `pid`."""
    return read_process_start(pid)


def is_process_gone(owner: str) -> bool:
    """Return whether the process of a runner has certainly ended. For another machine this is unknown, so it
    is False.
    """
    parts = owner.split(":")
    if len(parts) != 4 or not parts[1].isdigit():
        return True
    host, pid, since, _ = parts
    if host != os.uname().nodename:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return read_process_start(int(pid)) != since


def read_pid(owner: str) -> int:
    """Return the process id in the name of a runner; 0 if there is none."""
    parts = owner.split(":")
    return int(parts[1]) if len(parts) == 4 and parts[1].isdigit() else 0


def is_process_here(owner: str) -> bool:
    """Return whether the process of a runner is, or was, on this machine."""
    return owner.split(":")[0] == os.uname().nodename


def read_process_start(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; empty if the system does not provide it.

    For a zombie process this is "ended".
    """
    try:
        # The name of the program is in there, cut to 15 bytes, perhaps inside a character.
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    facts = stat.rpartition(")")[2].split()
    if len(facts) < 20:
        return ""
    return facts[19] if facts[0] != "Z" else "ended"
