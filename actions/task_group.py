"""A task group that lets a deliberate error of a task out as it is, not inside of a group."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ..state.errors import SandburError


@asynccontextmanager
async def task_group() -> AsyncGenerator[asyncio.TaskGroup]:
    """Run tasks as `asyncio.TaskGroup` does; raises the first `SandburError` of them."""
    failed: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except* SandburError as errors:
        # Python 3.11.2 wraps what is raised in here in a group again.
        failed = errors.exceptions[0]
    if failed is not None:
        raise failed from None
