"""The declaration of a setting as a row of a table, and records without the cost of `dataclasses`."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

Kind = Literal[
    "line", "names", "mode", "rules", "folder", "folders", "count", "amount", "seconds", "share",
    "tenant", "switch", "sandbox", "domains", "address", "search", "durability", "prices", "windows",
    "providers", "catastrophic", "aliases", "effort", "table", "tables", "tokens",
    "variables", "resuming", "theme", "editing", "transport", "compaction", "text", "counting", "limit",
]  # fmt: skip
"""The type of a setting's text; `sources.py` and the command line each parse it.

`table` is a TOML table, `tables` are named TOML tables; their rows name a `SettingReader`.
"""
Merge = Literal["first", "all", "entries"]
"""`first`: the first source that sets it; `all`: what all sources set; `entries`: tables, entry by entry."""
Group = Literal["", "run", "limits", "place"]
"""Commands take the flags of a group together."""


class Declaration(NamedTuple):
    """The default and metadata of a field."""

    default: Any
    argument: Any = None


_NEEDED = object()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A record without `dataclasses`, whose import would slow down the help.

    Its annotated names are its fields; they are given by keyword and immutable. A field with a `Declaration`
    has a default and metadata; a field without a value is required.
    """

    declarations: ClassVar[Mapping[str, Declaration]] = {}
    """Those of its bases first."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = dict(cls.declarations)
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if "ClassVar" in str(kind):
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
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class Flag(NamedTuple):
    names: tuple[str, ...]
    metavar: str
    help: str


class Setting(NamedTuple):
    key: str
    default: Any
    kind: Kind
    merge: Merge = "first"
    variable: str = ""
    """The environment variable; empty: none."""
    group: Group = ""
    flag: Flag | None = None
    is_harmless: bool = False
    """Whether no value of a project can make the setting more dangerous."""
    about: str = ""
    """A short description, as a clause; empty if no file can set it."""
    reader: str = ""
    """The home of the `SettingReader` that reads its values; empty: its kind is enough."""
    of_command: bool = False
    """Counts for the command `sandbur`; an agent in a program takes it from the program alone."""
    after: str = ""
    """The key of the preceding row in lists; empty: it comes last."""


def insert_rows(rows: list[Setting], added: Iterable[Setting]) -> None:
    """Insert rows, each after the one that it names; raises `ValueError` for a duplicate key."""
    for row in added:
        keys = [one.key for one in rows]
        if row.key in keys:
            raise ValueError(row.key)
        rows.insert(keys.index(row.after) + 1 if row.after in keys else len(rows), row)
