"""The context of a call, which the function of a tool can use."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ....state.lazy_dataclass import dataclass
from ...ports import ToolContext, UserInput
from ...ports.user_input import UserQuestion
from .results import ToolError

_POLL_S = 0.5

DepsT = TypeVar("DepsT", default=None)


def _show_nothing(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class RunContext(Generic[DepsT]):
    """The current run and its call. A parameter with this annotation is filled in. Every thread can use it.

    `RunContext[Deps]` declares that the run needs `deps=` of this type; `RunContext` alone needs none.
    Outside of tools (in instructions, middleware, output validators) `tool`, `call_id` and `idempotency_key`
    are empty.
    """

    tool: str
    session_id: str
    call_id: str
    idempotency_key: str
    """The same key for every run of this call, also after a crash. Send it to the service that the tool
    calls.
    """
    workspace: Path
    """The working folder of the session."""
    emit: Callable[[str], None]
    """Display live output. The model does not get it. After the end of the call, this function does
    nothing.
    """
    deps: DepsT = field(default=cast("DepsT", None), repr=False)
    """The object that was passed as `deps=`. It is never stored."""
    _mask: Callable[[str], str] = field(default=str, repr=False)
    _user_input: UserInput | None = field(default=None, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    _stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    async def ask(self, text: str, choices: Sequence[str] = ()) -> str:
        """Ask the person and return the answer. Secrets of the session are masked in the question.

        Raises `ToolError`, which the model reads, without an answer of a person.
        """
        if self._user_input is None:
            raise ToolError(f"Nobody is there to answer: {text}")
        question = UserQuestion(
            self._mask(text), tuple(map(self._mask, choices)), asked_by=self.tool, session_id=self.session_id
        )
        answer = await self._user_input.ask(question)
        if answer.action != "accept":
            reason = f" ({answer.text})" if answer.text else ""
            raise ToolError(f"The user did not answer the question: {text}{reason}")
        return answer.text

    def ask_and_wait(self, text: str, choices: Sequence[str] = ()) -> str:
        """Do the same as `ask`, for a function that runs in a thread."""
        assert self._loop is not None, "the context of a call knows its event loop"
        future = asyncio.run_coroutine_threadsafe(self.ask(text, choices), self._loop)
        while not self.is_cancelled:
            concurrent.futures.wait([future], _POLL_S)
            if future.done():
                return future.result()
        future.cancel()
        raise ToolError(f"The call ended before the question was answered: {text}")

    @property
    def is_cancelled(self) -> bool:
        """Return True if the result is not needed any more. A function in a thread should end then."""
        return self._stopped.is_set()


def context_of_call(tool: str, context: ToolContext) -> RunContext[Any]:
    """Return the context of a call that runs on this event loop."""
    stopped = threading.Event()
    emit = _live_output(context.emit, stopped)
    mask = str if context.masker is None else context.masker.text
    return RunContext(
        tool, context.session_id, context.call_id, context.idempotency_key, context.cwd, emit,
        context.inputs.deps, mask, context.user_input, asyncio.get_running_loop(), stopped,
    )  # fmt: skip


def context_of_run(session_id: str, workspace: Path, deps: Any) -> RunContext[Any]:
    """Return the context of a run outside of its tool calls."""
    return RunContext("", session_id, "", "", workspace, _show_nothing, deps)


def end_context(run: RunContext[Any]) -> None:
    """Disconnect a context from its call, which has ended."""
    run._stopped.set()  # pyright: ignore[reportPrivateUsage]


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
