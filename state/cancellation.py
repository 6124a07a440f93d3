"""Waits that a cancellation does not cut short: it leaves when what was begun is over."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def _nothing() -> None:
    pass


async def over(
    work: "asyncio.Future[Any]", on_cancel: Callable[[], object] = _nothing
) -> asyncio.CancelledError | None:
    """Wait until `work` is over, however often we are cancelled; return the cancellation, to be raised.

    `on_cancel` is called with the first one. A failure of `work` counts as seen.
    """
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            if cancelled is None:
                on_cancel()
            cancelled = error
    if not work.cancelled():
        work.exception()
    return cancelled


async def to_the_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Await `work` whatever happens; a cancellation leaves when it is over, unless a failure says more."""
    task = asyncio.ensure_future(work)
    cancelled = await over(task)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
