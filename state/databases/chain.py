"""The hash chain of a session: every row's digest covers its content and the row written before it."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from state.store.database import Statement
from state.store.schema import CHAINED


class Entry(NamedTuple):
    """A row of a chained table, before its place in the chain is known."""

    table: str
    values: tuple[Any, ...]
    """In the order of `CHAINED`."""


def first_digest(session_id: str) -> str:
    """Return what the first row of a session is chained to."""
    return digest_of("", "sessions", (session_id,))


def digest_of(previous: str, table: str, values: Sequence[Any]) -> str:
    """Return the digest of a row that follows `previous`: 40 hex digits.

    Every part is written with its length, so that no two rows read the same.
    """
    parts = [previous.encode()]
    for value in (table, *values):
        part = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        parts += (b"%d:" % len(part), part)
    return hashlib.blake2b(b"".join(parts), digest_size=20).hexdigest()


class Chain:
    """The end of a session's chain, and what it will be once a transaction has landed."""

    def __init__(self, records: int, digest: str) -> None:
        self.records = records
        self.digest = digest

    def link(self, session_id: str, entries: Sequence[Entry]) -> "tuple[Chain, list[Statement]]":
        """Return the chain behind `entries` and the statements that insert them."""
        records, digest = self.records, self.digest
        statements: list[Statement] = []
        for table, values in entries:
            digest = digest_of(digest, table, values)
            statements.append((_INSERTS[table], (session_id, *values, records, digest)))
            records += 1
        return Chain(records, digest), statements


def _insert(table: str, columns: Sequence[str]) -> str:
    names = ("session_id", *columns, "record", "digest")
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


_INSERTS = {table: _insert(table, columns) for table, columns in CHAINED.items()}
