"""The middleware of one session, in its order: it wraps the model and the tools, and watches the runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ....actions.ports import Model, RunInputs, Tool, WrapToolCall
from ....actions.ports.advice import Advice
from ....actions.ports.events import Event, RunFinished, ToolFinished
from ....state.errors import MiddlewareError, SandburError
from ....state.session import SessionSettings
from ...session.observers import Observer
from .layer import name_of
from .lifecycle import Lifecycle, LifecycleMoment, is_overridden
from .middleware import Middleware, MiddlewareSession
from .model_layers import LayeredModel
from .rewriting import REWRITES, RewritingAdvice, rewrite
from .tool_layers import LayeredTools

_MOST = 100


def in_order(middleware: Iterable[Middleware]) -> tuple[Middleware, ...]:
    """Sort middleware, outermost first; equal priorities keep their order.

    Raises `MiddlewareError` for an object that is not middleware, or that has a wrong priority or signature.
    """
    given = tuple(middleware)
    if len(given) > _MOST:
        raise MiddlewareError(f"{len(given)} middlewares are too many.", f"The most is {_MOST}.")
    for each in given:
        _check(each)
    return tuple(sorted(given, key=lambda each: each.priority))


def stack_middleware(
    layers: Iterable[Middleware],
    session_id: str,
    settings: SessionSettings,
    env: Mapping[str, str],
    inputs: RunInputs,
) -> MiddlewareStack:
    """Return the middleware stack of a session; raises `MiddlewareError`."""
    session = MiddlewareSession(session_id, settings.model, Path(settings.cwd), env=env, inputs=inputs)
    return MiddlewareStack(layers, session)


def _check(given: object) -> None:
    if isinstance(given, type):
        raise MiddlewareError(
            f"The middleware {given.__name__} is a class, not an object.", f"Write {given.__name__}()."
        )
    if not isinstance(given, Middleware):
        raise MiddlewareError(
            f"A {type(given).__name__} was given as middleware.", "Derive its class from sandbur.Middleware."
        )
    priority = cast(object, given.priority)
    if isinstance(priority, bool) or not isinstance(priority, int) or priority < 0:
        raise MiddlewareError(
            f"The middleware {name_of(given)} has the priority {priority!r}.",
            "It is a whole number from 0 on.",
        )
    for name in ("wrap_model_call", "wrap_tool_call"):
        _check_signature(given, name)


def _check_signature(middleware: Middleware, name: str) -> None:
    method: Callable[..., Any] = getattr(middleware, name)
    if not _takes_two(getattr(method, "__func__", None) or method, is_bound=inspect.ismethod(method)):
        what = "request" if name == "wrap_model_call" else "call"
        raise MiddlewareError(
            f"The method {name} of the middleware {name_of(middleware)} cannot be called with two arguments.",
            f"Declare it as: async def {name}(self, {what}, next)",
        )


@lru_cache(maxsize=256)
def _takes_two(function: Callable[..., Any], is_bound: bool) -> bool:
    """Return whether a function can be called with two arguments, besides the object that it is bound to."""
    try:
        inspect.signature(function).bind(*[None] * (3 if is_bound else 2))
    except TypeError:
        return False
    return True


class MiddlewareStack(Observer):
    """Wraps the model and the tools of a session, and observes its runs."""

    def __init__(self, middleware: Iterable[Middleware], session: MiddlewareSession) -> None:
        """Sort the middleware by priority; raises `MiddlewareError`."""
        self.session = session
        self._layers = in_order(middleware)
        self._lifecycle = Lifecycle(self._layers, session)
        self._started: list[Middleware] = []
        self._rewriting_events = self._wrapping("rewrite_event")
        self._reported_failures: set[str] = set()
        """The failures of `rewrite_event` that the person was notified of."""
        session.notify = lambda text: self.notify(text)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the middleware adds, outermost first."""
        return tuple(tool for each in self._layers for tool in each.tools)

    def around_model(self, model: Model) -> Model:
        layers = self._wrapping("wrap_model_call")
        if not layers and not self._lifecycle.watches("before_reasoning", "after_reasoning"):
            return model
        return LayeredModel(model, layers, self._lifecycle)

    def around_tools(self) -> WrapToolCall | None:
        """Return the wrapper of every tool call, or None if no middleware wraps tool calls."""
        layers = self._wrapping("wrap_tool_call")
        if layers or self._lifecycle.watches("before_acting", "after_acting", "before_observing"):
            return LayeredTools(layers, self._lifecycle)
        return None

    def around_hooks(self, hooks: Advice | None) -> Advice | None:
        """Return the user's hooks with the rewriting middleware around them, or None if there is neither."""
        if not any(self._wrapping(method) for method in REWRITES):
            return hooks
        return RewritingAdvice(hooks, self._layers, self._lifecycle)

    @property
    def is_active(self) -> bool:
        return any(each.is_enabled for each in self._layers)

    async def start(self) -> None:
        """Notify the middleware that the session opens.

        Raises `SandburError` if one fails, after it stopped those that had started.
        """
        for each in self._layers:
            try:
                await self._lifecycle.call(each, each.on_start, self.session)
            except SandburError:
                await self.stop()
                raise
            self._started.append(each)

    async def stop(self) -> None:
        """Notify the middleware that the session closes, innermost first. The person is notified of
        failures."""
        while self._started:
            each = self._started.pop()
            try:
                await self._lifecycle.call(each, each.on_stop, self.session)
            except SandburError as error:
                self.notify(error.message)

    async def before_run(self, text: str | None) -> None:
        await self._tell("before_reply", text)

    async def before_event(self, event: Event) -> Event | None:
        if isinstance(event, ToolFinished):
            await self._tell("after_observing", event)
        await self._tell("before_printing", event)
        if isinstance(event, RunFinished):
            await self._tell("after_reply", event)
            return None
        return await self._rewrite_event(event)

    async def _rewrite_event(self, event: Event) -> Event | None:
        """Return the event as middleware displays it, or None if it is unchanged."""
        layers = [each for each in self._rewriting_events if each.is_enabled]
        if not layers:
            return None
        try:
            return await rewrite(layers, "rewrite_event", event, type(event), self._lifecycle)
        except SandburError as error:
            if error.message not in self._reported_failures:
                self._reported_failures.add(error.message)
                self.notify(error.message)
            return None

    async def after_event(self, event: Event) -> None:
        await self._tell("after_printing", event)

    async def close(self) -> None:
        await self.stop()

    async def _tell(self, moment: LifecycleMoment, *about: Any) -> None:
        for problem in await self._lifecycle.tell(moment, *about):
            self.notify(problem)

    def _wrapping(self, method: str) -> Sequence[Middleware]:
        return [each for each in self._layers if is_overridden(each, method)]
