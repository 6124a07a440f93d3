"""Tells middleware what happens in a session; who only watches cannot end a run by failing."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from ....state.errors import SandburError
from .layer import await_if_needed, failure
from .middleware import Middleware, MiddlewareSession, current_session

LifecycleMoment = Literal[
    "before_reply", "after_reply", "before_reasoning", "after_reasoning", "before_acting", "after_acting",
    "before_observing", "after_observing", "before_printing", "after_printing", "on_start", "on_stop",
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
        """Let middleware know, in what is done here, whose session it is."""
        token = current_session.set(self.session)
        try:
            yield
        finally:
            current_session.reset(token)

    async def tell(self, moment: LifecycleMoment, *said: Any) -> list[str]:
        """Call every watcher, outermost first; return what the person is to know of those that failed.

        It is said once: to be told of a failure may be what fails.
        """
        problems: list[str] = []
        for middleware, method in self._watchers(moment):
            try:
                await self.call(middleware, method, *said)
            except SandburError as error:
                problems += [] if (middleware, moment) in self._has_failed else [error.message]
                self._has_failed.add((middleware, moment))
        return problems

    async def call(self, middleware: Middleware, method: Callable[..., Any], *said: Any) -> None:
        """Call a method of a middleware; raises `SandburError`."""
        with self.in_session():
            try:
                await await_if_needed(method(*said))
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
    """Tell whether a method is more than what the base class does."""
    return getattr(getattr(middleware, method), "__func__", None) is not getattr(Middleware, method)
