"""The interface of a database server for the store."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from ...errors import StoreError
from ..database import Statement, TextIndex
from ..file_parts import read_file_parts
from .server_errors import ServerError

ANSWER_S = 40.0
"""How many seconds a server may be silent; longer than its limit for one statement."""


class Connection(Protocol):
    """One connection, used by one thread at a time; every failure is a `ServerError`."""

    @property
    def is_usable(self) -> bool:
        """True if it is open and not inside a transaction."""
        ...

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Run `claim`, which must change exactly one row, and the statements in one transaction."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Drop the connection in a forked child, without ending the session of the parent."""
        ...


class Server(Protocol):
    """A server of one kind at one address."""

    name: str
    """The URL without its password."""
    idle_limit_s: float
    """A connection that was idle for more seconds is not used again."""
    long_text: str
    blob: str
    table_suffix: str
    title_start: str
    """The first `TITLE_START_CHARS` of a title, as an expression in an index."""
    has_partial_indexes: bool
    """True if an index may have a condition and is created by itself; else it is part of its table."""
    columns: str
    """A query for (table, column) of every table that could conflict with ours."""
    text_index: TextIndex
    creation_lock: Sequence[Statement]
    """Statements that keep two first starts apart, in the transaction that creates the tables."""

    def connect(self) -> Connection: ...


@cache
def use_percent_marks(sql: str) -> str:
    """Return the statement with `%s` in place of `?`, as both drivers need it."""
    assert not any("?" in literal for literal in re.findall(r"'[^']*'", sql)), sql
    return sql.replace("%", "%%").replace("?", "%s")


def to_plain_values(parameters: Sequence[Any], name: str, *, allows_nul: bool) -> tuple[Any, ...]:
    """Return the parameters for the driver; raises `ServerError` for text that the server cannot store."""
    values = read_file_parts(parameters)
    for value in values:
        if isinstance(value, str) and not _is_storable(value, allows_nul):
            reason = "a character that it cannot keep in a text (NUL, or half of a surrogate pair)"
            raise ServerError(
                "final", StoreError(f"The store {name} was given {reason}; nothing was written.")
            )
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def _is_storable(text: str, allows_nul: bool) -> bool:
    is_utf8 = text.isascii() or text.encode("utf-8", "replace").decode() == text
    return is_utf8 and (allows_nul or "\0" not in text)
