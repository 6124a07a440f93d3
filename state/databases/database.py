"""The interface of a database for the store, with guarded transactions that happen once. Also opens
databases.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from ..errors import StoreError
from ..lazy_dataclass import dataclass
from ..process.installation import make_install_command
from .damaged_values import learn_columns
from .schema import SCHEMA_VERSION
from .url import SCHEMES, find_registered, parse_server_url

if TYPE_CHECKING:
    from .servers.requirements import Server
    from .url import ServerUrl

ResultT = TypeVar("ResultT")
Durability = Literal["full", "normal"]
"""The events that a commit to a file survives. `full`: a power loss. `normal`: only the end of the
process.
"""


class CommitCount:
    """Counts the transactions that this process has ended, in all databases.

    A reader that finds the number of its last read has nothing new to read from this process. A transaction
    is counted after its rows can be read, and before its caller goes on.
    """

    def __init__(self) -> None:
        # Several threads count: each number is given once, so that no number comes back.
        self._numbers = count(1)
        self.number = 0

    def advance(self) -> None:
        self.number = next(self._numbers)


COMMITS = CommitCount()

Statement = tuple[str, Sequence[Any]]
"""A text of SQL with `?` for each parameter, and the parameters. Every database translates the text
itself.
"""


def insert(table: str, values: Mapping[str, Any]) -> Statement:
    marks = ", ".join("?" * len(values))
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())


def insert_once(table: str, values: Mapping[str, Any], unless: Mapping[str, Any]) -> Statement:
    """Return the statement that inserts a row unless a row with the values in `unless` exists."""
    marks = ", ".join("?" * len(values))
    there, found = exists(table, unless)
    return (
        f"INSERT INTO {table} ({', '.join(values)}) SELECT {marks} WHERE NOT EXISTS ({there})",
        (*values.values(), *found),
    )


def insert_tags(session_id: str, tags: Iterable[str]) -> list[Statement]:
    """Return the statements that write tags of a session which may be there already."""
    sql = "INSERT INTO session_tags (session_id, tag) VALUES (?, ?) ON CONFLICT (session_id, tag) DO NOTHING"
    return [(sql, (session_id, tag)) for tag in tags]


class Expression(NamedTuple):
    """A value of `update` that the database computes from the columns of the row."""

    sql: str
    parameters: tuple[Any, ...] = ()


def update(table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> Statement:
    """Return the statement that sets columns to values, some of which may be an `Expression`."""
    set_to = {
        column: value if isinstance(value, Expression) else Expression("?", (value,))
        for column, value in values.items()
    }
    changes = ", ".join(f"{column} = {value.sql}" for column, value in set_to.items())
    parameters = tuple(one for value in set_to.values() for one in value.parameters)
    return f"UPDATE {table} SET {changes} WHERE {_match_all(where)}", (*parameters, *where.values())


def exists(table: str, where: Mapping[str, Any]) -> Statement:
    return f"SELECT 1 FROM {table} WHERE {_match_all(where)}", tuple(where.values())


def _match_all(columns: Mapping[str, Any]) -> str:
    return " AND ".join(f"{column} = ?" for column in columns)


@dataclass(frozen=True, slots=True)
class GuardedUpdate:
    """An update that must change exactly one row. Otherwise nothing of its transaction happens."""

    claim: Statement
    landed: Statement
    """A query that finds a row if this transaction is in the database already. It is used if the connection
    broke before the answer to COMMIT.
    """


class Sealer(Protocol):
    """The key of this machine for the chains, and the numbers of records that it has sealed."""

    def key(self) -> bytes:
        """Return the key; create it if there is none."""
        ...

    def find_key(self) -> bytes | None:
        """Return the key, or None if there is none."""
        ...

    def write_mark(self, session_id: str, records: int) -> None:
        """Record outside of the database how many records are sealed. -1 means that the session was
        deleted.
        """
        ...

    def read_mark(self, session_id: str) -> int:
        """Return the last recorded number, or -1 if there is none."""
        ...

    def note_verified(
        self, session_id: str, end: tuple[int, str] | None, body: str, loaded: str = ""
    ) -> None:
        """Record that all records up to this end of a chain are verified. If `end` is None, remove the note.

        `body` identifies the database. `loaded` is a digest of the rows that are read when the session is
        opened.
        """
        ...

    def read_verified(self, session_id: str, end: tuple[int, str], body: str) -> str | None:
        """Return the value `loaded` of the note, or None if the last note has another end or another
        `body`.
        """
        ...


@dataclass(frozen=True, slots=True)
class TextIndex:
    """The full-text index of `session_texts.words` in the SQL of a database."""

    condition: str
    """A condition on `heads`, with one parameter: the words to find, each as `term` has it."""
    term: str
    """The format of one word in the parameter. A session must contain all words."""
    joiner: str = " "
    """The separator of two words in the parameter."""
    creations: tuple[str, ...] = ()
    """Statements that create the index if it is missing."""
    clause: str = ""
    """The index as a part of CREATE TABLE, if the database wants it there."""


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """The full-text index of `documents.terms` in the SQL of a database. Terms are letters and digits."""

    key: str
    """The column of `documents` whose values `find` returns."""
    find: str
    """A query for the keys of documents, which may end with a LIMIT. Its parameter is made of the formats
    below.
    """
    term: str
    prefix: str
    """The format of a term of which only the start is known."""
    one_of: str
    """The separator of terms of which a document needs at least one."""
    group: str
    """The format of such terms, if a document needs one of each group."""
    all_of: str
    """The separator of groups."""
    creations: tuple[str, ...] = ()
    clause: str = ""

    def match(self, groups: Sequence[Sequence[str]]) -> str:
        """Return the parameter for documents with one term of each group. The terms have their formats."""
        return self.all_of.join(self.group.format(self.one_of.join(terms)) for terms in groups)


class Database(Protocol):
    """One database. All errors are `StoreError`. A lost connection is restored if that is safe."""

    name: str
    """The name in messages: the path, or the URL without the password."""
    body: str
    """A text that differs for another database at the same place; empty if the database has no such text."""
    on_notice: Callable[[str], None]
    """Called if something takes long, such as a lock or a reconnect. See also `route_notices`."""
    sealer: Sealer | None
    """None: records are chained, but not sealed."""
    is_volatile: bool
    """True if the content ends with this process."""
    has_clock: bool
    """Whether all processes on all machines judge leases by one clock, which `now` returns."""

    def make_creation(self, tables: Sequence[str]) -> list[Statement]:
        """Return the statements that create the missing tables. `tables` are texts as in `schema`."""
        ...

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one SELECT statement."""
        ...

    def commit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        """Run all statements in one durable transaction, or none of them. Raises `GuardFailed` if the guard
        fails.
        """
        ...

    async def acommit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        """Do the same as `commit` without blocking the event loop."""
        ...

    async def offload(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work`, which queries this database. Waiting for a network does not block the event loop."""
        ...

    def now(self) -> datetime:
        """Return the time in UTC by the clock that all processes of the store share. Waits for nothing."""
        ...

    @property
    def skip_locked(self) -> str:
        """Return what a query for rows to be updated ends with, so that two at once find different rows."""
        ...

    def notify(self, channel: str) -> list[Statement]:
        """Return the statements of a commit that wake those who listen to a channel; empty if none can."""
        ...

    def listen(self, channel: str, hint: Callable[[], None]) -> Callable[[], None]:
        """Call `hint` from a thread after each notification; return a function that ends this.

        Notifications may get lost. A database without them never calls `hint`.
        """
        ...

    @property
    def text_index(self) -> TextIndex:
        """Return how words are found in `session_texts`."""
        ...

    def create_text_index(self) -> None:
        """Create the full-text index, unless it is created with the tables."""
        ...

    @property
    def document_search(self) -> DocumentSearch | None:
        """Return how terms are found in `documents`; None if the database has no index for them."""
        ...

    def create_document_search(self) -> None:
        """Create the full-text index of documents, unless it is created with the tables."""
        ...

    def find_problems(self) -> list[str]:
        """Return the problems of the database itself, as sentences; empty if there are none."""
        ...

    def read_again(self, work: Callable[[], ResultT], is_better: Callable[[ResultT], bool]) -> ResultT | None:
        """Repeat `work`, which queries this database, without indexes, because one of them may be damaged.

        If `is_better(result)`, all queries work without indexes from now on. Return None if the result is not
        better, if this database cannot do that, or if it does so already.
        """
        ...

    def find_damaged_indexes(self) -> list[str]:
        """Return the names of the damaged indexes, if only indexes are damaged."""
        ...

    def reindex(self) -> None:
        """Rebuild the indexes from the rows."""
        ...

    def compact(self) -> None:
        """Free the space of deleted rows, if the database does not do that itself."""
        ...

    def close(self) -> None: ...

    def write_mark(self, session_id: str, records: int) -> None:
        """Record outside of the database how many records the session has, if the newest records could get
        lost.

        -1 means that the session was deleted, so the number is removed.
        """
        ...

    def read_mark(self, session_id: str) -> int:
        """Return the last recorded number, or -1 if there is none."""
        ...


class LateTables:
    """Tables that are created at their first use, so that stores without them keep their version.

    Their row in `meta` is written last: if it exists, the tables exist.
    """

    def __init__(self, database: Database, mark: str, version: int, tables: Sequence[str], noun: str) -> None:
        self._database = database
        self._mark = mark
        self._version = version
        self._tables = tables
        self._noun = noun
        learn_columns(tables)
        self._are_there = False

    def create(self) -> None:
        """Create the tables if they are missing."""
        if not self.are_there():
            mark = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
            creation = self._database.make_creation(self._tables)
            self._database.commit([*creation, (mark, (self._mark, str(self._version)))])

    def are_there(self) -> bool:
        if not self._are_there:
            rows = self._database.query("SELECT value FROM meta WHERE name = ?", (self._mark,))
            # A version that cannot be read is not written again: what is in the tables counts.
            if rows and rows[0][0].isdecimal() and int(rows[0][0]) > self._version:
                raise StoreError(
                    f"The {self._noun} in {self._database.name} were written by a newer Sandbur.",
                    "Update Sandbur: `sandbur update` prints how.",
                )
            self._are_there = bool(rows)
        return self._are_there


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("_listener", default=None)


async def route_notices(tell: Callable[[str], None], work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run `work` and return its result. Meanwhile the notices of a database go to `tell`, in this event loop.

    Many runs share a database. Each run gets the notices about its own waits.
    """
    before = _listener.set(make_loop_listener(tell))
    try:
        return await work()
    finally:
        _listener.reset(before)


def find_listener(otherwise: Callable[[str], None]) -> Callable[[str], None]:
    """Return the function for notices of the current work, or `otherwise` if there is none."""
    return _listener.get() or otherwise


def ignore_notice(notice: str) -> None:
    """Accept a notice and do nothing."""


def require_readable(name: str, version: int) -> None:
    """Raise `StoreError` if the store has a newer schema."""
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"The store {name} was written by a newer Sandbur (schema {version},"
            f" this one knows {SCHEMA_VERSION}).",
            "Update Sandbur (`sandbur update` prints how), or name another store with --store.",
        )


def make_loop_listener(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes a notice to the running event loop, from any thread."""
    import asyncio

    loop = asyncio.get_running_loop()

    def hand_over(notice: str) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(tell, notice)

    return hand_over


_ON_THIS_MACHINE = ("sqlite:///", "memory:")


def open_database(
    url: str, on_notice: Callable[[str], None] | None = None, durability: Durability = "full"
) -> Database:
    """Open a file, a server or a database in memory; a driver is imported only if it is needed.

    `on_notice` is also called while opening takes long. `durability` applies only to files.
    """
    if url.startswith(_ON_THIS_MACHINE):
        from .sqlite.sqlite_database import open_sqlite

        return open_sqlite(url, on_notice, durability)
    make_server = find_registered(url)
    if make_server is None and url.partition("://")[0].lower().partition("+")[0] not in SCHEMES:
        raise StoreError(
            "This is not the URL of a store.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE, mysql://HOST/DATABASE or memory:.",
        )
    from .servers.network import NetworkDatabase

    server = make_server(url) if make_server is not None else _make_server(parse_server_url(url))
    return NetworkDatabase(server, on_notice)


def _make_server(url: ServerUrl) -> Server:
    try:
        if url.kind == "postgresql":
            from .servers.postgres import PostgresServer

            return PostgresServer(url)
        from .servers.mysql import MysqlServer

        return MysqlServer(url)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "pymysql"):
            raise
        extra = "postgres" if url.kind == "postgresql" else "mysql"
        raise StoreError(
            f"The driver for {url.name} is missing.", f"Install it: {make_install_command(extra)}"
        ) from error
