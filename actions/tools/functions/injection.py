"""Dependency injection: passes values to functions that no model can supply, such as connections and
clients.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from contextvars import ContextVar
from typing import Any, Literal

from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ...ports.run_inputs import NO_OVERRIDES, Overrides
from .callee import Dependency, Parameter, find_deps_type, name_of, parameters_of
from .calling import in_thread
from .run_context import RunContext
from .run_scope import RunScope


def Depends(provider: Callable[..., Any], *, per: Literal["run", "call"] = "run") -> Any:  # noqa: N802
    """Fill a parameter from `provider`. Write `Annotated[Db, Depends(get_db)]`, or use it as the default
    value.

    `provider` may be a function, async or not, a generator that yields once and then cleans up, or a class.
    Its own parameters are injected as well. The value is kept for the run, or only for the call.
    """
    if not callable(provider):
        raise UsageError(f"Depends() takes a function that provides something, not {provider!r}.")
    return Dependency(provider, per)


@dataclass(frozen=True, slots=True)
class Need:
    """A provider with the dependencies that it needs itself."""

    provider: Callable[..., Any]
    per: Literal["run", "call"]
    name: str
    parameters: tuple[tuple[str, Need | None], ...]
    """Each parameter with its dependency. None instead of a dependency means the context of the run."""
    deps_type: str = ""
    """The type of dependencies that its own `RunContext[...]` needs; empty if it needs none."""

    def missing_deps(self, replaced: Overrides) -> str:
        """Return the type of the dependencies that this provider or its own providers need; empty if they
        need none.
        """
        if self.provider in replaced:
            found = _need(Dependency(self.provider, self.per), f"The override of {self.name}", (), replaced)
            return found.deps_type or missing_deps_of(found.parameters, replaced)
        return self.deps_type or missing_deps_of(self.parameters, replaced)


_overrides: ContextVar[Overrides] = ContextVar("overrides", default=NO_OVERRIDES)


@contextmanager
def overrides(replaced: Overrides) -> Generator[None]:
    """Replace providers for the runs that begin within this block, as in `{get_db: fake_db}`.

    Nested blocks are combined. Raises `UsageError` for an invalid provider.
    """
    merged = {**_overrides.get(), **replaced}
    token = _overrides.set(merged)
    try:
        require_overrides(replaced, merged)
        yield
    finally:
        _overrides.reset(token)


def require_overrides(replaced: Overrides, merged: Overrides | None = None) -> None:
    """Raise `UsageError` for a replacement that cannot be called. `merged` contains all replacements."""
    for provider in replaced.values():
        what = f"The override {name_of(provider)}"
        _need(Dependency(provider), what, (), replaced if merged is None else merged)


def missing_deps_of(needs: tuple[tuple[str, Need | None], ...], replaced: Overrides) -> str:
    """Return the type of the dependencies that these providers need; empty if they need none."""
    found = (need.missing_deps(replaced) for _, need in needs if need is not None)
    return next(filter(None, found), "")


def needs_of(parameters: tuple[Parameter, ...], what: str) -> tuple[tuple[str, Need | None], ...]:
    """Return the dependencies of the injected parameters of a function. `what` names the function in
    messages.

    Raises `UsageError` for a cycle, and for a provider with a parameter that nothing fills.
    """
    return tuple(
        (one.name, None if one.dependency is None else _need(one.dependency, what, (), {}))
        for one in parameters
        if one.role != "argument"
    )


def _need(dependency: Dependency, what: str, above: tuple[Dependency, ...], replaced: Overrides) -> Need:
    """Read a provider and its dependencies. `above` are the providers that depend on it."""
    provider = replaced.get(dependency.provider, dependency.provider)
    name = name_of(provider)
    chain = [one.provider for one in above]
    if dependency.provider in chain:
        circle = [name_of(one) for one in (*chain[chain.index(dependency.provider) :], dependency.provider)]
        raise UsageError(f"{what} can never be called: {' needs '.join(circle)}.", "Remove one dependency.")
    if dependency.per == "call" and above and above[-1].per == "run":
        raise UsageError(
            f"{what}: {name_of(above[-1].provider)} is kept for the run, but needs {name}, which is not.",
            "Write per='call' for both.",
        )
    parameters = parameters_of(provider, f"{what}: the provider {name}")
    for one in parameters:
        if one.is_required:
            raise UsageError(
                f"{what}: nothing fills the parameter `{one.name}` of the provider {name}.",
                f"Write `{one.name}: Annotated[..., Depends(...)]`, or give it a default.",
            )
    inner = (*above, dependency)
    filled = tuple(
        (one.name, None if one.dependency is None else _need(one.dependency, what, inner, replaced))
        for one in parameters
        if one.role != "argument"
    )
    return Need(provider, dependency.per, name, filled, deps_type_of(parameters))


def deps_type_of(parameters: tuple[Parameter, ...]) -> str:
    """Return the type of the dependencies that the `RunContext[...]` of a function needs; empty if it needs
    none.
    """
    contexts = (find_deps_type(one.annotation) for one in parameters if one.role == "context")
    return next(filter(None, contexts), "")


class Injection:
    """Resolves the dependencies of one call."""

    def __init__(
        self, run: RunContext[Any], shared: RunScope | None, own: RunScope, replaced: Overrides = NO_OVERRIDES
    ) -> None:
        """`shared` exists as long as the run, `own` as long as the call. If `shared` is None, `own` holds all
        values.

        `replaced` are the overrides of the agent. Those of an `overrides` block take precedence.
        """
        self._run = run
        self._replaced = replaced
        self._own = own
        self._shared = own if shared is None else shared

    async def fill(self, needs: tuple[tuple[str, Need | None], ...]) -> dict[str, Any]:
        """Return the values by parameter. Raises the exceptions of the providers."""
        return {name: self._run if need is None else await self._provide_value(need) for name, need in needs}

    async def _provide_value(self, need: Need) -> Any:
        replaced = {**self._replaced, **_overrides.get()} if self._replaced else _overrides.get()
        if need.provider in replaced:
            need = _need(Dependency(need.provider, need.per), f"The override of {need.name}", (), replaced)
        scope = self._shared if need.per == "run" else self._own
        return await scope.value(need.provider, lambda: self._provide(need, scope))

    async def _provide(self, need: Need, scope: RunScope) -> Any:
        values = await self.fill(need.parameters)
        try:
            return await self._call_provider(need, values, scope)
        except Exception as failed:
            where = f"in the provider {need.name}"
            if where not in getattr(failed, "__notes__", ()):
                failed.add_note(where)
            raise

    async def _call_provider(self, need: Need, values: dict[str, Any], scope: RunScope) -> Any:
        manager = _make_context_manager(need, values)
        if manager is not None:
            return await scope.enter(need.name, manager)
        if inspect.isclass(need.provider):
            return need.provider(**values)
        if inspect.iscoroutinefunction(need.provider):
            return await need.provider(**values)
        made = await in_thread(lambda: need.provider(**values))
        return await made if inspect.isawaitable(made) else made


def _make_context_manager(need: Need, values: dict[str, Any]) -> AbstractAsyncContextManager[Any] | None:
    """Return the context manager of a generator, or None for other providers."""
    if inspect.isasyncgenfunction(need.provider):
        return asynccontextmanager(need.provider)(**values)
    if inspect.isgeneratorfunction(need.provider):
        return _enter_in_thread(contextmanager(need.provider)(**values))
    return None


@asynccontextmanager
async def _enter_in_thread(manager: AbstractContextManager[Any]) -> AsyncGenerator[Any]:
    """Enter and exit a blocking context manager in threads."""
    value = await in_thread(manager.__enter__)
    try:
        yield value
    except BaseException as error:  # as in a `with` statement, which passes every exception to its manager
        failed = error
        await in_thread(lambda: manager.__exit__(type(failed), failed, failed.__traceback__))
        raise
    else:
        await in_thread(lambda: manager.__exit__(None, None, None))
