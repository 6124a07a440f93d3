"""The declaration of a setting as a row of a table, and records that are cheaper than `dataclasses`."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, dataclass_transform

Kind = Literal[
    "line", "names", "mode", "rules", "folder", "folders", "count", "amount", "seconds", "share",
    "tenant", "switch", "sandbox", "domains", "address", "search", "durability", "prices", "windows",
    "providers", "catastrophic", "aliases", "effort", "table", "tables", "tokens",
    "variables", "resuming", "theme", "editing", "transport", "compaction", "text", "counting", "limit",
    "choice",
]  # fmt: skip
"""The type of a setting's text. `sources.py` and the command line each parse it.

`table` is a TOML table, `tables` are named TOML tables. Their rows name a `SettingReader`. A `choice` is one
of the texts in `Setting.choices`.
"""
Merge = Literal["first", "all", "entries"]
"""How values of several sources merge. `first`: the first source wins; `all`: lists are joined; `entries`:
tables are merged by entry, the first source wins."""
Group = Literal["", "run", "limits", "place"]
"""The name of a group of flags. A command accepts all flags of a group or none."""


class Declaration(NamedTuple):
    """The default value and the metadata of a field."""

    default: Any
    argument: Any = None


_NEEDED = object()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Declared:
    """A record without `dataclasses`, whose import would slow down the help.

    The annotated names of a class are the fields of its records. Values are given by keyword and never
    change. A field with a `Declaration` has a default and metadata. A field without a value is required.
    """

    _declarations: ClassVar[Mapping[str, Declaration]] = {}
    """Name -> declaration of the fields; those of base classes come first."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = dict(cls._declarations)
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if "ClassVar" in str(kind):
                continue
            value = vars(cls).get(name, _NEEDED)
            found[name] = value if isinstance(value, Declaration) else Declaration(value)
            if isinstance(value, Declaration):
                setattr(cls, name, value.default)
        cls._declarations = found

    def __init__(self, **values: Any) -> None:
        given = {name: values.pop(name, declared.default) for name, declared in self._declarations.items()}
        missing = [name for name, value in given.items() if value is _NEEDED]
        if values or missing:
            raise TypeError(f"{type(self).__name__}: unknown {sorted(values)}, missing {missing}")
        vars(self).update(given)

    def but(self, **changes: Any) -> Self:
        """Return a copy in which some fields have other values."""
        return type(self)(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def declarations_of(kind: type[Declared] | Declared) -> Mapping[str, Declaration]:
    """Return name -> declaration of the fields of a record or of its class."""
    return kind._declarations  # pyright: ignore[reportPrivateUsage]


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
    """The environment variable; empty if the setting has none."""
    group: Group = ""
    flag: Flag | None = None
    is_harmless: bool = False
    """Whether every value in a project's file is harmless, because none makes the setting more dangerous."""
    about: str = ""
    """A short description in the form of a clause; empty if no file can set it."""
    reader: str = ""
    """The home of the `SettingReader` for the values; empty if the kind is enough."""
    of_command: bool = False
    """Whether the setting is only for the command `sandbur`. An agent in a program gets its value from the
    program."""
    choices: tuple[str, ...] = ()
    """The values of a `choice`."""
    after: str = ""
    """The key of the setting that precedes this one in lists. If it is empty, this one comes last."""
    earlier_names: tuple[str, ...] = ()
    """Earlier names of the key, and of the variable (`SANDBUR_...`). They still count, with a notice."""


def insert_rows(rows: list[Setting], added: Iterable[Setting]) -> None:
    """Insert each row after the one that it names; raises `ValueError` for a duplicate key."""
    for row in added:
        keys = [one.key for one in rows]
        if row.key in keys:
            raise ValueError(row.key)
        rows.insert(keys.index(row.after) + 1 if row.after in keys else len(rows), row)
