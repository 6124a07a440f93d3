"""Runs file work in a thread such that a cancellation never leaves it half done."""

import asyncio
from collections.abc import Callable

from actions.ports import ToolOutcome
from actions.tools.files import FileProblem


async def done_in_thread(work: Callable[[], str]) -> ToolOutcome:
    """Return what `work` says, or its problem; a cancellation leaves only after the work has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(_outcome, work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # A thread cannot be stopped. What it did is told, not left open.
        raise asyncio.CancelledError((await running).content) from None


def _outcome(work: Callable[[], str]) -> ToolOutcome:
    try:
        return ToolOutcome("ok", work())
    except FileProblem as error:
        return ToolOutcome("error", str(error))
