"""Waits that a cancellation does not end early, and a task group that raises its first error."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from ..errors import SandburError

ResultT = TypeVar("ResultT")


def _do_nothing() -> None:
    pass


async def _wait_for(work: asyncio.Future[Any]) -> None:
    """Wait for `work` like `asyncio.wait([work])`, but with less overhead."""
    waiter = asyncio.get_running_loop().create_future()

    def wake(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    work.add_done_callback(wake)
    try:
        await waiter
    finally:
        work.remove_done_callback(wake)


async def wait_until_done(
    work: asyncio.Future[Any], on_cancel: Callable[[], object] = _do_nothing
) -> asyncio.CancelledError | None:
    """Wait until `work` is done, even if the caller is cancelled. Return the cancellation, which the caller
    must raise.

    `on_cancel` is called at the first cancellation. An exception of `work` counts as retrieved.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await _wait_for(work)
        except asyncio.CancelledError as error:
            if cancelled is None:
                on_cancel()
            cancelled = error
    if not work.cancelled():
        work.exception()
    return cancelled


async def wait_uncancelled(
    work: asyncio.Future[ResultT], on_cancel: Callable[[], object] = _do_nothing
) -> ResultT:
    """Wait for work in another thread, even if the caller is cancelled.

    If this raises `CancelledError`, the work was not done. If the work was done, this returns the result, and
    the caller is cancelled right after that.
    """
    if await wait_until_done(work, on_cancel) is None:
        return work.result()
    if work.cancelled() or work.exception() is not None:
        raise asyncio.CancelledError
    if task := asyncio.current_task():
        task.uncancel()
        task.cancel()
    return work.result()


async def run_in_thread(work: Callable[..., ResultT], *arguments: Any) -> ResultT:
    """Run `work` in a thread, and wait for its end even if the caller is cancelled.

    So nothing that `work` uses is closed meanwhile. A cancellation is raised afterwards.
    """
    # A task would be cancelled by `asyncio.run` while its thread goes on.
    future = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments))
    cancelled = await wait_until_done(future)
    result = future.result()
    if cancelled is not None:
        raise cancelled
    return result


async def run_to_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await `work` to its end. A cancellation is raised afterwards, unless `work` fails."""
    task = asyncio.ensure_future(work)
    cancelled = await wait_until_done(task)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


_unfinished: set[asyncio.Future[Any]] = set()
"""References to the tasks, because the event loop holds only weak ones."""


async def run_in_background(work: Awaitable[ResultT]) -> ResultT:
    """Await `work` in a separate task, which a cancellation of the caller does not end.

    After the first cancellation the caller still waits for `work`, after the second it does not: a scope of
    anyio cancels repeatedly until the task returns.
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
        task.exception()  # otherwise asyncio logs that no caller retrieved the error


@asynccontextmanager
async def task_group() -> AsyncGenerator[asyncio.TaskGroup]:
    """Run tasks like `asyncio.TaskGroup`. The first `SandburError` of a task is raised without a group around
    it.
    """
    failed: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* SandburError as errors:
        # Python 3.11.2 would wrap an exception that is raised here in a group again.
        failed = errors.exceptions[0]
    if failed is not None:
        raise failed from None


def is_in_loop() -> bool:
    """Return whether the caller runs in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
