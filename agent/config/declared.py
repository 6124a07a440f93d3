"""Records whose fields say more than a default; made without `dataclasses`, which the help would wait for."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform


class Declaration(NamedTuple):
    """What stands in a class for a field: its default, and whatever is told of it."""

    default: Any
    told: Any = None


_NEEDED = object()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A record: its annotated names are its fields, given by name, and they never change.

    One with a `Declaration` has its default and what is told of it; one without any value has to be given.
    """

    declarations: ClassVar[Mapping[str, Declaration]] = {}
    """Those of its bases first."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = dict(cls.declarations)
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if kind is ClassVar or getattr(kind, "__origin__", None) is ClassVar:
                continue
            value = vars(cls).get(name, _NEEDED)
            found[name] = value if isinstance(value, Declaration) else Declaration(value)
            if isinstance(value, Declaration):
                setattr(cls, name, value.default)
        cls.declarations = found

    def __init__(self, **values: Any) -> None:
        given = {name: values.pop(name, declared.default) for name, declared in self.declarations.items()}
        missing = [name for name, value in given.items() if value is _NEEDED]
        if values or missing:
            raise TypeError(f"{type(self).__name__}: unknown {sorted(values)}, missing {missing}")
        vars(self).update(given)

    def but(self, **changes: Any) -> Self:
        """Return a copy with other values."""
        return type(self)(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} never changes")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"
