"""How work that was begun ends: waits that no cancellation cuts short, a group that names its error."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ..errors import SandburError

ResultT = TypeVar("ResultT")


def _nothing() -> None:
    pass


async def _done(work: asyncio.Future[Any]) -> None:
    """Wait as `asyncio.wait([work])` does, which makes more of it."""
    waiter = asyncio.get_running_loop().create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    work.add_done_callback(wake)
    try:
        await waiter
    finally:
        work.remove_done_callback(wake)


async def over(
    work: asyncio.Future[Any], on_cancel: Callable[[], object] = _nothing
) -> asyncio.CancelledError | None:
    """Wait until `work` is over, however often we are cancelled; return the cancellation, to be raised.

    `on_cancel` is called with the first one. A failure of `work` counts as seen.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await _done(work)
        except asyncio.CancelledError as error:
            if cancelled is None:
                on_cancel()
            cancelled = error
    if not work.cancelled():
        work.exception()
    return cancelled


async def settled(work: asyncio.Future[ResultT], on_cancel: Callable[[], object] = _nothing) -> ResultT:
    """Wait for work that another thread does. Cancelled, it waits all the same: whoever gets the cancellation
    knows that nothing was done, and whoever gets a result is cancelled right after it.
    """
    if await over(work, on_cancel) is None:
        return work.result()
    if work.cancelled() or work.exception() is not None:
        raise asyncio.CancelledError
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()
    return work.result()


async def to_the_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await `work` whatever happens; a cancellation leaves when it is over, unless a failure says more."""
    task = asyncio.ensure_future(work)
    cancelled = await over(task)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


_unfinished: set[asyncio.Future[Any]] = set()
"""The event loop holds its tasks by weak references only."""


async def in_background(work: Awaitable[ResultT]) -> ResultT:
    """Await `work` in a task of its own, which no cancellation of the caller ends.

    A caller that is cancelled once still waits for it. Cancelled a second time it does not: a scope of anyio
    cancels again and again, until the task returns.
    """
    task = asyncio.ensure_future(work)
    _unfinished.add(task)
    task.add_done_callback(_forget)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
    return task.result()


def _forget(task: asyncio.Future[Any]) -> None:
    _unfinished.discard(task)
    if not task.cancelled():
        task.exception()  # else asyncio logs an error that no caller retrieved


@asynccontextmanager
async def task_group() -> AsyncGenerator[asyncio.TaskGroup]:
    """Run tasks as `asyncio.TaskGroup` does; the first `SandburError` of them leaves as it is."""
    failed: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* SandburError as errors:
        # Python 3.11.2 wraps what is raised in here in a group again.
        failed = errors.exceptions[0]
    if failed is not None:
        raise failed from None
