"""Runs one command, stores its output and result on disk, and ends all of its processes.

Standard input is the line to the agent: a letter asks to stop, its end means that the agent is gone. Standard
output: an empty line whenever the output grew, then the report, one fact a line, and `over`; the report is in
the call's folder before that. As a sub-reaper it becomes the parent of every orphan, so it also finds
processes that left the command's session.
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
"""The last line: no process of the command is left, and there is nothing more to do."""


def supervise(order: Order, report_over: "Callable[[], None] | None" = None) -> None:
    """Run a command until its last process has ended, and then call `report_over`."""
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
    # The pipe has to end with the command.
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
    """The sandbox of the command; without steps there is none."""

    def __init__(self, steps: int, around: str) -> None:
        self.around = {around.rpartition("/")[2]} if around else set[str]()
        """Names of processes that do not belong to the command."""
        self._inside = None
        if steps >= 0:
            self._inside = load_sandbox().Confinement(steps)
            self.around.add(self._inside.name)

    def enter(self) -> None:
        """Confine the calling process. Raises `OSError`, and then nothing may be run."""
        if self._inside is not None:
            self._inside.enter()

    def clear(self) -> str:
        """Move away forbidden files that the command created, after it has ended; return the facts for the
        report."""
        return self._inside.clear() if self._inside is not None else ""


def load_sandbox() -> "Any":
    """Import what confines; costs start-up time, so only where it is needed."""
    if _INSIDE not in sys.path:
        # As a separate program this module has no package.
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
