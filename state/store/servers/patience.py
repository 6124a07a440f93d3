"""How long a server is waited for, and what a person is told meanwhile."""

import random
import threading
import time
from collections.abc import Callable

from state.errors import StoreError
from state.store.servers.server import Trouble

PATIENCE_S = 60.0
_OPENING_PATIENCE_S = 10.0
_NOTICE_AFTER_S = 1.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


class Outage:
    """The time in which a server does not answer: one for all threads, so that it is told and ends once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: float | None = None

    def goes_on(self) -> tuple[bool, float]:
        """Note a failure; return whether it is the first, and how long the outage has lasted."""
        with self._lock:
            is_new = self._began is None
            if self._began is None:
                self._began = time.monotonic()
            return is_new, time.monotonic() - self._began

    def is_over(self) -> bool:
        """Note an answer; return whether it ends an outage."""
        with self._lock:
            began, self._began = self._began, None
        return began is not None


class Call:
    """One piece of work for somebody who may stop waiting for it."""

    def __init__(self, tell: Callable[[str], None], *, is_opening: bool = False) -> None:
        self.tell = tell
        self.is_opening = is_opening
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """Let the work end with its next failure."""
        self._given_up.set()

    def pause(self, seconds: float) -> bool:
        """Return whether to go on after a pause."""
        return not self._given_up.wait(seconds)


class Patience:
    """The failures of one piece of work: which of them are worth another try, and when."""

    def __init__(self, name: str, call: Call, outage: Outage) -> None:
        self._name = name
        self._call = call
        self._outage = outage
        self._began = time.monotonic()
        self._losses = 0
        self._has_told = False
        self._pause_s = _FIRST_PAUSE_S

    def bear(self, trouble: Trouble) -> None:
        """Return when the work is to be tried again; raises `StoreError` when that is hopeless."""
        if trouble.kind == "busy":
            self._bear_busy(trouble)
        elif trouble.kind == "lost" and not self._call.is_opening:
            self._bear_lost(trouble)
        else:
            raise trouble.error from trouble

    def end(self) -> None:
        """The server has answered."""
        if self._outage.is_over():
            self._call.tell(f"The store {self._name} answers again.")

    def _bear_busy(self, trouble: Trouble) -> None:
        waited_s = time.monotonic() - self._began
        if waited_s > (_OPENING_PATIENCE_S if self._call.is_opening else PATIENCE_S):
            raise trouble.error from trouble
        if waited_s > _NOTICE_AFTER_S and not self._has_told:
            self._has_told = True
            self._call.tell(f"{trouble.error.message.removesuffix('.')}; waiting for it.")
        # Two that got into each other's way should not meet again.
        self._wait(random.uniform(0.1, 1) * self._next_pause(), trouble)

    def _bear_lost(self, trouble: Trouble) -> None:
        self._losses += 1
        if self._losses == 1:
            return  # one connection that broke is no outage: a new one may do at once
        is_new, lasted_s = self._outage.goes_on()
        if is_new:
            self._call.tell(f"The store {self._name} does not answer; trying again.")
        if lasted_s > PATIENCE_S:
            message = f"{trouble.error.message} It was tried for {PATIENCE_S:.0f} seconds."
            raise StoreError(message, trouble.error.hint)
        self._wait(self._next_pause(), trouble)

    def _next_pause(self) -> float:
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return pause_s

    def _wait(self, seconds: float, trouble: Trouble) -> None:
        if not self._call.pause(seconds):
            raise trouble.error from trouble
