"""Runs one command, stores its output and result on disk, and ends all of its processes.

Standard input comes from the agent: a letter requests to stop the command, the end of the input means that
the agent is gone. Standard output goes to the agent: an empty line whenever the output grew, then the report
with one fact per line, and `over`. Before that, the report is written to the call's folder. As a sub-reaper,
this process becomes the parent of every orphan, so it also finds processes that left the command's session.
"""

import os
import resource
import select
import sys

from .claim import OUTPUT, claim, record
from .order import Order
from .own_process import Ignoring, adopt_orphans, fork, waker
from .pump import Pump
from .watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OVER = b"over\n"
"""The last line: no process of the command is left, and the supervisor has finished."""


def supervise(order: Order, report_over: "Callable[[], None] | None" = None) -> None:
    """Run a command until its last process has ended. Then call `report_over`."""
    wake = waker()
    adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if _is_abandoned():
        return
    if not claim(order.folder, order.marker):
        os.write(1, b"refused\n")
        return
    source, sink = os.pipe()
    pump = Pump(source, f"{order.folder}/{OUTPUT}", order.most_bytes)
    sandbox = _Sandbox(order.steps, order.around)
    watch = Watch(_start(order, sink, sandbox), pump, sandbox.around)
    # The pipe must end when the command ends.
    os.close(sink)
    watch.run(wake)
    report = (watch.report() + sandbox.clear()).encode()
    record(order.folder, report)
    if report_over is not None and not watch.has_survivors:
        report_over()
    os.set_blocking(1, True)
    with Ignoring(OSError):
        os.write(1, report + OVER)


def _is_abandoned() -> bool:
    """Return whether the agent died before this process was ready."""
    poll = select.poll()
    poll.register(0, 0)
    return bool(poll.poll(0))


class _Sandbox:
    """The sandbox of the command. Without steps there is none."""

    def __init__(self, steps: int, around: str) -> None:
        self.around = {around.rpartition("/")[2]} if around else set[str]()
        """The names of processes that do not belong to the command."""
        self._inside = None
        if steps >= 0:
            self._inside = load_sandbox().Confinement(steps)
            self.around.add(self._inside.name)

    def enter(self) -> None:
        """Confine the calling process. Raises `OSError`; then the command must not run."""
        if self._inside is not None:
            self._inside.enter()

    def clear(self) -> str:
        """Move away forbidden files that the command created, after the command has ended. Return the lines
        for the report.
        """
        return self._inside.clear() if self._inside is not None else ""


def load_sandbox() -> "Any":
    """Import the module that enters a sandbox. The import takes time, so it happens only when it is
    needed.
    """
    if _INSIDE not in sys.path:
        # This module has no package if it runs as a separate program.
        sys.path.insert(0, _INSIDE)
    return __import__("enter")


_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 -- pathlib costs start-up time
_INSIDE = f"{os.path.dirname(_HERE)}/sandbox/inside"  # noqa: PTH120


def _start(order: Order, sink: int, sandbox: _Sandbox) -> int:
    def run() -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sandbox.enter()
        os.execve(order.command[0], order.command, order.environment)

    return fork(run, order.command[0])
