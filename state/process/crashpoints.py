"""Named points where a test can kill the process. `SANDBUR_CRASH_AT=name` selects the point, and `name:3`
selects its third occurrence.

`SANDBUR_CRASH_TRACE=FILE` records the names of the points that were reached.
"""

import os
import signal
from pathlib import Path

_ARMED, _, _COUNT = os.environ.get("SANDBUR_CRASH_AT", "").partition(":")
_TRACE = os.environ.get("SANDBUR_CRASH_TRACE", "")
_left = int(_COUNT) if _COUNT.isdigit() else 1


def reach(name: str) -> None:
    """Kill this process with SIGKILL if `SANDBUR_CRASH_AT` selects this occurrence of the point `name`."""
    global _left
    if _TRACE:
        with Path(_TRACE).open("a") as trace:
            trace.write(f"{name}\n")
    if name != _ARMED:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
