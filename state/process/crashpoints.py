"""Named points where a test can kill the process: `SANDBUR_CRASH_AT=name`, or `name:3` for the third time.

`SANDBUR_CRASH_TRACE=FILE` records the names of the points that were reached.
"""

import os
import signal
from pathlib import Path

_ARMED, _, _COUNT = os.environ.get("SANDBUR_CRASH_AT", "").partition(":")
_TRACE = os.environ.get("SANDBUR_CRASH_TRACE", "")
_left = int(_COUNT) if _COUNT.isdigit() else 1


def reach(name: str) -> None:
    """Kill this process with SIGKILL if the point `name` is armed and this is its turn."""
    global _left
    if _TRACE:
        with Path(_TRACE).open("a") as trace:
            trace.write(f"{name}\n")
    if name != _ARMED:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
