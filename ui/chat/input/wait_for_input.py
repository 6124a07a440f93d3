"""Waits for the input of a person; ends the wait after a signal or if the terminal is lost."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from ....state.errors import SandburError
from ...terminal.drive import StopSignals, exit_code
from .composer import Leave

AnswerT = TypeVar("AnswerT")
_Look = Callable[[], Awaitable[SandburError | None]]
"""Checks for changes by other processes; if it returns an error, the wait ends with this error."""

_LOOK_S = 1.0
END_S = 2.0
"""Seconds for a prompt to restore the terminal; on a dead one prompt_toolkit can wait forever."""


async def at_prompt(
    answer: Coroutine[None, None, AnswerT], leave: Callable[[int], bool], look: _Look | None = None
) -> AnswerT:
    """Return the result of `answer`. Raises `Leave` after SIGTERM or if the terminal is lost.

    `leave` ends the prompt with an exit code. `look` is called every second; an error that it returns ends
    the prompt, if possible, and is raised.
    """
    waiting = asyncio.ensure_future(answer)

    def stop() -> None:
        if signals.received is None:
            return
        if leave(exit_code(signals.received)):
            asyncio.get_running_loop().call_later(END_S, waiting.cancel)
        else:
            waiting.cancel()

    with StopSignals(stop, signals=(signal.SIGTERM, signal.SIGHUP)) as signals, _lost_terminal() as lost:
        lost.add_done_callback(lambda _: waiting.cancel())
        try:
            return await _await(waiting, leave, look)
        except asyncio.CancelledError:
            if signals.received is None and not lost.done():
                raise
            raise Leave(exit_code(signals.received or signal.SIGHUP)) from None
        except (OSError, EOFError):
            raise Leave(exit_code(signal.SIGHUP)) from None


@contextmanager
def _lost_terminal() -> Generator[asyncio.Future[None]]:
    """Yield a future that ends when a prompt cannot read its terminal any more.

    prompt_toolkit would ask for a key in that terminal, at each of the failures, and never end.
    """
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    previous = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), OSError):
            (previous or type(loop).default_exception_handler)(loop, context)
        elif not lost.done():
            lost.set_result(None)

    loop.set_exception_handler(handle)
    try:
        yield lost
    finally:
        loop.set_exception_handler(previous)
        lost.cancel()


async def _await(
    waiting: asyncio.Future[AnswerT], leave: Callable[[int], bool], look: _Look | None
) -> AnswerT:
    try:
        while look is not None and not (await asyncio.wait([waiting], timeout=_LOOK_S))[0]:
            found = await look()
            if found is not None and not waiting.done() and leave(0):
                await asyncio.gather(waiting, return_exceptions=True)
                raise found
        return await waiting
    finally:
        waiting.cancel()
