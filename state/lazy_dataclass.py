"""`dataclass` of the standard library, for slotted classes that are defined whenever the command starts.

The standard library compiles about six methods as soon as it sees a class, and most classes get no instance
in a short run. Here `__init__` is compiled when it is first used, and the other methods are shared. Whatever
reads dataclasses (`fields`, `replace`, `asdict`, `copy`, `pickle`, `match`, pydantic) sees a usual one, and
so does a type checker, which reads the standard library's declaration.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass; one without slots, or with a rare option, by the standard library."""
        usual = options.get("slots") and options.keys() <= {"slots", "frozen", "kw_only", "eq"}
        decorate = make_dataclass if usual else dataclasses.dataclass
        return decorate(cls, **options) if cls else lambda written: decorate(written, **options)


_PARAMS, _FIELDS = "__dataclass_params__", "__dataclass_fields__"
_NOT_SLOTS = ("ClassVar", "KW_ONLY")


@dataclasses.dataclass(frozen=True)
class _Frozen: ...


@dataclasses.dataclass
class _Changeable: ...


class _FromFactory:
    """The default value of a parameter whose field has a `default_factory`."""

    def __repr__(self) -> str:
        return "<factory>"


class _AtFirstUse:
    """An attribute of a class that is computed when it is first read, and then replaces this one."""

    def __init__(self, compute: Callable[[type[Any]], Any]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        value = self._compute(self._owner)
        setattr(self._owner, self._name, value)
        return value.__get__(instance, owner) if hasattr(value, "__get__") else value


def make_dataclass(
    cls: type, *, slots: bool, frozen: bool = False, kw_only: bool = False, eq: bool = True
) -> type[Any]:
    """Return `cls` with slots, and with the methods of a dataclass that it does not define."""
    written = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    if written.get("__hash__", ...) is None:  # Python sets it where a class defines `__eq__`
        del written["__hash__"]
    annotations = get_annotations(cls)
    defaults = {
        name: written.pop(name) for name, kind in annotations.items() if _is_slot(kind) and name in written
    }

    def collect(made: type[Any]) -> dict[str, Field[Any]]:
        """Let the standard library read the annotations, in a class that has nothing else."""
        draft = {"__annotations__": annotations, "__module__": cls.__module__, "__doc__": "", **defaults}
        own = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(
            type(cls.__name__, (), draft)
        )
        inherited = [getattr(parent, _FIELDS, {}) for parent in reversed(made.__mro__[1:])]
        return {name: each for part in (*inherited, getattr(own, _FIELDS)) for name, each in part.items()}

    taken = {name for parent in cls.__mro__[1:] for name in getattr(parent, "__slots__", ())}
    namespace: dict[str, Any] = {
        **_methods(frozen, eq),
        **written,
        _FIELDS: _AtFirstUse(collect),
        _PARAMS: getattr(_Frozen if frozen else _Changeable, _PARAMS),
        "__slots__": tuple(
            name for name, kind in annotations.items() if _is_slot(kind) and name not in taken
        ),
    }
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _is_slot(annotation: object) -> bool:
    return not any(word in str(annotation) for word in _NOT_SLOTS)


def _methods(frozen: bool, eq: bool) -> dict[str, Any]:
    methods: dict[str, Any] = {
        "__init__": _AtFirstUse(_make_init),
        "__match_args__": _AtFirstUse(_make_match_args),
        "__repr__": _show,
        "__replace__": _replace,
    }
    if eq:
        methods |= {
            "__eq__": _equal,
            "_compared": _AtFirstUse(_make_compared),
            "__hash__": _hash if frozen else None,
        }
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    return methods


def _make_init(cls: type[Any]) -> Any:
    scope: dict[str, Any] = {"_put": object.__setattr__, "_from_factory": _FromFactory()}
    is_frozen = getattr(cls, _PARAMS).frozen
    positional, by_keyword, body = ["self"], ["*"], ["pass"]
    for each in fields(cls):
        name, value, default = each.name, each.name, ""
        if each.default_factory is not MISSING:
            scope[f"_make_{name}"], default = each.default_factory, "=_from_factory"
            value = (
                f"_make_{name}() if {name} is _from_factory else {name}" if each.init else f"_make_{name}()"
            )
        elif each.default is not MISSING:
            scope[f"_default_{name}"], default = each.default, f"=_default_{name}"
            value = name if each.init else f"_default_{name}"
        if each.init:
            (by_keyword if each.kw_only else positional).append(f"{name}{default}")
        if each.init or default:
            body.append(f"_put(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(positional + (by_keyword if by_keyword[1:] else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(body), scope)
    init = scope["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {each.name: each.type for each in fields(cls) if each.init} | {"return": None}
    return init


def _make_match_args(cls: type[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls) if each.init and not each.kw_only)


def _make_compared(cls: type[Any]) -> Any:
    names = [each.name for each in fields(cls) if each.compare]
    if names[1:]:
        return attrgetter(*names)

    def compared(value: object) -> tuple[Any, ...]:
        return tuple(getattr(value, name) for name in names)

    return staticmethod(compared)


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


@recursive_repr()
def _show(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _replace(self: Any, /, **changes: Any) -> Any:
    return dataclasses.replace(self, **changes)


def _refuse_set(self: Any, name: str, value: object) -> None:
    if _is_refused(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    if _is_refused(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_refused(self: Any, name: str) -> bool:
    """Return whether an attribute is frozen: in a usual class below a dataclass, only fields are."""
    return _PARAMS in vars(self.__class__) or name in getattr(self, _FIELDS)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
