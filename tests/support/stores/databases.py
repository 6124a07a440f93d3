"""A new store for a test on each kind of database; on a server, a role without special rights owns it."""

import atexit
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest
from support.required import IS_COMPLETE

from sandbur.state.store.store import Store

_ADMINS = {
    "postgresql": os.environ.get("SANDBUR_TEST_POSTGRESQL", "postgresql://root@127.0.0.1:5432/test"),
    "mysql": os.environ.get("SANDBUR_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test"),
}
_PASSWORD = "plain-words"

UrlOf = Callable[[str, Path], str]
"""(kind, folder) -> the URL of a store."""


def connect(kind: str, database: str | None = None) -> Any:
    """Connect as the administrator, without autocommit."""
    parts = urlsplit(_ADMINS[kind])
    database = database or parts.path[1:]
    if kind == "postgresql":
        return psycopg.connect(parts._replace(path=f"/{database}").geturl(), connect_timeout=3)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=database,
        connect_timeout=3,
        # With TLS the driver reads all certificates of the system for each connection.
        ssl_disabled=True,
    )


def run(kind: str, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
    """Run statements as the administrator; return the rows of the last."""
    with connect(kind, database) as admin:
        if kind == "postgresql":
            admin.autocommit = True  # databases are made outside of transactions
        with admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


@cache
def is_there(kind: str) -> bool:
    """Return whether the server answers; in CI it is assumed to answer."""
    if IS_COMPLETE:
        return True
    try:
        run(kind, "SELECT 1")
    except (psycopg.Error, pymysql.Error):
        return False
    return True


def _only_on(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_there(kind), reason=f"no {kind} server answers here")


ON_POSTGRESQL, ON_MYSQL = _only_on("postgresql"), _only_on("mysql")
SERVERS = (pytest.param("postgresql", marks=ON_POSTGRESQL), pytest.param("mysql", marks=ON_MYSQL))
DATABASES = ("sqlite", *SERVERS)
"""For `pytest.mark.parametrize` and fixtures: the databases that several processes can open."""
EVERY_STORE = (*DATABASES, "memory")


@dataclass(frozen=True, slots=True)
class Place:
    """An empty database (on PostgreSQL: a schema) that a plain role owns."""

    kind: str
    url: str
    database: str
    schema: str
    user: str

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or {"postgresql": 5432, "mysql": 3306}[self.kind]

    def through(self, port: int) -> str:
        """Return the URL with another port of this machine."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=f"{self.user}:{_PASSWORD}@127.0.0.1:{port}").geturl()

    @contextmanager
    def lock(self, table: str) -> Iterator[None]:
        """Lock the rows of a table during the context, so that writers wait."""
        with connect(self.kind, self.database) as admin:
            admin.cursor().execute(f"SELECT * FROM {self.schema}.{table} FOR UPDATE")
            yield
            admin.rollback()

    def until_one_waits(self) -> None:
        """Wait until a transaction of the role waits for a lock."""
        if self.kind == "postgresql":
            sql = "SELECT 1 FROM pg_stat_activity WHERE usename = '{}' AND wait_event_type = 'Lock'"
        else:  # innodb_trx would tell it exactly, but is not renewed while it is looked at often
            sql = "SELECT 1 FROM information_schema.processlist WHERE user = '{}' AND info LIKE 'UPDATE%'"
        deadline = time.monotonic() + 120
        while not run(self.kind, sql.format(self.user)):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> int:
        """End every connection of the role; return how many there were."""
        if self.kind == "postgresql":
            sql = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.user}'"
            return len(run(self.kind, sql))
        sql = f"SELECT id FROM information_schema.processlist WHERE user = '{self.user}'"
        killed = 0
        with connect(self.kind) as admin, admin.cursor() as cursor:
            for (connection,) in run(self.kind, sql):
                with suppress(pymysql.Error):  # gone meanwhile
                    killed += 1 + cursor.execute(f"KILL {connection}")
        return killed


@contextmanager
def fresh_url(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a store that does not exist yet; remove the store at the end."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/data/sandbur.db"
    elif kind == "memory":
        yield make_memory_url()
    else:
        with fresh_place(kind) as place:
            yield place.url


@contextmanager
def empty_url(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a store without sessions.

    On a server one store serves all tests of the process, one after the other. It is emptied for each of
    them: to make the tables takes a server a hundred times as long.
    """
    if kind not in _ADMINS:
        with fresh_url(kind, folder) as url:
            yield url
        return
    place = _lasting_place(kind)
    with connect(kind, place.database) as admin, admin.cursor() as cursor:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        cursor.execute(tables, (place.schema,))
        for (table,) in cursor.fetchall():
            if table != "meta":
                cursor.execute(f"DELETE FROM {place.schema}.{table}")
        admin.commit()
    yield place.url


@cache
def _lasting_place(kind: str) -> Place:
    lasting = ExitStack()
    place = lasting.enter_context(fresh_place(kind))
    atexit.register(lasting.close)
    Store.open(place.url).close()
    return place


def make_memory_url() -> str:
    """Return the URL of an empty store in the memory of this process."""
    return f"memory:{uuid.uuid4().hex[:12]}"


@contextmanager
def fresh_place(kind: str) -> Iterator[Place]:
    name = f"sandbur_{uuid.uuid4().hex[:12]}"
    address = urlsplit(_ADMINS[kind]).netloc.rpartition("@")[2]
    user, database = _role(kind)
    if kind == "postgresql":
        run(kind, f"CREATE SCHEMA {name} AUTHORIZATION {user}", database=database)
        url = f"postgresql://{user}:{_PASSWORD}@{address}/{database}?options=-csearch_path%3D{name}"
        drop, inside = f"DROP SCHEMA {name} CASCADE", database
    else:
        run(kind, f"CREATE DATABASE {name}", f"GRANT ALL ON {name}.* TO {user}@'%'")
        url, inside = f"mysql://{user}:{_PASSWORD}@{address}/{name}", None
        drop, database = f"DROP DATABASE {name}", name
    try:
        yield Place(kind, url, database, name, user)
    finally:
        run(kind, drop, database=inside)


@cache
def _role(kind: str) -> tuple[str, str]:
    """Make a plain role for this process; return its name and the database that is used with it."""
    name = f"sandbur_{os.getpid()}_{uuid.uuid4().hex[:6]}"
    if kind == "mysql":
        run(kind, f"CREATE USER {name}@'%' IDENTIFIED BY '{_PASSWORD}'")
        _at_exit(kind, f"DROP USER {name}@'%'")
        return name, ""
    run(kind, f"CREATE ROLE {name} LOGIN PASSWORD '{_PASSWORD}'")
    try:
        run(kind, f"CREATE DATABASE {name}")
    except psycopg.errors.InsufficientPrivilege:
        _at_exit(kind, f"DROP ROLE {name}")
        return name, urlsplit(_ADMINS[kind]).path[1:]
    _at_exit(kind, f"DROP DATABASE {name} WITH (FORCE)", f"DROP ROLE {name}")
    return name, name


def _at_exit(kind: str, *statements: str) -> None:
    def drop() -> None:
        with suppress(psycopg.Error, pymysql.Error):
            run(kind, *statements)

    atexit.register(drop)
