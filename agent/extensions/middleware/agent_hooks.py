"""Hooks for one agent, and hooks for all agents of a class."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

from .hooks import AddHook, HookMiddleware, HookMoment, HookTable

_TABLE = "_own_class_hooks"
"""The name of the class attribute that holds the hook table of the class."""


def _table_of(owner: type) -> HookTable:
    """Return the hook table of this class itself, not the one of a parent class."""
    if _TABLE not in vars(owner):
        setattr(owner, _TABLE, HookTable())
    return cast(HookTable, vars(owner)[_TABLE])


class _AddClassHook:
    """A class attribute that adds hooks to the class through which it is accessed."""

    def __get__(self, agent: object, owner: type) -> AddHook:
        return AddHook(_table_of(owner))


class HasHooks:
    """A base class for agents with hooks. Hooks of classes wrap the agent's own hooks; hooks of a parent
    class wrap those of a subclass."""

    add_class_hook = _AddClassHook()
    """Adds a hook for all agents of this class and of its subclasses, as `add_hook` does for one agent."""

    @cached_property
    def add_hook(self) -> AddHook:
        """Add a hook for this agent: `agent.add_hook("pre_reply", function, name="...")`."""
        return AddHook(self._own_hooks)

    def remove_hook(self, moment: HookMoment, hook: Callable[..., Any] | str) -> None:
        """Remove a hook of this agent by its function or name; raises `UsageError` if there is none."""
        self._own_hooks.remove(moment, hook)

    @classmethod
    def remove_class_hook(cls, moment: HookMoment, hook: Callable[..., Any] | str) -> None:
        """Remove a hook of this class by its function or name; raises `UsageError` if there is none."""
        _table_of(cls).remove(moment, hook)

    @cached_property
    def _hook_middleware(self) -> HookMiddleware:
        """The middleware that calls the hooks."""
        owners = [owner for owner in reversed(type(self).__mro__) if issubclass(owner, HasHooks)]
        return HookMiddleware((*map(_table_of, owners), self._own_hooks))

    @cached_property
    def _own_hooks(self) -> HookTable:
        return HookTable()
