"""What the store needs from a database: whole transactions, at most once, fenced by a guard; opens one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ..errors import StoreError
from .schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from .servers.requirements import Server
    from .url import ServerUrl

ResultT = TypeVar("ResultT")
Durability = Literal["full", "normal"]
"""What a commit to a file survives: `full` power loss too, `normal` only the end of the process."""

Statement = tuple[str, Sequence[Any]]
"""SQL with `?` for each parameter; every database translates what it spells differently."""


def insert(table: str, values: Mapping[str, Any]) -> Statement:
    marks = ", ".join("?" * len(values))
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())


def insert_once(table: str, values: Mapping[str, Any], unless: Mapping[str, Any]) -> Statement:
    """Return what inserts a row unless there is one with the values of `unless`."""
    marks = ", ".join("?" * len(values))
    there, found = exists(table, unless)
    return (
        f"INSERT INTO {table} ({', '.join(values)}) SELECT {marks} WHERE NOT EXISTS ({there})",
        (*values.values(), *found),
    )


def update(table: str, values: Mapping[str, Any], where: Mapping[str, Any]) -> Statement:
    changes = ", ".join(f"{column} = ?" for column in values)
    return f"UPDATE {table} SET {changes} WHERE {_all_of(where)}", (*values.values(), *where.values())


def exists(table: str, where: Mapping[str, Any]) -> Statement:
    return f"SELECT 1 FROM {table} WHERE {_all_of(where)}", tuple(where.values())


def _all_of(columns: Mapping[str, Any]) -> str:
    return " AND ".join(f"{column} = ?" for column in columns)


@dataclass(frozen=True, slots=True)
class GuardedUpdate:
    """An update that has to change exactly one row, else nothing of its transaction happens."""

    claim: Statement
    landed: Statement
    """A query that finds a row if this very transaction is in the database already: asked when the
    connection broke before the answer to its COMMIT came."""


class Sealer(Protocol):
    """The key over the chains, and what it has sealed."""

    def key(self) -> bytes:
        """Return the key, which is made if there is none."""
        ...

    def known_key(self) -> bytes | None:
        """Return the key if there is one."""
        ...

    def mark(self, session_id: str, records: int) -> None:
        """Note outside of the database how many records are sealed; -1: the session is gone."""
        ...

    def marked(self, session_id: str) -> int:
        """Return the number last noted, or -1."""
        ...

    def vouch(self, session_id: str, end: tuple[int, str] | None, body: str, loaded: str = "") -> None:
        """Note that all records up to this end of a chain are what was written; None: that is not known.

        `body` tells in which database; `loaded` is a digest of what opening the session reads.
        """
        ...

    def vouches(self, session_id: str, end: tuple[int, str], body: str) -> str | None:
        """Return the `loaded` of exactly that; None: it is not what was noted last."""
        ...


class Database(Protocol):
    """One database. All errors come as `StoreError`; a lost connection is made again where that is safe."""

    name: str
    """For messages: the path, or the URL without its password."""
    body: str
    """Tells this database from another one that takes its place; empty if nothing does."""
    on_notice: Callable[[str], None]
    """Told when something takes longer than a person expects: a lock, a reconnect. See `overheard`, too."""
    sealer: Sealer | None
    """None: what is written is chained, and sealed by nobody."""

    def creation(self, tables: Sequence[str]) -> list[Statement]:
        """Return what creates tables unless they are there, from their texts as in `schema`."""
        ...

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one reading statement."""
        ...

    def commit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        """Run all statements in one durable transaction, or none; raises `GuardFailed`."""
        ...

    async def acommit(self, statements: Sequence[Statement], guard: GuardedUpdate | None = None) -> None:
        """Do as `commit` does without keeping the event loop waiting."""
        ...

    async def offload(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work`, which queries this database, without keeping the event loop waiting for a network."""
        ...

    def problems(self) -> list[str]:
        """Return what is wrong with the database itself; empty if nothing is."""
        ...

    def read_again(self, work: Callable[[], ResultT], is_better: Callable[[ResultT], bool]) -> ResultT | None:
        """Do `work`, which queries, once more without indexes: one of them may be damaged.

        If what it returns is better, everything is read like that from now on. None: it is not, or this
        database cannot do that, or does so already.
        """
        ...

    def damaged_indexes(self) -> list[str]:
        """Return the indexes that are damaged, if nothing else is."""
        ...

    def reindex(self) -> None:
        """Rebuild the indexes from the rows."""
        ...

    def compact(self) -> None:
        """Give the space of deleted rows back, where nobody else does that."""
        ...

    def close(self) -> None: ...

    def mark(self, session_id: str, records: int) -> None:
        """Note outside of the database how many records the session has, where a tail could get lost.

        -1: it is gone, so that nothing is to be known of it.
        """
        ...

    def marked(self, session_id: str) -> int:
        """Return the number last noted, or -1."""
        ...


class LateTables:
    """Tables that are made at their first use, so that a store without any needs no other version.

    Their mark in `meta` comes last: where it is, they are.
    """

    def __init__(self, database: Database, mark: str, version: int, tables: Sequence[str], noun: str) -> None:
        self._database = database
        self._mark = mark
        self._version = version
        self._tables = tables
        self._noun = noun
        self._are_there = False

    def create(self) -> None:
        """Make the tables unless they are there."""
        if not self.are_there():
            mark = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
            creation = self._database.creation(self._tables)
            self._database.commit([*creation, (mark, (self._mark, str(self._version)))])

    def are_there(self) -> bool:
        if not self._are_there:
            rows = self._database.query("SELECT value FROM meta WHERE name = ?", (self._mark,))
            if rows and int(rows[0][0]) > self._version:
                raise StoreError(
                    f"The {self._noun} in {self._database.name} were written by a newer Sandbur.",
                    "Upgrade Sandbur.",
                )
            self._are_there = bool(rows)
        return self._are_there


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("_listener", default=None)


async def overheard(tell: Callable[[str], None], work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return what `work` returns; what a database has to tell of it goes to `tell`, in this event loop.

    Many runs share a database, and each of them hears what it waits for itself.
    """
    before = _listener.set(told_here(tell))
    try:
        return await work()
    finally:
        _listener.reset(before)


def listener(otherwise: Callable[[str], None]) -> Callable[[str], None]:
    """Return who is to be told of what is done now."""
    return _listener.get() or otherwise


def unheard(notice: str) -> None:
    """Take a notice that nobody listens to."""


def require_readable(name: str, version: int) -> None:
    """Refuse a store whose schema is newer than ours."""
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"The store {name} was written by a newer Sandbur (schema {version},"
            f" this one knows {SCHEMA_VERSION}).",
            "Upgrade Sandbur, or name another store with --store.",
        )


def told_here(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return what hands a notice to the running event loop, whatever thread it comes from."""
    import asyncio

    loop = asyncio.get_running_loop()

    def hand_over(notice: str) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody is there to be told
            loop.call_soon_threadsafe(tell, notice)

    return hand_over


_SQLITE = "sqlite:///"


def open_database(
    url: str, on_notice: Callable[[str], None] | None = None, durability: Durability = "full"
) -> Database:
    """Open a file or a server; drivers are imported only for the kind that is named.

    `on_notice` is told already when opening takes long. `durability` is about files: a server has its own.
    """
    if url.startswith(_SQLITE):
        from .sqlite import SqliteDatabase

        return SqliteDatabase(Path(url.removeprefix(_SQLITE)), on_notice, durability)
    from .url import SCHEMES, server_url

    if url.partition("://")[0].lower().partition("+")[0] not in SCHEMES:
        raise StoreError(
            "This is no store URL.",
            "Write sqlite:///PATH, postgresql://HOST/DATABASE or mysql://HOST/DATABASE.",
        )
    from .servers.network import NetworkDatabase

    return NetworkDatabase(_server(server_url(url)), on_notice)


def _server(url: ServerUrl) -> Server:
    try:
        if url.kind == "postgresql":
            from .servers.postgres import PostgresServer

            return PostgresServer(url)
        from .servers.mysql import MysqlServer

        return MysqlServer(url)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "pymysql"):
            raise
        from ..process.installation import install_command

        extra = "postgres" if url.kind == "postgresql" else "mysql"
        raise StoreError(
            f"The driver for {url.name} is missing.", f"Install it: {install_command(extra)}"
        ) from error
