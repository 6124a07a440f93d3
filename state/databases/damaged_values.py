"""Values that nobody wrote: texts whose bytes are no UTF-8, and values of another type than their column.

A database returns them after a bit of its file flipped. They are replaced by values of the right type that
can be read and printed, and that no digest takes for what was written.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .schema import COLUMNS


class DamagedText(str):
    """A text in place of a value that is none: each byte that is no UTF-8 is U+FFFD."""

    raw: bytes
    """What a digest covers: the stored bytes, which differ from those of every text."""

    def __new__(cls, text: str, raw: bytes) -> "DamagedText":
        made = super().__new__(cls, text)
        made.raw = raw
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return DamagedText, (str(self), self.raw)


class DamagedNumber(int):
    """-1 in place of a value that is no number."""

    raw: bytes

    def __new__(cls, raw: bytes) -> "DamagedNumber":
        made = super().__new__(cls, -1)
        made.raw = raw
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return DamagedNumber, (self.raw,)


def decode_text(raw: bytes) -> str:
    """Return stored bytes as a text, which is a `DamagedText` if they are no UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return DamagedText(raw.decode("utf-8", "replace"), raw)


def encode_value(value: object) -> bytes:
    """Return the bytes of a stored value for a digest. No damaged value has the bytes of another value."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, DamagedText | DamagedNumber):
        return value.raw
    return str(value).encode("utf-8", "surrogatepass")


def is_damaged(value: object) -> bool:
    return isinstance(value, DamagedText | DamagedNumber)


class _Kind(NamedTuple):
    """What the values of a column are."""

    of: type[Any]
    """`int`, `str` or `bytes`; `object` if it is not known."""
    may_be_null: bool

    def accepts(self, found: type[Any]) -> bool:
        if found is type(None):
            return self.may_be_null or self.of is object
        return self.of is object or issubclass(found, self.of)


_ANY = _Kind(object, True)
_TYPES = {"BIGINT": int, "SMALLINT": int, "INTEGER": int, "VARCHAR": str, "{long_text}": str, "{blob}": bytes}
_KINDS: dict[str, dict[str, _Kind]] = {}
"""Maps each known table to its columns."""


def _read_kind(declared: str) -> _Kind:
    return _Kind(_TYPES[declared.split()[0].partition("(")[0]], "NOT NULL" not in declared)


for _table, _columns in COLUMNS.items():
    _KINDS[_table] = {name: _read_kind(kind) for name, kind in _columns.items()}

_CREATION = re.compile(r"CREATE TABLE (\w+)")
_DECLARATION = re.compile(rf"(\w+) ((?:{'|'.join(map(re.escape, _TYPES))})(?:\(\d+\))?[^,)]*)")


def learn_columns(creations: Iterable[str]) -> None:
    """Learn the types of the columns from statements that create tables."""
    for creation in creations:
        if found := _CREATION.search(creation):
            _KINDS[found[1]] = {name: _read_kind(kind) for name, kind in _DECLARATION.findall(creation)}
    find_kinds.cache_clear()


_SOURCE = re.compile(r"\b(?:FROM|JOIN) (?:main\.)?(\w+)")
_CHOICE = re.compile(r"(?:MAX|MIN|COALESCE)\(([a-z_., ]+)\)")
"""An expression whose values are those of the columns in it."""


@lru_cache(512)
def find_kinds(sql: str, names: tuple[str, ...]) -> tuple[_Kind, ...]:
    """Return what the columns of a query's result are, from their names and the tables of the query."""
    columns = [_KINDS[table] for table in _SOURCE.findall(sql) if table in _KINDS]
    kinds = [_find_kind(name, columns) for name in names]
    if "LEFT JOIN" in sql:
        return tuple(_Kind(kind.of, True) for kind in kinds)
    return tuple(kinds)


def _find_kind(name: str, columns: Sequence[dict[str, _Kind]]) -> _Kind:
    if name == "COUNT(*)":
        return _Kind(int, False)
    choice = _CHOICE.fullmatch(name)
    words = [word.rpartition(".")[2] for word in choice[1].split(", ")] if choice else [name]
    found = {one[word] for word in words for one in columns if word in one}
    types = {kind.of for kind in found}
    if len(types) != 1:
        return _ANY
    # The largest value of no rows is NULL.
    return _Kind(types.pop(), bool(choice) or any(kind.may_be_null for kind in found))


def restore_types(rows: list[tuple[Any, ...]], kinds: Sequence[_Kind]) -> list[tuple[Any, ...]]:
    """Return rows in which each value has the type of its column, as a damaged value if it had another."""
    shapes = {tuple(map(type, row)) for row in rows}
    if all(kind.accepts(found) for shape in shapes for kind, found in zip(kinds, shape, strict=True)):
        return rows
    return [tuple(map(_restore, row, kinds)) for row in rows]


def _restore(value: Any, kind: _Kind) -> Any:
    if kind.accepts(value.__class__):
        return value
    if kind.of is str:
        # A text that is stored as bytes has lost nothing.
        return decode_text(value) if isinstance(value, bytes) else DamagedText(_print(value), _mark(value))
    if kind.of is bytes:
        return value.encode() if isinstance(value, str) else _mark(value)
    return DamagedNumber(_mark(value))


def _print(value: object) -> str:
    return "" if value is None else str(value)


def _mark(value: object) -> bytes:
    """Return bytes that no text has and no writer wrote."""
    return b"\xff" + repr(value).encode("utf-8", "replace")
