"""Calls functions of any kind: async or not, with one return value or a stream of values."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar, cast

ResultT = TypeVar("ResultT")

_IDLE_S = 20.0
"""The time in seconds that a thread waits for its next job."""

STREAM_ENDED = object()


class Pieces(list[Any]):
    """The values of a stream, in order."""


async def call_function(work: Callable[[], Any], is_async: bool, show: Callable[[str], None]) -> Any:
    """Call a function and return its result, or the `Pieces` of a stream. Texts of a stream are displayed at
    once.

    A function that is not async runs in a thread with the context variables of this task. A cancelled stream
    keeps its values so far. A thread cannot be stopped, but after a cancellation nothing waits for it.
    """
    result = work() if is_async else await in_thread(work)
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        return await _read(cast(AsyncIterator[Any], result), show)
    if inspect.isgenerator(result):
        return await _read(_iterate_in_thread(result), show)
    return result


async def _read(stream: AsyncIterator[Any], show: Callable[[str], None]) -> Pieces:
    pieces = Pieces()
    try:
        async for piece in stream:
            pieces.append(piece)
            if isinstance(piece, str):
                show(piece)
    except asyncio.CancelledError as cancelled:
        text = "".join(piece for piece in pieces if isinstance(piece, str))
        raise asyncio.CancelledError(text) from cancelled
    finally:
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()
    return pieces


async def _iterate_in_thread(stream: Iterator[Any]) -> AsyncIterator[Any]:
    """Yield the values of a blocking generator, each computed in a thread."""
    while (piece := await in_thread(lambda: next(stream, STREAM_ENDED))) is not STREAM_ENDED:
        yield piece


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Run blocking work in a thread. Neither a cancellation nor the end of the process waits for the
    thread.
    """
    loop = asyncio.get_running_loop()
    end: asyncio.Future[ResultT] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        with _Handing(loop, end) as hand:
            hand.over(context.run(work))

    _do(run)
    return await end


class _Worker:
    """A thread that waits for jobs for some time. Unlike with the threads of an executor, the process end
    does not wait for it.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="sandbur-tool", daemon=True).start()

    def give(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def _run(self) -> None:
        while self._do_next():
            _idle.append(self)

    def _do_next(self) -> bool:
        """Run the next job. Return False if no job came for so long that the thread may end."""
        while True:
            try:
                self._work.get(timeout=_IDLE_S)()
            except queue.Empty:
                try:
                    _idle.remove(self)
                except ValueError:
                    continue  # Another thread took this worker just now and will give it a job.
                return False
            return True


_idle: deque[_Worker] = deque()
# A child process does not inherit the threads of its parent.
os.register_at_fork(after_in_child=_idle.clear)


def _do(work: Callable[[], None]) -> None:
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.give(work)


class _Handing:
    """Passes the result or the exception of a thread to the waiting event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._end = end

    def over(self, result: Any) -> None:
        self._deliver(self._end.set_result, result)

    def __enter__(self) -> _Handing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if error is None:
            return True
        if isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
            # A future does not accept the first of these exceptions, and the others would end the process.
            error = RuntimeError(f"it raised {type(error).__name__}({error})")
        self._deliver(self._end.set_exception, error)
        return True

    def _deliver(self, settle: Callable[[Any], None], what: Any) -> None:
        def deliver() -> None:
            if not self._end.done():
                settle(what)

        # After the loop is closed, nothing waits for the result.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(deliver)
