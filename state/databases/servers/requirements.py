"""What a database server has to offer to hold a store."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from ...errors import StoreError
from ..database import Statement
from ..file_parts import with_bytes
from .server_errors import Trouble

ANSWER_S = 40.0
"""How long a server may be silent: longer than it may work at one statement."""


class Connection(Protocol):
    """One connection, used by one thread at a time; every failure is a `Trouble`."""

    @property
    def is_usable(self) -> bool:
        """Whether it is open and in no transaction."""
        ...

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Run `claim`, which has to change exactly one row, and the statements in one transaction."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Let go of it in a forked child, without ending the parent's session."""
        ...


class Server(Protocol):
    """A kind of server at an address."""

    name: str
    """The URL without its password."""
    idle_limit_s: float
    """A connection that was not used for so long is not used again."""
    long_text: str
    blob: str
    table_suffix: str
    title_start: str
    """The first `TITLE_START_CHARS` of a title, as a part of an index."""
    has_partial_indexes: bool
    """Whether an index may have a condition, and be created by itself; else it is a part of its table."""
    columns: str
    """A query for (table, column) of every table that `CREATE TABLE` would meet."""
    creation_lock: Sequence[Statement]
    """What keeps two first starts apart, as part of the transaction that creates the tables."""

    def connect(self) -> Connection: ...


@cache
def with_percent(sql: str) -> str:
    """Return the statement with `%s` for each `?`, as both drivers want it."""
    assert not any("?" in literal for literal in re.findall(r"'[^']*'", sql)), sql
    return sql.replace("%", "%%").replace("?", "%s")


def plain(parameters: Sequence[Any], name: str, *, allows_nul: bool) -> tuple[Any, ...]:
    """Return the parameters as a server takes them; raises `Trouble` for text that it cannot keep."""
    values = with_bytes(parameters)
    for value in values:
        if isinstance(value, str) and not _is_storable(value, allows_nul):
            reason = "a character that it cannot keep in a text (NUL, or half of a surrogate pair)"
            raise Trouble("final", StoreError(f"The store {name} was given {reason}; nothing was written."))
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def _is_storable(text: str, allows_nul: bool) -> bool:
    is_utf8 = text.isascii() or text.encode("utf-8", "replace").decode() == text
    return is_utf8 and (allows_nul or "\0" not in text)
