"""Who runs a session: a run in a process, named so that its death can be told from another's life."""

import os
import uuid
from pathlib import Path


def new_runner() -> str:
    """Return a name for one who runs a session in this process: HOST:PID:START:NONCE."""
    pid = os.getpid()
    return f"{os.uname().nodename}:{pid}:{_started(pid)}:{uuid.uuid4().hex[:8]}"


def is_gone(owner: str) -> bool:
    """Tell whether its process is known to have ended; of one on another machine nothing is known."""
    parts = owner.split(":")
    if len(parts) != 4 or not parts[1].isdigit():
        return True
    host, pid, started, _ = parts
    if host != os.uname().nodename:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return _started(int(pid)) != started


def is_here(owner: str) -> bool:
    """Tell whether its process runs, or ran, on this machine."""
    return owner.split(":")[0] == os.uname().nodename


def _started(pid: int) -> str:
    """Return when the process began, in clock ticks since boot; empty where the system does not say.

    One that has ended and is only waited for says nothing either.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    facts = stat.rpartition(")")[2].split()
    return facts[19] if facts[0] != "Z" else "ended"
