"""One thread that writes what many wait for: all that has gathered goes into one transaction."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from ..process.cancellation import settled
from .database import GuardedUpdate, Statement

_MOST_JOBS = 128
_IDLE_S = 5.0
"""After which the thread ends; the next job starts another."""


class Job:
    """What one caller wants to have committed, and waits for in its event loop."""

    def __init__(
        self, statements: Sequence[Statement], guard: GuardedUpdate | None, tell: Callable[[str], None]
    ) -> None:
        self.statements = statements
        self.guard = guard
        self.tell = tell
        self.is_given_up = False
        """True when the caller was cancelled: what has not begun by then need not begin."""
        self.is_settled = False
        self._error: BaseException | None = None
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self.loop.create_future()

    def give_up(self) -> None:
        self.is_given_up = True

    def settle(self, error: BaseException | None) -> None:
        """Note how it ended: None once it is durable."""
        self.is_settled, self._error = True, error

    def answer(self) -> None:
        """Let the caller know; for its own event loop."""
        if self._future.done():
            return
        if self._error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    async def outcome(self) -> None:
        """Wait to the end. Cancelled, the caller knows that nothing was committed; one whose job was
        committed all the same is cancelled right after it."""
        await settled(self._future, self.give_up)


class GroupWriter:
    """Hands jobs to `write`, all that wait at once, in the order in which they came; forks begin anew."""

    def __init__(self, write: Callable[[Sequence[Job]], None]) -> None:
        self._write = write
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """None wakes the thread, and is nothing to do."""
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def take(self, job: Job) -> bool:
        """Return whether the job was taken; it is not where the system starts no further thread."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._is_closed or not self._is_running():
                return False
            self._jobs.put(job)
        return True

    def close(self) -> None:
        """Return when everything that was taken is written."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._jobs.put(None)
        if thread is not None:
            thread.join()

    def _is_running(self) -> bool:
        if self._thread is None:
            # A process that ends without a word does not wait for it: nobody was told of what it leaves.
            thread = threading.Thread(target=self._run, name="sandbur-commits", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        while jobs := self._next():
            error = failure_of(partial(self._write, jobs))
            for job in jobs:
                if not job.is_settled:
                    job.settle(error or RuntimeError("A commit has no end."))
            _answer(jobs)

    def _next(self) -> list[Job]:
        """Return all that wait, but not too many; nothing when the thread is to end."""
        while True:
            found: list[Job] = []
            with suppress(Empty):
                job = self._jobs.get(timeout=_IDLE_S)
                found += [job] if job is not None else []
                while len(found) < _MOST_JOBS:
                    job = self._jobs.get_nowait()
                    found += [job] if job is not None else []
            if found:
                return found
            with self._lock:
                if self._jobs.empty():
                    self._thread = None
                    return []


def failure_of(work: Callable[[], None]) -> Exception | None:
    """Do `work`; return how it failed, for whoever waits for it in another thread."""
    try:
        work()
    except Exception as error:
        return error
    return None


def _answer(jobs: Sequence[Job]) -> None:
    """Wake each event loop once."""
    for loop in {job.loop for job in jobs}:
        answers = [job.answer for job in jobs if job.loop is loop]
        with suppress(RuntimeError):  # the loop has ended: nobody is there to be told
            loop.call_soon_threadsafe(_each, answers)


def _each(answers: Sequence[Callable[[], None]]) -> None:
    for answer in answers:
        answer()
