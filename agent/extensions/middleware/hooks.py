"""Hooks: functions that watch or change one moment of an agent's runs, added and removed at any time.

`HookMiddleware` calls the functions that are registered at that moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar, get_args, overload

from ....actions.ports import ModelRequest, Reply, ToolOutcome
from ....actions.ports.events import Event
from ....actions.turn.user_code import UserCode
from ....state.conversation.messages import UserContent
from ....state.errors import MiddlewareError, UsageError
from ....state.lazy_dataclass import dataclass
from .layer import await_if_needed
from .middleware import Middleware, NextModelCall, NextToolCall, ProposedCall, ToolCallRequest

HookMoment = Literal[
    "pre_reply", "post_reply", "pre_reasoning", "post_reasoning", "pre_acting", "post_acting",
    "pre_print", "post_print", "pre_observe", "post_observe",
]  # fmt: skip
ValueT = TypeVar("ValueT")
Changes = Callable[[ValueT], ValueT | Awaitable[ValueT | None] | None]
"""A function that returns a changed value, or None to leave the value as it is."""
ChangesOutcome = Callable[[ToolCallRequest, ToolOutcome], ToolOutcome | Awaitable[ToolOutcome | None] | None]
Watches = Callable[[ValueT], object]
"""A function whose result is ignored; if the result is awaitable, it is awaited."""


@dataclass(frozen=True, slots=True)
class Hook:
    moment: HookMoment
    function: Callable[..., Any]
    name: str
    """The name of the hook; empty if it was added without one."""

    @property
    def title(self) -> str:
        return self.name or getattr(self.function, "__name__", type(self.function).__name__)


class HookTable:
    """The hooks of one agent or of one class of agents, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: tuple[Hook, ...] = ()

    def add(self, hook: Hook) -> None:
        """Add a hook. Raises `UsageError` if another hook of the same moment has this name."""
        if hook.name and any(one.name == hook.name for one in self.of(hook.moment)):
            raise UsageError(f"A hook {hook.name!r} for {hook.moment} exists already.", "Remove it first.")
        self._hooks = (*self._hooks, hook)

    def remove(self, moment: HookMoment, hook: Callable[..., Any] | str) -> None:
        """Remove a hook by its function or name; raises `UsageError` if there is none."""
        kept = tuple(
            one for one in self._hooks if one.moment != moment or hook not in (one.function, one.name)
        )
        if not hook or len(kept) == len(self._hooks):
            raise UsageError(f"There is no hook {hook!r} for {moment}.", "Remove only hooks that were added.")
        self._hooks = kept

    def of(self, moment: HookMoment) -> tuple[Hook, ...]:
        return tuple(one for one in self._hooks if one.moment == moment)

    def __bool__(self) -> bool:
        return bool(self._hooks)


class AddHook:
    """Adds hooks to a table. It is called with the moment, the function and an optional name."""

    def __init__(self, table: HookTable) -> None:
        self._table = table

    @overload
    def __call__(self, moment: Literal["pre_reply"], hook: Changes[UserContent], name: str = "") -> None: ...
    @overload
    def __call__(
        self, moment: Literal["post_reply", "pre_observe"], hook: Changes[str], name: str = ""
    ) -> None: ...
    @overload
    def __call__(
        self, moment: Literal["pre_reasoning"], hook: Changes[ModelRequest], name: str = ""
    ) -> None: ...
    @overload
    def __call__(self, moment: Literal["post_reasoning"], hook: Changes[Reply], name: str = "") -> None: ...
    @overload
    def __call__(
        self, moment: Literal["pre_acting"], hook: Changes[ProposedCall], name: str = ""
    ) -> None: ...
    @overload
    def __call__(self, moment: Literal["post_acting"], hook: ChangesOutcome, name: str = "") -> None: ...
    @overload
    def __call__(self, moment: Literal["pre_print"], hook: Changes[Event], name: str = "") -> None: ...
    @overload
    def __call__(self, moment: Literal["post_print"], hook: Watches[Event], name: str = "") -> None: ...
    @overload
    def __call__(self, moment: Literal["post_observe"], hook: Watches[str], name: str = "") -> None: ...
    def __call__(self, moment: HookMoment, hook: Callable[..., Any], name: str = "") -> None:
        """Register a function, sync or async, for this moment. Sessions that are open call it, too.

        The function gets the value of the moment, and returns a changed value, or None to leave it as it is.
        Raises `UsageError` for an unknown moment, and for a name that another hook of the moment has.
        """
        if moment not in get_args(HookMoment):
            raise UsageError(
                f"There is no moment {moment!r} for a hook.", f"Use {', '.join(get_args(HookMoment))}."
            )
        if not callable(hook):
            raise UsageError(f"The hook for {moment} is a {type(hook).__name__}, not a function.")
        self._table.add(Hook(moment, hook, name))


class HookMiddleware(Middleware):
    """Calls the hooks of several tables: in order before a call, in reverse order after it."""

    name = "hooks"

    def __init__(self, tables: Sequence[HookTable]) -> None:
        """`tables` are the tables whose hooks are called, the outermost first."""
        self._tables = tables

    @property
    def is_enabled(self) -> bool:
        return any(self._tables)

    async def rewrite_message(self, message: UserContent) -> UserContent:
        return await self._change("pre_reply", message, Sequence)

    async def rewrite_answer(self, text: str) -> str:
        return await self._change("post_reply", text, str)

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        reply = await next(await self._change("pre_reasoning", request, ModelRequest))
        return await self._change("post_reasoning", reply, Reply)

    async def rewrite_call(self, call: ProposedCall) -> ProposedCall:
        return await self._change("pre_acting", call, ProposedCall)

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        outcome = await next(call)
        for hook in self._hooks("post_acting"):
            outcome = await _call(hook, ToolOutcome, outcome, call, outcome)
        return outcome

    async def rewrite_event(self, event: Event) -> Event:
        return await self._change("pre_print", event, type(event))

    async def after_printing(self, event: Event) -> None:
        await self._watch("post_print", event)

    async def rewrite_observed(self, text: str) -> str:
        return await self._change("pre_observe", text, str)

    async def after_observed(self, text: str) -> None:
        await self._watch("post_observe", text)

    def _hooks(self, moment: HookMoment) -> list[Hook]:
        found = [hook for table in self._tables for hook in table.of(moment)]
        return found[::-1] if moment.startswith("post_") else found

    async def _change(self, moment: HookMoment, value: ValueT, kind: type[Any]) -> ValueT:
        for hook in self._hooks(moment):
            value = await _call(hook, kind, value, value)
        return value

    async def _watch(self, moment: HookMoment, value: object) -> None:
        for hook in self._hooks(moment):
            await _call(hook, object, value, value)


async def _call(hook: Hook, kind: type[Any], value: ValueT, *args: object) -> ValueT:
    """Return the result of the hook, or `value` if the hook returned None. Raises `SandburError`."""
    what = f"The hook {hook.title} ({hook.moment})"
    with UserCode(what, MiddlewareError, "Correct it, or remove it."):
        changed = await await_if_needed(hook.function(*args))
    if changed is None:
        return value
    if not isinstance(changed, kind):
        raise MiddlewareError(
            f"The hook {hook.title} ({hook.moment}) returned {type(changed).__name__},"
            f" not a {kind.__name__}.",
            "It has to return the value that it was given, a changed one, or None.",
        )
    return changed
