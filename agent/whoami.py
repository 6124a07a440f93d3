"""Who uses this process, as records name people."""

import os
import pwd
from functools import cache

from state.messages import encodable

_MAX_CHARS = 120


@cache
def whoami() -> str:
    """Return what `SANDBUR_USER` says, for a bot that passes people's decisions on; else user@host."""
    if named := " ".join(os.environ.get("SANDBUR_USER", "").split()):
        return encodable(named)[:_MAX_CHARS]
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # accounts in containers need no name
        name = str(uid)
    return encodable(f"{name}@{os.uname().nodename}")
