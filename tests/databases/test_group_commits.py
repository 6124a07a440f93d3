"""What many sessions of a process commit at once goes to a file together, and each has its own end."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from sandbur.state.databases.database import GuardedUpdate, exists, insert, route_notices, update
from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase
from sandbur.state.errors import GuardFailed, StoreError

NEVER = GuardedUpdate(update("meta", {"value": "9"}, {"name": "nobody"}), exists("meta", {"name": "nobody"}))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "sandbur.db")
    yield opened
    opened.close()


@contextmanager
def locked(database: SqliteDatabase) -> Iterator[None]:
    """Hold the lock of the file, as another process may."""
    with closing(sqlite3.connect(Path(database.name), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def row(name: str) -> list[tuple[str, tuple[str, ...]]]:
    sql, values = insert("meta", {"name": name, "value": ""})
    return [(sql, tuple(values))]


def names(database: SqliteDatabase) -> list[str]:
    return [name for (name,) in database.query("SELECT name FROM meta WHERE name <> 'schema' ORDER BY rowid")]


async def gathered(database: SqliteDatabase, *wanted: tuple[str, GuardedUpdate | None]) -> list[object]:
    """Commit rows that wait together; return the outcome of each."""
    with locked(database):
        jobs = [asyncio.ensure_future(database.acommit(row(name), guard)) for name, guard in wanted]
        await asyncio.sleep(0.05)
        assert not any(job.done() for job in jobs)
    return await asyncio.gather(*jobs, return_exceptions=True)


async def test_all_that_wait_are_committed_in_the_order_in_which_they_came(database: SqliteDatabase) -> None:
    wanted = [f"row {number:03}" for number in range(300)]
    assert await gathered(database, *((name, None) for name in wanted)) == [None] * 300
    assert names(database) == wanted


async def test_one_that_fails_fails_alone(database: SqliteDatabase) -> None:
    ends = await gathered(
        database, ("first", None), ("a", None), ("b", NEVER), ("a", None), ("a half", None), ("last", None)
    )
    assert [type(end) for end in ends] == [type(None), type(None), GuardFailed, StoreError, *[type(None)] * 2]
    assert names(database) == ["first", "a", "a half", "last"]


async def test_of_one_that_fails_nothing_stays(database: SqliteDatabase) -> None:
    await database.acommit(row("there"))
    with locked(database):
        jobs = [
            asyncio.ensure_future(database.acommit(rows))
            for rows in (row("x"), [*row("half"), *row("there")], row("y"))
        ]
        await asyncio.sleep(0.05)
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), StoreError, type(None)]
    assert names(database) == ["there", "x", "y"]


async def test_a_commit_that_was_cancelled_while_it_waited_never_happens(database: SqliteDatabase) -> None:
    with locked(database):
        jobs = [asyncio.ensure_future(database.acommit(row(name))) for name in "abc"]
        await asyncio.sleep(0.05)
        jobs[1].cancel()
        await asyncio.sleep(0.01)
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None), asyncio.CancelledError, type(None)]
    assert names(database) == ["a", "c"]


async def test_the_event_loop_goes_on_and_reads_while_commits_wait(database: SqliteDatabase) -> None:
    await database.acommit(row("before"))
    with locked(database):
        job = asyncio.ensure_future(database.acommit(row("after")))
        began = time.perf_counter()
        for _ in range(20):
            await asyncio.sleep(0.001)
            assert names(database) == ["before"]
        assert time.perf_counter() - began < 1
    await job
    assert names(database) == ["before", "after"]


async def test_everybody_who_waits_for_a_lock_hears_of_it(database: SqliteDatabase) -> None:
    heard: dict[str, list[str]] = {"a": [], "b": []}
    with locked(database):
        jobs = [
            asyncio.ensure_future(route_notices(said.append, partial(database.acommit, row(name))))
            for name, said in heard.items()
        ]
        await asyncio.sleep(1.6)
    await asyncio.gather(*jobs)
    await asyncio.sleep(0)
    assert all(len(said) == 1 and "has the store" in said[0] for said in heard.values()), heard


async def test_closing_waits_for_what_was_handed_over(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "closed.db")
    jobs = [asyncio.ensure_future(database.acommit(row(str(number)))) for number in range(50)]
    await asyncio.sleep(0)
    database.close()
    assert await asyncio.gather(*jobs) == [None] * 50
    with closing(sqlite3.connect(tmp_path / "closed.db")) as other:
        assert other.execute("SELECT COUNT(*) FROM meta WHERE name <> 'schema'").fetchone() == (50,)
    with pytest.raises(StoreError):
        await database.acommit(row("late"))
    assert not [thread for thread in threading.enumerate() if thread.name == "sandbur-commits"]


async def test_several_event_loops_share_a_file(database: SqliteDatabase) -> None:
    def elsewhere(start: int) -> None:
        async def work() -> None:
            await asyncio.gather(*(database.acommit(row(str(start + number))) for number in range(20)))

        asyncio.run(work())

    await asyncio.gather(*(asyncio.to_thread(elsewhere, start) for start in (0, 100, 200)))
    assert len(names(database)) == 60


def test_a_forked_child_writes_with_a_thread_of_its_own(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "forked.db")
    asyncio.run(database.acommit(row("parent")))
    child = os.fork()
    if not child:
        own = SqliteDatabase(tmp_path / "forked.db")
        asyncio.run(own.acommit(row("child")))
        own.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(database.acommit(row("parent again")))
    assert names(database) == ["parent", "child", "parent again"]
    database.close()


async def test_a_store_that_was_deleted_fails_everybody_who_waits(database: SqliteDatabase) -> None:
    await database.acommit(row("before"))
    with locked(database):
        jobs = [asyncio.ensure_future(database.acommit(row(name))) for name in "ab"]
        await asyncio.sleep(0.05)
        Path(database.name).rename(Path(database.name).with_name("elsewhere.db"))
    ends = await asyncio.gather(*jobs, return_exceptions=True)
    assert all(isinstance(end, StoreError) and "deleted, moved or replaced" in str(end) for end in ends), ends
