"""Burr's persisters and Sandbur's behind one interface, so that the same tests run with all of them."""

import importlib.util
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from burr.core import State
from burr.core.persistence import SQLitePersister
from support.required import IS_COMPLETE, unless
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.burr.persister import AsyncSandburPersister, SandburPersister
from sandbur.state.databases.database import open_database

_HAS_AIOSQLITE = IS_COMPLETE or importlib.util.find_spec("aiosqlite") is not None
_AIOSQLITE = unless(_HAS_AIOSQLITE, "no aiosqlite here")


@dataclass
class Subject:
    """A kind of persister with its own store."""

    kind: str
    is_async: bool
    place: str
    """The store: a path for Burr's persisters, a URL for Sandbur's."""
    opened: list[Any] = field(default_factory=list[Any])

    @property
    def is_ours(self) -> bool:
        return self.kind != "burr"

    async def open(self, *, is_initialized: bool = True) -> Any:
        """Return a persister with a new connection."""
        persister = await self._new()
        self.opened.append(persister)
        if is_initialized:
            await await_result(persister.initialize())
        return persister

    async def close(self) -> None:
        for persister in self.opened:
            await await_result(persister.cleanup())

    async def _new(self) -> Any:
        if self.is_ours:
            kind = AsyncSandburPersister if self.is_async else SandburPersister
            return kind.from_url(self.place)
        if self.is_async:
            from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

            return await AsyncSQLitePersister.from_values(self.place)
        return SQLitePersister(self.place, connect_kwargs={"check_same_thread": False})


async def await_result(result: Any) -> Any:
    """Await the result if it is awaitable, and return its value."""
    return await result if inspect.isawaitable(result) else result


async def save(persister: Any, seq: int, values: Any, app: str = "app", status: Any = "completed") -> None:
    """Save without a partition."""
    await await_result(persister.save(None, app, seq, "act", State(values), status))


async def value(persister: Any, *where: Any) -> Any:
    """Load the fields of a state without a partition, or None."""
    found = await await_result(persister.load(None, *where))
    return found and found["state"].get_all()


def run_sql(place: str, sql: str, *parameters: Any) -> None:
    database = open_database(place)
    database.commit([(sql, parameters)])
    database.close()


def select(place: str, sql: str) -> list[tuple[Any, ...]]:
    database = open_database(place)
    rows = database.query(sql)
    database.close()
    return rows


@contextmanager
def subject(kind: str, is_async: bool, folder: Path) -> Iterator[Subject]:
    if kind == "burr":
        yield Subject(kind, is_async, str(folder / "burr.db"))
    else:
        with fresh_url(kind, folder) as url:
            yield Subject(kind, is_async, url)


def _kinds() -> Iterator[Any]:
    yield pytest.param(("burr", False), id="burr")
    yield pytest.param(("burr", True), id="burr-async", marks=_AIOSQLITE)
    for kind in DATABASES:
        name, marks = (kind, ()) if isinstance(kind, str) else (kind.values[0], kind.marks)
        yield pytest.param((name, False), id=name, marks=marks)
        yield pytest.param((name, True), id=f"{name}-async", marks=marks)


EVERY_KIND = list(_kinds())
"""Each is (kind, is_async)."""
OURS = [kind for kind in EVERY_KIND if kind.values[0][0] != "burr"]
