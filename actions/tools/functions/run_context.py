"""The context of a call for the tool's function."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ...ports import ToolContext

DepsT = TypeVar("DepsT", default=None)


def _show_nothing(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class RunContext(Generic[DepsT]):
    """The current run and its call; a parameter with this annotation is filled in. Usable from every thread.

    `RunContext[Deps]` says that the run needs `deps=` of this type; `RunContext` alone needs none. Where no
    tool runs (instructions, middleware, output validators) `tool`, `call_id` and `idempotency_key` are empty.
    """

    tool: str
    session_id: str
    call_id: str
    idempotency_key: str
    """The same whenever this call is run again, after a crash too: give it to the service that is called."""
    workspace: Path
    """The working folder of the session."""
    emit: Callable[[str], None]
    """Show live output. Nothing of it reaches the model; after the end of the call nothing happens."""
    deps: DepsT = field(default=cast("DepsT", None), repr=False)
    """The very object that was passed as `deps=`; it is never stored."""
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def is_cancelled(self) -> bool:
        """True once nobody waits for the result: a function in a thread should end then."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Detach from the call, however it ended."""
        self._stopped.set()

    @staticmethod
    def of(tool: str, context: ToolContext) -> RunContext[Any]:
        """Make the context of a call that runs on this event loop."""
        stopped = threading.Event()
        emit = _live_output(context.emit, stopped)
        key, deps = context.idempotency_key, context.inputs.deps
        return RunContext(tool, context.session_id, context.call_id, key, context.cwd, emit, deps, stopped)

    @staticmethod
    def of_run(session_id: str, workspace: Path, deps: Any) -> RunContext[Any]:
        """Make the context of a run outside of its tool calls."""
        return RunContext("", session_id, "", "", workspace, _show_nothing, deps)


def _live_output(show: Callable[[str], None], stopped: threading.Event) -> Callable[[str], None]:
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def emit_here(text: str) -> None:
        if not stopped.is_set():
            show(text)

    def emit(text: str) -> None:
        if threading.get_ident() == home:
            emit_here(text)
        elif not stopped.is_set() and not loop.is_closed():
            loop.call_soon_threadsafe(emit_here, text)

    return emit
