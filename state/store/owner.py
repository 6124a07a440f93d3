"""Who runs a session: a run in a process, named so that its death can be told from another's life."""

import os
import uuid
from pathlib import Path


def new_runner() -> str:
    """Return a name for one who runs a session in this process: HOST:PID:START:NONCE."""
    pid = os.getpid()
    return f"{os.uname().nodename}:{pid}:{_started(pid)}:{uuid.uuid4().hex[:8]}"


def is_alive(owner: str) -> bool:
    """Tell whether its process still runs; one on another machine counts as alive."""
    parts = owner.split(":")
    if len(parts) != 4 or not parts[1].isdigit():
        return False
    host, pid, started, _ = parts
    if host != os.uname().nodename:
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return when the process began, in clock ticks since boot; empty where the system does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
