"""The interface of a database server that can hold a store."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from ...errors import StoreError
from ..database import DocumentSearch, Statement, TextIndex
from ..file_parts import read_file_parts
from .server_errors import ServerError

ANSWER_S = 40.0
"""The seconds after which a silent server counts as lost. This is longer than its limit for one statement."""


class Connection(Protocol):
    """A connection, which one thread at a time uses. Every failure is a `ServerError`."""

    @property
    def is_usable(self) -> bool:
        """Return whether the connection is open and not inside a transaction."""
        ...

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]: ...

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        """Run `claim`, which must change exactly one row, and the statements in one transaction."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Drop the connection in a forked child, without ending the session of the parent."""
        ...


class ListeningConnection(Connection, Protocol):
    """A connection that can wait for notifications of other connections."""

    def listen(self, channel: str) -> None: ...

    def wait_for_notification(self, seconds: float) -> bool:
        """Wait for at most so long; return whether a notification came."""
        ...


class Server(Protocol):
    """A server of one kind at one address."""

    name: str
    """The URL without its password."""
    idle_limit_s: float
    """The most seconds without use. After that, the connection is not used again."""
    long_text: str
    blob: str
    table_suffix: str
    title_start: str
    """The first `TITLE_START_CHARS` characters of a title, as an expression in an index."""
    has_partial_indexes: bool
    """Whether an index may have a condition. Then it has its own statement, otherwise it is part of its
    table.
    """
    columns: str
    """A query for (table, column) of every table that could conflict with ours."""
    text_index: TextIndex
    document_search: DocumentSearch | None
    creation_lock: Sequence[Statement]
    """Statements that separate two first starts, in the transaction that creates the tables."""
    clock: str
    """A query for the milliseconds since 1970 on the server; empty if its processes share one clock."""
    skip_locked: str
    """The end of a query for rows to update, with which two queries at the same time find different rows."""
    notification: str
    """The statement that notifies a channel, its parameter; empty if the server has no channels."""

    def connect(self) -> Connection: ...


@cache
def use_percent_marks(sql: str) -> str:
    """Return the statement with `%s` in place of `?`, as both drivers need it."""
    assert not any("?" in literal for literal in re.findall(r"'[^']*'", sql)), sql
    return sql.replace("%", "%%").replace("?", "%s")


def to_plain_values(parameters: Sequence[Any], name: str, *, allows_nul: bool) -> tuple[Any, ...]:
    """Return the parameters for the driver. Raises `ServerError` for a text that the server cannot store."""
    values = read_file_parts(parameters)
    for value in values:
        if isinstance(value, str) and not _is_storable(value, allows_nul):
            reason = "a character that it cannot store in a text (NUL, or half of a surrogate pair)"
            raise ServerError("final", StoreError(f"The store {name} got {reason}; nothing was written."))
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def _is_storable(text: str, allows_nul: bool) -> bool:
    is_utf8 = text.isascii() or text.encode("utf-8", "replace").decode() == text
    return is_utf8 and (allows_nul or "\0" not in text)
