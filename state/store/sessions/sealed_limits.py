"""Seals the limits of workers: a quota or a budget that was changed from outside is found where it is read.

The row of a limit has no place for a code, so that the code is a row of the table `meta`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ...databases.database import Database, Statement, insert
from ...errors import StoreError
from ..seals import make_limit_code, name_maker

LimitKind = Literal["quota", "budget"]
REMOVED: Sequence[int] = ()
"""The values of a limit that was removed: its code stays, so that nobody else can remove it."""
_FLAGS: Mapping[LimitKind, str] = {"quota": "--quota", "budget": "--budget"}
_PREFIX = "limit:"
_MOST_NAME_CHARS = 120


class LimitCode(NamedTuple):
    """The code of a limit, as the table `meta` has it."""

    maker: str
    """The name of the key that made it."""
    mac: str
    kind: str
    name: str
    """The beginning of the limit's name."""


Codes = Mapping[str, LimitCode]


def seal_limit(database: Database, kind: LimitKind, name: str, values: Sequence[int]) -> list[Statement]:
    """Return the statements that store the code of a limit with new values; empty if there is no key."""
    place = _make_place(kind, name)
    removal: Statement = ("DELETE FROM meta WHERE name = ?", (place,))
    if database.sealer is None:
        return [removal]
    key = database.sealer.key()
    label = name.partition("\n")[0][:_MOST_NAME_CHARS]
    code = LimitCode(name_maker(key), make_limit_code(key, kind, name, values), kind, label)
    return [removal, insert("meta", {"name": place, "value": "\n".join(code)})]


def note_limit(database: Database, kind: LimitKind, name: str) -> None:
    """Note beside the key that this machine sealed the limit, after its code is stored."""
    if database.sealer is not None:
        database.sealer.write_mark(_make_place(kind, name), 0)


def load_codes(database: Database) -> Codes:
    """Return the codes of all limits; without a key there is nothing to compare them with."""
    if database.sealer is None:
        return {}
    rows = database.query("SELECT name, value FROM meta WHERE name LIKE ?", (f"{_PREFIX}%",))
    parts = ((place, str(value).split("\n")) for place, value in rows)
    return {place: LimitCode(*found) for place, found in parts if len(found) == len(LimitCode._fields)}


def is_changed(database: Database, codes: Codes, kind: LimitKind, name: str, values: Sequence[int]) -> bool:
    """Return whether a limit has other values than those that this machine's key sealed.

    `values` are `REMOVED` if there is no such limit. What another key sealed, or none, is not known.
    """
    if database.sealer is None:
        return False
    place = _make_place(kind, name)
    if (code := codes.get(place)) is None:
        return database.sealer.read_mark(place) >= 0
    key = database.sealer.find_key()
    if key is None or code.maker != name_maker(key):
        return False
    return not hmac.compare_digest(code.mac, make_limit_code(key, kind, name, values))


def make_limit_error(kind: LimitKind, name: str) -> StoreError:
    whose = f"tenant {name or 'default'}" if kind == "quota" else f"the model {name}"
    return StoreError(
        f"The {kind} of {whose} was changed outside of Sandbur.",
        f"Set it again: sandbur worker {_FLAGS[kind]}",
    )


def list_changed_limits(database: Database) -> Iterator[tuple[LimitKind, str]]:
    """Yield the kind and the name of each limit that was changed from outside."""
    codes = load_codes(database)
    quotas = {name: (most,) for name, most in database.query("SELECT tenant, most_running FROM quotas")}
    sql = "SELECT name, requests_per_minute, tokens_per_minute FROM budgets"
    budgets = {name: (requests, tokens) for name, requests, tokens in database.query(sql)}
    kinds: Mapping[LimitKind, Mapping[str, Sequence[int]]] = {"quota": quotas, "budget": budgets}
    for kind, limits in kinds.items():
        names = {*limits, *(code.name for code in codes.values() if code.kind == kind)}
        for name in sorted(names):
            if is_changed(database, codes, kind, name, [int(one) for one in limits.get(name, REMOVED)]):
                yield kind, name


def _make_place(kind: LimitKind, name: str) -> str:
    digest = hashlib.sha256(f"{kind}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_PREFIX}{digest[:40]}"
