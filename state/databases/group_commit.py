"""A thread that writes the commits of many callers. All waiting commits go into one transaction."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from ..process.cancellation import wait_uncancelled
from .database import GuardedUpdate, Statement

_MOST_JOBS = 128
_IDLE_S = 5.0
"""The seconds without a job after which the thread ends. The next job starts a new thread."""


class Job:
    """One commit. A caller waits for it in its event loop."""

    def __init__(
        self, statements: Sequence[Statement], guard: GuardedUpdate | None, tell: Callable[[str], None]
    ) -> None:
        self.statements = statements
        self.guard = guard
        self.tell = tell
        self.is_given_up = False
        """Whether the caller was cancelled. Then a job that has not started need not start."""
        self.is_settled = False
        self._error: BaseException | None = None
        self.loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self.loop.create_future()

    def run(self, work: Callable[[Sequence[Statement], GuardedUpdate | None], None]) -> Exception | None:
        """Run `work` with the statements and the guard. Return its exception, or None."""
        return _catch_failure(partial(work, self.statements, self.guard))

    async def yield_to_loop(self) -> None:
        """Let the other tasks of the caller's event loop run once."""
        await asyncio.sleep(0)

    def cancel(self) -> None:
        """Settle the job as cancelled. Nothing of it was committed."""
        self.settle(asyncio.CancelledError())

    def give_up(self) -> None:
        self.is_given_up = True

    def settle(self, error: BaseException | None) -> None:
        """Record the outcome. `error` is None if the commit is durable."""
        self.is_settled, self._error = True, error

    def answer(self) -> None:
        """Complete the caller's future. Called in the event loop of the caller."""
        if self._future.done():
            return
        if self._error is None:
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    async def outcome(self) -> None:
        """Wait for the end of the job. If this raises a cancellation, nothing was committed. If the job was
        committed although the caller was cancelled, the caller is cancelled right after this returns.
        """
        await wait_uncancelled(self._future, self.give_up)


class GroupWriter:
    """Passes all waiting jobs to `write`, in order. A forked process starts with an empty queue."""

    def __init__(self, write: Callable[[Sequence[Job]], None]) -> None:
        self._write = write
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """The waiting jobs. None wakes the thread without a job."""
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def take(self, job: Job) -> bool:
        """Return whether the job was accepted. It is not if the writer is closed or no thread can be
        started.
        """
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._is_closed or not self._is_running():
                return False
            self._jobs.put(job)
        return True

    def close(self) -> None:
        """Return after all accepted jobs are written."""
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
            # A daemon thread does not delay the end of the process. Its unfinished jobs were not confirmed.
            thread = threading.Thread(target=self._run, name="sandbur-commits", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        while jobs := self._next():
            error = _catch_failure(partial(self._write, jobs))
            for job in jobs:
                if not job.is_settled:
                    job.settle(error or RuntimeError("A commit has no outcome."))
            _answer(jobs)

    def _next(self) -> list[Job]:
        """Return the waiting jobs, up to a limit. Return no jobs if the thread must end."""
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


def _catch_failure(work: Callable[[], None]) -> Exception | None:
    """Run `work`. Return its exception, for a caller in another thread, or None."""
    try:
        work()
    except Exception as error:
        return error
    return None


def _answer(jobs: Sequence[Job]) -> None:
    """Wake each event loop once."""
    for loop in {job.loop for job in jobs}:
        answers = [job.answer for job in jobs if job.loop is loop]
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(_call_each, answers)


def _call_each(answers: Sequence[Callable[[], None]]) -> None:
    for answer in answers:
        answer()
