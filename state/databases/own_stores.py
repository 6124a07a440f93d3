"""Databases of other kinds as a store: a program registers a server for the scheme of its URLs."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..errors import UsageError
from .database import DocumentSearch, Statement, TextIndex
from .file_parts import read_file_parts
from .servers.requirements import Connection
from .url import REGISTERED, SCHEMES

SCANNED_WORDS = TextIndex(
    # Every space twice, so that two words that follow one another share none.
    condition="session_id IN (SELECT session_id FROM session_texts"
    " WHERE REPLACE(' ' || words || ' ', ' ', '  ') LIKE '%' || ? || '%')",
    term=" {} ",
    joiner="%",
)
"""Finds words without an index, in any SQL."""


class StoreServer(Protocol):
    """One database, which any number of connections open; see docs/stores.md."""

    name: str
    """For messages: without a password."""
    idle_limit_s: float
    """A connection that was idle for more seconds is not used again."""
    long_text: str
    """The type of a column for texts of any length."""
    blob: str
    """The type of a column for bytes of any length."""
    columns: str
    """A query for (table, column) of every table in the place where the tables of the store are."""
    has_partial_indexes: bool
    """True: `CREATE INDEX IF NOT EXISTS ... WHERE ...` works. False: indexes are clauses of CREATE TABLE."""
    title_start: str
    """The first 64 characters of `title` as an expression in an index, or `title`."""

    def connect(self) -> Connection: ...


class _OwnServer:
    """A registered server, with defaults for the optional fields."""

    table_suffix = clock = skip_locked = notification = ""
    creation_lock: Sequence[Statement] = ()
    document_search: DocumentSearch | None = None

    def __init__(self, server: StoreServer) -> None:
        self._server = server
        self.name = server.name
        self.idle_limit_s = server.idle_limit_s
        self.long_text, self.blob = server.long_text, server.blob
        self.columns, self.title_start = server.columns, server.title_start
        self.has_partial_indexes = server.has_partial_indexes
        self.text_index: TextIndex = getattr(server, "text_index", SCANNED_WORDS)

    def connect(self) -> Connection:
        return _OwnConnection(self._server.connect())


class _OwnConnection:
    """Passes only plain values to the program's connection; parts of files are read before."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_open = True
        self.abandon = connection.abandon

    @property
    def is_usable(self) -> bool:
        return self._is_open and self._connection.is_usable

    def close(self) -> None:
        self._is_open = False
        self._connection.close()

    def query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._connection.query(sql, tuple(parameters))

    def commit(self, statements: Sequence[Statement], claim: Statement | None) -> None:
        plain = [(sql, tuple(read_file_parts(parameters))) for sql, parameters in statements]
        self._connection.commit(plain, claim)


_TAKEN = {*SCHEMES, "sqlite", "memory"}


def register_store(scheme: str, open_server: Callable[[str], StoreServer]) -> None:
    """Use `open_server(url)` for stores with URLs of this scheme, such as `SCHEME://...`.

    Raises `UsageError` for a scheme that Sandbur uses itself, and for one with other characters than small
    letters and digits.
    """
    if not (scheme.isascii() and scheme.isalnum() and scheme == scheme.lower()) or scheme in _TAKEN:
        raise UsageError(f"{scheme!r} cannot be the scheme of a store.", "Use small letters and digits.")
    REGISTERED[scheme] = lambda url: _OwnServer(open_server(url))
