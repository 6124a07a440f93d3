"""Who writes a session: a process, named so that its death can be told from another's life."""

import os
from pathlib import Path


def this_process() -> str:
    pid = os.getpid()
    return f"{os.uname().nodename}:{pid}:{_started(pid)}"


def is_alive(owner: str) -> bool:
    """Tell whether the process still runs; one on another machine counts as alive."""
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    started = owner.rpartition(":")[2]
    if not host or not rest.isdigit():
        return False
    if host != os.uname().nodename:
        return True
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(int(rest)) == started


def _started(pid: int) -> str:
    """Return when the process began, in clock ticks since boot; empty where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
