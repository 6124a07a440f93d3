"""Waits for the end of a command or a reason to stop it, and then for the end of its remaining processes."""

import os
import select
import time
from _collections_abc import Callable

from .own_process import Ignoring
from .processes import children, descendants, reads_a_terminal, signal_group, signal_tree, switches, tasks
from .pump import Pump

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

LINGER_S = 0.15
"""The seconds that remaining processes have to end by themselves. `> >(tee log)` needs this time."""
LEFTOVER_GRACE_S = 0.4
STOP_GRACE_S = 2.0
ORPHAN_LINGER_S = 0.15
"""The seconds that a command has to end by itself after the agent has died."""
ORPHAN_GRACE_S = 0.25
"""The seconds after SIGTERM without an agent. The processes must not outlive the agent by more than a
second.
"""
KILLING_S = 3.0
MOST_PROCESSES = 1000
QUIET_S = 8.0
"""After this many seconds without output, check twice whether the command waits for input."""
REASONS = {b"t": "timeout", b"i": "idle", b"c": "cancelled"}
"""Maps the agent's message to stop the command to the reason."""

_CHECK_S = 0.25
_CHECK_AGAIN_S = 0.05
"""The seconds between checks of all processes. A check for every piece of output would be too slow."""


class Watch:
    """Waits for the shell, and then for its remaining processes."""

    def __init__(self, shell: int, pump: Pump, around: set[str]) -> None:
        self._shell = shell
        self._around = around
        self._pump = pump
        self._began = time.monotonic()
        self._after_s = 0.0
        self._status: int | None = None
        self._reason = ""
        self._left: list[str] = []
        self._too_many = self._survivors = 0
        self._is_orphan = self._is_stopping = False
        self._deadline = 0.0
        self._next: Callable[[], None] | None = None
        self._tasks_before = tasks()
        self._next_check = 0.0
        self._next_question = self._began + QUIET_S
        self._asking = ""
        self._stillness: object = None

    def run(self, wake: int) -> None:
        """Watch the command and return when no process is left. `wake` is the pipe that receives signals."""
        poll = select.poll()
        for descriptor in (wake, 0, self._pump.source):
            poll.register(descriptor, select.POLLIN)
        while self._reap():
            for descriptor, _ in poll.poll(self._patience_ms()):
                if descriptor == 0:
                    self._listen(poll)
                elif descriptor == self._pump.source:
                    self._carry(poll)
                elif signal.SIGTERM in os.read(wake, 512):
                    self._stop("signal", STOP_GRACE_S)
            self._pump.tell()
            if self._next is not None and time.monotonic() >= self._deadline:
                self._next()
            elif self._next is None:
                self._stop_a_flood()
                self._stop_a_question()
        while self._pump.carry():
            pass

    @property
    def has_survivors(self) -> bool:
        """Return whether some processes could not be killed."""
        return self._survivors > 0

    def report(self) -> str:
        """Return the report about the end of the command, one fact per line."""
        facts = [f"status {self._status}"] if self._status is not None else []
        facts += [f"after {self._after_s:.3f}"]
        facts += [f"stopped {self._reason}"] if self._reason else []
        facts += ["full"] if self._pump.is_full else []
        facts += [f"lost {self._pump.error}"] if self._pump.error else []
        facts += [f"left {name}" for name in self._left]
        facts += [f"too_many {self._too_many}"] if self._too_many else []
        facts += [f"survivors {self._survivors}"] if self._survivors else []
        facts += [f"asking {self._asking}"] if self._asking else []
        return "".join(f"{fact}\n" for fact in facts)

    def _patience_ms(self) -> float:
        until = _CHECK_S if self._next is None else self._deadline - time.monotonic()
        news = self._pump.patience_s()
        return max(until if news is None else min(until, news), 0) * 1000 + 1

    def _schedule(self, next_step: Callable[[], None], after_s: float) -> None:
        self._next, self._deadline = next_step, time.monotonic() + after_s

    def _reap(self) -> bool:
        """Collect the ended processes. Return whether there are more to wait for."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return not self._survivors
                if pid == self._shell:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._after_s = time.monotonic() - self._began
                    if not self._is_stopping:
                        self._schedule(self._end_leftovers, 0 if self._is_orphan else LINGER_S)
        except ChildProcessError:
            signal_group(self._shell, signal.SIGKILL)
            return False

    def _carry(self, poll: "select.poll") -> None:
        self._pump.carry()
        self._next_question = time.monotonic() + QUIET_S
        if self._pump.is_over:
            poll.unregister(self._pump.source)
        if self._pump.is_full or self._pump.error:
            self._stop("output", STOP_GRACE_S)

    def _listen(self, poll: "select.poll") -> None:
        if asked := os.read(0, 64):
            self._stop(REASONS.get(asked[:1], "cancelled"), STOP_GRACE_S)
            return
        poll.unregister(0)
        self._is_orphan = True
        if self._is_stopping or self._status is not None:
            self._stop("agent", ORPHAN_GRACE_S)
        else:
            self._schedule(lambda: self._stop("agent", ORPHAN_GRACE_S), ORPHAN_LINGER_S)

    def _stop(self, reason: str, grace_s: float) -> None:
        # A request to stop that came after the end of the command is not the reason of its end.
        if self._status is None:
            self._reason = self._reason or reason
        if self._is_orphan:
            grace_s = min(grace_s, ORPHAN_GRACE_S)
        if not self._is_stopping or time.monotonic() + grace_s < self._deadline:
            self._is_stopping = True
            self._terminate(grace_s)

    def _end_leftovers(self) -> None:
        self._left = [f"{pid} {name}" for pid, name in descendants() if name and name not in self._around]
        self._is_stopping = True
        self._terminate(ORPHAN_GRACE_S if self._is_orphan else LEFTOVER_GRACE_S)

    def _terminate(self, grace_s: float) -> None:
        signal_tree(self._shell, signal.SIGTERM)
        # A stopped process handles SIGTERM only after SIGCONT.
        signal_tree(self._shell, signal.SIGCONT)
        self._schedule(self._kill, grace_s)

    def _kill(self) -> None:
        give_up = time.monotonic() + KILLING_S
        self._kill_the_first()
        signal_tree(self._shell, signal.SIGKILL)
        self._schedule(lambda: self._kill_again(give_up), 0.02)

    def _kill_the_first(self) -> None:
        """Kill the nearest processes before listing all others: if the first process of a sandbox ends, all
        others end.
        """
        for parent in (os.getpid(), self._shell):
            for pid in children(parent):
                with Ignoring(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _kill_again(self, give_up: float) -> None:
        """Kill again, because processes may have started between listing and killing."""
        alive = signal_tree(self._shell, signal.SIGKILL)
        if time.monotonic() > give_up:
            self._survivors = max(alive, 1)
        self._schedule(lambda: self._kill_again(give_up), 0.05)

    def _stop_a_flood(self) -> None:
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_AGAIN_S
        if tasks() - self._tasks_before > MOST_PROCESSES:
            count = len(descendants())
            if count > MOST_PROCESSES:
                self._too_many = count
                self._reason = "flood"
                self._is_stopping = True
                self._kill()

    def _stop_a_question(self) -> None:
        """End a silent command that waits for input from a terminal, which has no user."""
        if time.monotonic() < self._next_question:
            return
        self._next_question = time.monotonic() + QUIET_S
        found = [one for one in descendants() if one[1]]
        asking = next((one for one in found if reads_a_terminal(one[0])), None)
        # A program of the command may control that terminal. In this case other processes are active.
        before, self._stillness = self._stillness, [(pid, switches(pid)) for pid, _ in found]
        if asking is not None and before == self._stillness:
            self._asking = asking[1]
            self._stop("input", STOP_GRACE_S)
