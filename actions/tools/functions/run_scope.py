"""Holds resources that are opened once and closed at the end of a run, or at the end of one call."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Hashable
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from ....state.process.cancellation import run_to_end

_CLOSE_S = 10.0
"""The time limit for closing one resource, in seconds."""
_ABANDON_S = 1.0


@contextmanager
def _convert_system_exit() -> Generator[None]:
    """Convert `SystemExit` to an error, because it would end the process if a task raises it."""
    try:
        yield
    except SystemExit as left:
        raise RuntimeError(f"it called sys.exit({left.code!r})") from left


class _Kept:
    """A resource that is opened and closed by its own task, so that any call may use it."""

    def __init__(self, name: str, manager: AbstractAsyncContextManager[Any]) -> None:
        self.name = name
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._release = asyncio.Event()
        self._is_open = False
        self.task = asyncio.create_task(self._keep(manager))
        self.task.add_done_callback(self._report_end)

    async def _keep(self, manager: AbstractAsyncContextManager[Any]) -> None:
        with _convert_system_exit():
            async with manager as value:
                self._is_open = True
                self.opened.set_result(value)
                await self._release.wait()

    def _report_end(self, task: asyncio.Task[None]) -> None:
        """Report the error to the callers that wait for a resource that did not open."""
        if self.opened.done():
            return
        failed = None if task.cancelled() else task.exception()
        self.opened.set_exception(failed or RuntimeError(f"{self.name} was closed before it had opened"))
        # The exception is read here, because no caller may be left to read it.
        self.opened.exception()

    async def close(self, within_s: float) -> str:
        """Close the resource. Return the error as a sentence, or an empty text."""
        self._release.set()
        if not self._is_open:
            self.task.cancel()
        await asyncio.wait([self.task], timeout=within_s)
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task], timeout=_ABANDON_S)
            return f"{self.name} did not close within {within_s:g} s."
        failed = None if self.task.cancelled() else self.task.exception()
        if failed is None or not self._is_open:
            return ""
        return f"{self.name} failed when it was closed: {type(failed).__name__}: {failed}"


class RunScope:
    """Holds open resources by key. It can be used again after it was closed."""

    def __init__(self, close_s: float = _CLOSE_S) -> None:
        """`close_s` is the time limit for closing one resource, in seconds."""
        self._close_s = close_s
        self._values: dict[Hashable, asyncio.Future[Any]] = {}
        self._kept: list[_Kept] = []

    async def value(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return the value of `make`, which is called once for all concurrent and later callers.

        If one caller is cancelled, the others still get the value. After a failure, the next caller tries
        again.
        """
        made = self._values.get(key)
        if made is None:
            made = self._values[key] = asyncio.ensure_future(self._make(make))
            made.add_done_callback(lambda future: self._forget_failure(key, future))
        return await asyncio.shield(made)

    async def _make(self, make: Callable[[], Awaitable[Any]]) -> Any:
        with _convert_system_exit():
            return await make()

    async def enter(self, name: str, manager: AbstractAsyncContextManager[Any]) -> Any:
        """Enter a context manager. When the scope is closed, its context managers are exited in reverse
        order.
        """
        kept = _Kept(name, manager)
        self._kept.append(kept)
        return await asyncio.shield(kept.opened)

    async def aclose(self) -> list[str]:
        """Close all resources, even if the caller is cancelled. Return the errors, one sentence each."""
        if not self._values and not self._kept:
            return []
        return await run_to_end(self._close_all())

    async def _close_all(self) -> list[str]:
        waiting = [made for made in self._values.values() if not made.done()]
        for made in waiting:
            made.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=self._close_s)
        self._values.clear()
        problems: list[str] = []
        while self._kept:
            problems.append(await self._kept.pop().close(self._close_s))
        return [problem for problem in problems if problem]

    def _forget_failure(self, key: Hashable, made: asyncio.Future[Any]) -> None:
        if (made.cancelled() or made.exception() is not None) and self._values.get(key) is made:
            del self._values[key]
