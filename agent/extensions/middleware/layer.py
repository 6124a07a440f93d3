"""Runs one middleware in one call. An error in the middleware becomes one sentence with its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Generic, TypeVar

from ....actions.turn.user_code import describe_exception, log_user_failure
from ....state.errors import MiddlewareError, SandburError
from .middleware import Middleware

GivenT = TypeVar("GivenT")
AnswerT = TypeVar("AnswerT")


def name_of(middleware: Middleware) -> str:
    return middleware.name or type(middleware).__name__


async def await_if_needed(answer: Any) -> Any:
    """Return the result of a method, whether it is sync or async."""
    return await answer if isawaitable(answer) else answer


def failure(middleware: Middleware, where: str, error: Exception) -> MiddlewareError:
    """Return the error for an exception of a middleware, which is logged."""
    what = f"The middleware {name_of(middleware)} failed in {where}"
    log_user_failure(what.replace(" failed", ""), error)
    return MiddlewareError(f"{what}: {describe_exception(error)}.", "Correct it, or leave it out.")


class Layer(Generic[GivenT, AnswerT]):
    """Calls `wrap` with the request and with `next`, which runs the inner layers."""

    __slots__ = ("_failed", "_inner", "_kind", "_wrap", "middleware", "times")

    def __init__(
        self,
        middleware: Middleware,
        wrap: Callable[[Any, Any], Any],
        inner: Callable[[Layer[GivenT, AnswerT], GivenT], Awaitable[AnswerT]],
        kind: type[AnswerT],
    ) -> None:
        """`kind` is the type that `wrap` has to return. `inner` receives the layer that calls it."""
        self.middleware = middleware
        self.times = 0
        """How often the middleware called `next`."""
        self._wrap = wrap
        self._inner = inner
        self._kind = kind
        self._failed: BaseException | None = None

    async def run(self, given: GivenT) -> AnswerT:
        """Return the answer of the middleware.

        A `SandburError` and an error of an inner layer pass unchanged; any other error becomes
        `MiddlewareError`.
        """
        try:
            answer = await await_if_needed(self._wrap(given, self._next))
        except Exception as error:  # the middleware is code of a person
            if error is self._failed or isinstance(error, SandburError):
                raise
            raise failure(self.middleware, self._wrap.__name__, error) from error
        if not isinstance(answer, self._kind):
            raise MiddlewareError(
                f"The middleware {name_of(self.middleware)} returned {type(answer).__name__} from"
                f" {self._wrap.__name__}, not a {self._kind.__name__}.",
                "It has to return the answer of `next`, or one of its own.",
            )
        return answer

    async def _next(self, given: GivenT) -> AnswerT:
        self.times += 1
        try:
            return await self._inner(self, given)
        except BaseException as error:  # kept, so that `run` recognizes it when it leaves the middleware
            self._failed = error
            raise
