"""Middleware that repeats failed calls where that is harmless, and ends calls that take too long."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ....actions.ports import ModelRequest, Reply, ToolOutcome
from ....state.errors import ContextFull, ModelError
from .middleware import FEATURE, Middleware, NextModelCall, NextToolCall, ToolCallRequest

AnswerT = TypeVar("AnswerT")
_SAFE_TWICE = ("read", "idempotent")
_FAILED = ("error", "timeout")


class Retry(Middleware):
    """Repeats a model call after the model's own retries failed, and a tool call if a repetition is
    harmless."""

    priority = FEATURE + 50

    def __init__(
        self, model_tries: int = 2, tool_tries: int = 3, first_delay_s: float = 1.0, max_delay_s: float = 30
    ) -> None:
        """Set the numbers of tries, which include the first one, and the delays in seconds.

        The delay doubles with each try. The actual wait is a random part of the delay.
        """
        if min(model_tries, tool_tries) < 1:
            raise ValueError("the number of tries includes the first one, so it has to be at least 1")
        self._model_tries = model_tries
        self._tool_tries = tool_tries
        self._first_delay_s = first_delay_s
        self._max_delay_s = max_delay_s

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        for number in range(1, self._model_tries):
            try:
                return await next(request)
            except ContextFull:
                raise
            except ModelError:
                await self._wait(number)
        return await next(request)

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        outcome = await next(call)
        for number in range(1, self._tool_tries):
            if outcome.outcome not in _FAILED or call.effect not in _SAFE_TWICE:
                break
            await self._wait(number)
            outcome = await next(call)
        return outcome

    async def _wait(self, number: int) -> None:
        longest = min(self._first_delay_s * 2 ** (number - 1), self._max_delay_s)
        await asyncio.sleep(random.uniform(longest / 2, longest))


class TimeLimit(Middleware):
    """Ends a model call or a tool call that takes too long. The limits are in seconds; None sets no limit."""

    priority = FEATURE + 60

    def __init__(self, model_s: float | None = None, tool_s: float | None = None) -> None:
        self._model_s = model_s
        self._tool_s = tool_s

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        try:
            return await _limit_time(self._model_s, lambda: next(request))
        except TimeoutError:
            raise ModelError(
                f"The model did not answer within {self._model_s:g} s.", "Resume to ask it again."
            ) from None

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        try:
            return await _limit_time(self._tool_s, lambda: next(call))
        except TimeoutError as expired:
            details = expired.__cause__.args if expired.__cause__ is not None else ()
            partial = details[0] if details and isinstance(details[0], str) else ""
            doubt = "" if call.effect == "read" else " It may have taken effect."
            return ToolOutcome(
                "timeout",
                f"Stopped after {self._tool_s:g} s, which is the limit of a call.{doubt}"
                f" Output so far:\n{partial or '(none)'}",
            )


async def _limit_time(limit_s: float | None, work: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    async with asyncio.timeout(limit_s):
        return await work()
