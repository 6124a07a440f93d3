"""Notifies middleware of the events in a session. A failure of one middleware does not end the run."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from ....state.errors import SandburError
from .layer import await_if_needed, failure
from .middleware import Middleware, MiddlewareSession, current_session

LifecycleMoment = Literal[
    "before_reply", "after_reply", "before_reasoning", "after_reasoning", "before_acting", "after_acting",
    "before_observing", "after_observing", "before_printing", "after_printing", "after_observed", "on_start",
    "on_stop",
]  # fmt: skip


class Lifecycle:
    """The lifecycle methods that the middleware of one session overrides, by the moment of their calls."""

    def __init__(self, layers: Sequence[Middleware], session: MiddlewareSession) -> None:
        self.session = session
        self._layers = layers
        self._has_failed: set[tuple[Middleware, LifecycleMoment]] = set()
        self._watching: dict[LifecycleMoment, list[tuple[Middleware, Callable[..., Any]]]] = {}

    def watches(self, *moments: LifecycleMoment) -> bool:
        return any(self._watchers(moment) for moment in moments)

    @contextmanager
    def in_session(self) -> Generator[None]:
        """Make the session available to middleware within this context."""
        token = current_session.set(self.session)
        try:
            yield
        finally:
            current_session.reset(token)

    async def tell(self, moment: LifecycleMoment, *args: Any) -> list[str]:
        """Call the method of every middleware for this moment, outermost first; return a message per failure.

        The message about a failing method is returned only once, because the message itself may make it fail
        again.
        """
        problems: list[str] = []
        for middleware, method in self._watchers(moment):
            try:
                await self.call(middleware, method, *args)
            except SandburError as error:
                problems += [] if (middleware, moment) in self._has_failed else [error.message]
                self._has_failed.add((middleware, moment))
        return problems

    async def call(self, middleware: Middleware, method: Callable[..., Any], *args: Any) -> None:
        """Call a method of a middleware; raises `SandburError`."""
        with self.in_session():
            try:
                await await_if_needed(method(*args))
            except Exception as error:  # the middleware is code of a person
                if isinstance(error, SandburError):
                    raise
                raise failure(middleware, method.__name__, error) from error

    def _watchers(self, moment: LifecycleMoment) -> list[tuple[Middleware, Callable[..., Any]]]:
        if moment not in self._watching:
            self._watching[moment] = [
                (each, getattr(each, moment)) for each in self._layers if is_overridden(each, moment)
            ]
        return self._watching[moment]


def is_overridden(middleware: Middleware, method: str) -> bool:
    """Return whether the class of the middleware overrides the method."""
    return getattr(getattr(middleware, method), "__func__", None) is not getattr(Middleware, method)
