"""Connections and servers that go away in the middle: nothing is lost, nothing happens twice."""

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.network.proxy import Proxy
from support.stores.databases import SERVERS, Place, fresh_place
from support.stores.rows import head, keys, put, step

from sandbur.state.databases.database import Database, open_database, route_notices
from sandbur.state.databases.servers.mysql import MysqlServer
from sandbur.state.databases.servers.network import OPENING_PATIENCE_S, PATIENCE_S, NetworkDatabase
from sandbur.state.databases.servers.postgres import PostgresServer
from sandbur.state.databases.url import parse_server_url
from sandbur.state.errors import GuardFailed, StoreError

# What a client sends last of a transaction.
COMMIT = b"COMMIT"
SERVER_OF = {"postgresql": PostgresServer, "mysql": MysqlServer}


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with fresh_place(request.param) as fresh:
        yield fresh


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", place.port) as proxy:
        yield proxy


@pytest.fixture
def database(place: Place, proxy: Proxy) -> Iterator[Database]:
    """A store with one session, behind the proxy."""
    opened = open_database(place.through(proxy.port))
    opened.commit([head()])
    yield opened
    opened.close()


@pytest.fixture
def notices(database: Database) -> list[str]:
    said: list[str] = []
    database.on_notice = said.append
    return said


def test_a_killed_connection_is_made_again_without_a_word(
    place: Place, database: Database, notices: list[str]
) -> None:
    database.commit([put("", "one")], step(0))
    assert place.kill() == 1
    database.commit([put("", "two")], step(1))
    assert place.kill() == 1
    assert keys(database) == ["one", "two"]
    assert notices == []


def test_connections_that_are_killed_all_the_time_lose_nothing(place: Place, database: Database) -> None:
    sessions = [f"session-{number}" for number in range(4)]
    database.commit([head(each) for each in sessions])
    is_over = threading.Event()

    def work(session_id: str) -> int:
        number = 0
        while not is_over.is_set():
            database.commit([put("x", f"{number}", session_id)], step(number, f"{number}", session_id))
            number += 1
        return number

    with ThreadPoolExecutor(4) as threads:
        working = [threads.submit(work, each) for each in sessions]
        killed = [place.kill() for _ in range(15) if not is_over.wait(0.15)]
        is_over.set()
        done = [each.result() for each in working]
    assert sum(killed) > 10
    rows = database.query("SELECT session_id, COUNT(*) FROM outputs GROUP BY session_id ORDER BY session_id")
    assert rows == list(zip(sessions, done, strict=True))
    assert database.query("SELECT SUM(records) FROM heads") == [(sum(done),)]


@pytest.mark.parametrize("has_landed", [True, False], ids=["answer lost", "never arrived"])
def test_a_guarded_commit_that_is_cut_happens_once(
    proxy: Proxy, database: Database, has_landed: bool
) -> None:
    proxy.cut_at(COMMIT, lets_them_pass=has_landed)
    database.commit([put("", "one")], step(0, "mine"))
    assert proxy.was_cut.is_set()
    assert keys(database) == ["one"]
    assert database.query("SELECT records, chain FROM heads") == [(1, "mine")]


@pytest.mark.parametrize("has_landed", [True, False], ids=["answer lost", "never arrived"])
def test_an_unguarded_commit_that_is_cut_happens_once(
    proxy: Proxy, database: Database, has_landed: bool
) -> None:
    proxy.cut_at(COMMIT, lets_them_pass=has_landed)
    database.commit([put("", "one"), put("", "two")])
    assert proxy.was_cut.is_set()
    assert keys(database) == ["one", "two"]


def test_a_row_that_was_there_before_is_no_sign_of_having_landed(proxy: Proxy, database: Database) -> None:
    database.commit([put("", "one")])
    with pytest.raises(StoreError, match="already contains a row"):
        database.commit([put("", "two"), put("", "one")])
    assert keys(database) == ["one"]


def test_whoever_was_cut_off_learns_that_another_was_faster(
    place: Place, proxy: Proxy, database: Database
) -> None:
    def overtake() -> None:
        proxy.was_cut.wait(20)
        other = open_database(place.url)
        other.commit([put("", "theirs")], step(0, "theirs"))
        other.close()
        proxy.listen()

    proxy.cut_at(COMMIT, lets_them_pass=False)
    proxy.stop_listening()
    with ThreadPoolExecutor(1) as threads:
        overtaking = threads.submit(overtake)
        with pytest.raises(GuardFailed):
            database.commit([put("", "mine")], step(0, "mine"))
        overtaking.result()
    assert keys(database) == ["theirs"]


