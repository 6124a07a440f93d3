"""Notifies middleware of events in a session; an observer that fails does not end the run."""

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
    """The methods of one session's middleware that are overridden, by the moment that they watch."""

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
        """Call every observer, outermost first; return messages about those that failed.

        A failure is reported once, because the report itself may be what fails.
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
            except Exception as error:  # from a person's code
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
    """Return whether a subclass overrides the method."""
    return getattr(getattr(middleware, method), "__func__", None) is not getattr(Middleware, method)
