"""Every kind of database keeps a store in the same way."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from support.stores.databases import EVERY_STORE, SERVERS, Place, fresh_place, fresh_url
from support.stores.rows import head, keys, put, step

from sandbur.state.databases.database import Database, GuardedUpdate, open_database
from sandbur.state.databases.schema import SCHEMA_VERSION
from sandbur.state.errors import GuardFailed, StoreError

BODIES = {
    "emoji": "\N{GRINNING FACE} \N{EXTRATERRESTRIAL ALIEN}\N{ZERO WIDTH JOINER}",
    "quotes": """it's "quoted" `so` %s ? \\ \\' \n\t\r 100%""",
    "a string that looks like SQL": "'); DROP TABLE messages; --",
    "empty": "",
    "escaped NUL": "\\u0000",
    "five megabytes": "x1" * 2_500_000,
}


@pytest.fixture(params=EVERY_STORE)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as fresh:
        yield fresh


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with fresh_place(request.param) as fresh:
        yield fresh


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_text_comes_back_as_it_was_written(database: Database, body: str) -> None:
    sql = "INSERT INTO messages (session_id, log, idx, body, record, digest) VALUES ('s', 1, 2, ?, 0, '')"
    database.commit([(sql, (body,))])
    assert database.query("SELECT body, log + idx FROM messages WHERE body = ?", (body,)) == [(body, 3)]


def test_bytes_come_back_as_they_were_written(database: Database) -> None:
    every = bytes(range(256)) * 4000
    database.commit([put(every)])
    ((body,),) = database.query("SELECT body FROM outputs")
    assert bytes(body) == every


def test_sums_and_joined_texts_are_the_same_everywhere(database: Database) -> None:
    database.commit([put("a", "1"), put("b", "2")])
    sql = "SELECT COUNT(*), SUM(chunk + 1), MAX(call_id), COALESCE(MAX(record), 0), 'a' || '%' FROM outputs"
    assert database.query(f"{sql} WHERE call_id LIKE '%'") == [(2, 2, "2", 0, "a%")]
    assert [type(value) for value in database.query(sql)[0]] == [int, int, str, int, str]


def test_letters_differ_by_case_and_order_by_code(database: Database) -> None:
    database.commit([put("", key) for key in ("b", "B", "a")])
    assert database.query("SELECT body FROM outputs WHERE call_id = 'A'") == []
    assert sorted(keys(database)) == ["B", "a", "b"]


def test_a_transaction_happens_whole_or_not_at_all(database: Database) -> None:
    database.commit([put("", "there")])
    with pytest.raises(StoreError, match=r"\S"):
        database.commit([put("", "first"), put("", "there"), put("", "last")])
    assert keys(database) == ["there"]
    database.commit([put("", "later")])
    assert keys(database) == ["later", "there"]


def test_a_guard_that_holds_lets_everything_happen(database: Database) -> None:
    database.commit([head()])
    database.commit([put("", "one"), put("", "two")], step(0))
    assert keys(database) == ["one", "two"]
    assert database.query("SELECT records FROM heads") == [(1,)]


def test_a_guard_that_does_not_hold_lets_nothing_happen(database: Database) -> None:
    database.commit([head()])
    with pytest.raises(GuardFailed, match="another process"):
        database.commit([put("", "one")], step(5))
    assert keys(database) == []
    database.commit([put("", "two")], step(0))
    assert keys(database) == ["two"]


def test_a_claim_that_changes_nothing_of_its_row_holds(database: Database) -> None:
    database.commit([head()])
    same = GuardedUpdate(("UPDATE heads SET records = 0 WHERE session_id = ?", ("s",)), ("SELECT 1", ()))
    database.commit([put("", "one")], same)
    assert keys(database) == ["one"]


def test_a_claim_on_two_rows_does_not_hold(database: Database) -> None:
    database.commit([head("s"), head("t")])
    with pytest.raises(GuardFailed):
        database.commit(
            [put("", "one")], GuardedUpdate(("UPDATE heads SET records = 1", ()), ("SELECT 1", ()))
        )
    assert database.query("SELECT SUM(records) FROM heads") == [(0,)]


def test_a_refused_transaction_may_be_one_that_would_have_failed(database: Database) -> None:
    database.commit([head(), put("", "there")])
    with pytest.raises(GuardFailed):
        database.commit([put("", "there"), put("", "new")], step(5))
    assert keys(database) == ["there"]


def test_of_twenty_that_claim_the_same_row_one_wins(place: Place) -> None:
    databases = [open_database(place.url) for _ in range(4)]
    databases[0].commit([head()])
    start = threading.Barrier(20)

    def claim(number: int) -> bool:
        start.wait()
        with suppress(GuardFailed):
            databases[number % 4].commit([put("", f"{number:02}")], step(0))
            return True
        return False

    with ThreadPoolExecutor(20) as threads:
        won = list(threads.map(claim, range(20)))
    assert won.count(True) == 1
    assert keys(databases[0]) == [f"{won.index(True):02}"]
    for each in databases:
        each.close()


async def test_two_hundred_sessions_commit_at_once(place: Place) -> None:
    database = open_database(place.url)
    sessions = [f"session-{number}" for number in range(200)]
    database.commit([head(each) for each in sessions])

    async def one(session_id: str) -> None:
        for number in range(5):
            await database.acommit(
                [put("x" * 2000, f"{number}.{row}", session_id) for row in range(4)],
                step(number, session_id=session_id),
            )

    await asyncio.gather(*map(one, sessions))
    assert await database.offload(lambda: database.query("SELECT SUM(records) FROM heads")) == [(1000,)]
    database.close()


async def test_a_commit_that_waits_does_not_hold_the_event_loop_up(place: Place) -> None:
    database = open_database(place.url)
    database.commit([head()])
    with place.lock("heads"):
        waiting = asyncio.create_task(database.acommit([put("late")], step(0)))
        await asyncio.to_thread(place.until_one_waits)
        assert not waiting.done()
    await waiting
    assert keys(database) == ["k"]
    database.close()


async def test_a_cancelled_commit_that_lands_is_no_surprise(place: Place) -> None:
    database = open_database(place.url)
    database.commit([head()])
    landed: list[bool] = []

    async def commit() -> None:
        await database.acommit([put("", "one")], step(0))
        landed.append(True)
        await asyncio.sleep(60)

    with place.lock("heads"):
        task = asyncio.create_task(commit())
        await asyncio.to_thread(place.until_one_waits)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert landed == [True]
    assert keys(database) == ["one"]
    database.close()


def test_ten_processes_make_the_tables_together(place: Place) -> None:
    code = (
        "import sys; from sandbur.state.databases.database import open_database;"
        "open_database(sys.argv[1]).close()"
    )
    command = [sys.executable, "-W", "error", "-c", code, place.url]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(10)]
    assert [process.communicate(timeout=60)[1] for process in processes] == [""] * 10
    database = open_database(place.url)
    assert database.find_problems() == []
    assert database.query("SELECT name, value FROM meta") == [("schema", str(SCHEMA_VERSION))]
    database.close()