def test_a_restart_of_the_server_is_told_once_and_survived(
    proxy: Proxy, database: Database, notices: list[str]
) -> None:
    proxy.refuse()
    timer = threading.Timer(2, proxy.listen)
    timer.start()
    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(database.commit, [put("", f"{number}")]) for number in range(4)]
        began = time.monotonic()
        jobs[0].result()
        assert time.monotonic() - began < PATIENCE_S / 2
        assert [job.result() for job in jobs] == [None] * 4
    timer.join()
    assert keys(database) == ["0", "1", "2", "3"]
    assert notices == [
        f"The store {database.name} does not answer; trying again.",
        f"The store {database.name} answers again.",
    ]


async def test_notices_come_in_the_event_loop(proxy: Proxy, database: Database) -> None:
    threads: list[threading.Thread] = []

    def hear(notice: str) -> None:
        threads.append(threading.current_thread())
        if len(threads) == 1:
            proxy.listen()

    database.on_notice = hear
    proxy.refuse()
    await database.acommit([put("", "one")], step(0))
    await asyncio.sleep(0)  # the last notice is on its way
    assert threads == [threading.main_thread()] * 2


async def test_each_session_that_waits_hears_of_an_outage_and_of_its_end(
    proxy: Proxy, database: Database
) -> None:
    heard: dict[str, list[str]] = {"one": [], "two": []}

    async def wait(name: str) -> None:
        def hear(notice: str) -> None:
            heard[name].append(notice)
            if all(heard.values()):
                proxy.listen()

        await route_notices(hear, lambda: database.acommit([put("", name)]))

    proxy.refuse()
    await asyncio.gather(*map(wait, heard))
    await asyncio.sleep(0)  # the last notice is on its way
    told = [
        f"The store {database.name} does not answer; trying again.",
        f"The store {database.name} answers again.",
    ]
    assert heard == {"one": told, "two": told}


async def test_a_cancelled_commit_does_not_wait_for_the_server(proxy: Proxy, database: Database) -> None:
    is_told = asyncio.Event()
    database.on_notice = lambda notice: is_told.set()
    proxy.refuse()
    task = asyncio.create_task(database.acommit([put("", "one")], step(0)))
    await is_told.wait()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < PATIENCE_S / 2
    proxy.listen()
    assert keys(database) == []


async def test_closing_does_not_wait_for_the_server(proxy: Proxy, database: Database) -> None:
    is_told = asyncio.Event()
    database.on_notice = lambda notice: is_told.set()
    proxy.refuse()
    task = asyncio.create_task(database.acommit([put("", "one")]))
    await is_told.wait()
    began = time.monotonic()
    await asyncio.to_thread(database.close)
    with pytest.raises(StoreError):
        await task
    assert time.monotonic() - began < PATIENCE_S / 2
    with pytest.raises(StoreError, match="closed"):
        await database.acommit([put("", "two")])


def test_a_store_that_is_not_there_is_said_at_once(place: Place, proxy: Proxy) -> None:
    proxy.refuse()
    began = time.monotonic()
    with pytest.raises(StoreError, match="no server listens") as refused:
        open_database(place.through(proxy.port))
    assert time.monotonic() - began < OPENING_PATIENCE_S / 2
    assert "plain-words" not in str(refused.value)


def test_reading_goes_on_over_a_broken_line(proxy: Proxy, database: Database, notices: list[str]) -> None:
    database.commit([put("", "one")])
    for _ in range(3):
        proxy.break_lines()
        assert keys(database) == ["one"]
    assert notices == []


def test_a_server_that_falls_silent_is_left(place: Place, proxy: Proxy) -> None:
    server = SERVER_OF[place.kind](parse_server_url(place.through(proxy.port)), answer_s=0.5)
    database = NetworkDatabase(server)
    database.commit([head()])
    for number in range(3):
        proxy.freeze_lines()
        database.commit([put("", f"{number}")], step(number))
    proxy.freeze_lines()
    assert keys(database) == ["0", "1", "2"]
    database.close()
