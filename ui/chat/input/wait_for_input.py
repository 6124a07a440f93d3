"""Waits for the input of a person; ends the wait after a signal or if the terminal is lost."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

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

    with StopSignals(stop, signals=(signal.SIGTERM, signal.SIGHUP)) as signals:
        try:
            return await _await(waiting, leave, look)
        except asyncio.CancelledError:
            if signals.received is None:
                raise
            raise Leave(exit_code(signals.received)) from None
        except OSError:
            raise Leave(exit_code(signal.SIGHUP)) from None


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
