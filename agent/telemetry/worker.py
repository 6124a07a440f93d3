"""A thread of its own for telemetry's work: a run hands it over and goes on."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Worker:
    """Does one thing after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def do(self, work: Callable[[], None]) -> None:
        """Have `work` done soon; never waits."""
        self._work.put(work)

    def end(self, timeout_s: float) -> None:
        """Wait until everything is done, but not longer than this."""
        self._work.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
