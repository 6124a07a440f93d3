"""File changes and old contents in a real database of each kind."""

import asyncio
import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.calls import FileChange
from sandbur.state.databases.chain import Chain, Entry, make_first_digest
from sandbur.state.databases.database import Database, open_database
from sandbur.state.store.files.contents import UNUSED_CONTENTS
from sandbur.state.store.files.file_history import FileHistory


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def change(path: str, before: bytes | None, after: bytes | None) -> FileChange:
    return FileChange(
        path=path,
        before=None if before is None else digest(before),
        before_mode=None if before is None else 0o644,
        after=None if after is None else digest(after),
    )


def record(database: Database, session: str, entries: list[Entry], at: int = 0) -> None:
    """Write rows as a session's writer does, `at` being the number of the first."""
    _, statements = Chain(at, make_first_digest(session)).link(session, entries)
    database.commit(statements)


def test_changes_come_back_in_order_and_from_a_step_on(database: Database):
    history = FileHistory(database, "s1")
    first, second = change("/w/é \n'a'", None, b"1"), change("/w/b", b"1", None)
    third = change("/w/b", None, b"2").model_copy(update={"is_restorable": False, "new_folders": 2})
    record(database, "s1", history.make_entries("c1", [first, second], 4))
    record(database, "s1", FileHistory(database, "s1").make_entries("c2", [third], 5), at=2)
    assert [one[1:] for one in history.list_changes(4)] == [("c1", first), ("c1", second), ("c2", third)]
    assert [one[1:] for one in history.list_changes(5)] == [("c2", third)]
    assert [one[1:] for one in history.list_changes(6)] == []
    assert history.load_changes("c1") == [first, second]
    assert FileHistory(database, "s2").list_changes() == []


def test_of_a_call_that_started_twice_the_newest_change_counts(database: Database):
    history = FileHistory(database, "s1")
    record(database, "s1", history.make_entries("c1", [change("/w/a", b"1", b"2")], 1))
    newest = change("/w/a", b"3", b"4")
    record(database, "s1", history.make_entries("c1", [newest], 1), at=1)
    assert history.load_changes("c1") == [newest]


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff" * 9, random.Random(1).randbytes(900_000), b"x" * 9_000_000]
)
def test_a_content_comes_back_byte_for_byte(database: Database, content: bytes):
    history = FileHistory(database, "s1")
    database.commit(history.insert_contents({digest(content): content}))
    assert history.read_content(digest(content)) == content
    assert history.read_content(digest(b"other")) is None


def rows(database: Database) -> int:
    return int(database.query("SELECT COUNT(*) FROM blobs")[0][0])


def test_a_content_is_stored_once(database: Database):
    content = random.Random(1).randbytes(600_000)
    for session in ("s1", "s1", "s2"):
        database.commit(FileHistory(database, session).insert_contents({digest(content): content}))
    assert rows(database) == 3
    assert FileHistory(database, "s3").read_content(digest(content)) == content


async def test_sessions_that_store_the_same_content_at_once_do_not_collide(url: str):
    content = random.Random(1).randbytes(600_000)
    first, *others = [open_database(url) for _ in range(6)]

    async def store(number: int, database: Database) -> None:
        history = FileHistory(database, f"s{number}")
        entries = history.make_entries("c1", [change("/w/a", content, b"")], 0)
        _, statements = Chain(0, make_first_digest(f"s{number}")).link(f"s{number}", entries)
        await database.acommit([*history.insert_contents({digest(content): content}), *statements])

    try:
        await asyncio.gather(*(store(number, database) for number, database in enumerate(others)))
        for number in range(5):
            history = FileHistory(first, f"s{number}")
            assert history.load_changes("c1") == [change("/w/a", content, b"")]
            assert history.read_content(digest(content)) == content
    finally:
        for database in (first, *others):
            database.close()


def test_a_damaged_content_is_not_taken_for_the_real_one(database: Database):
    content = b"the old content" * 100
    history = FileHistory(database, "s1")
    database.commit(history.insert_contents({digest(content): content}))
    body = bytes(database.query("SELECT body FROM blobs")[0][0])
    for damaged in (body[:-9], body[:20] + bytes([body[20] ^ 1]) + body[21:], b""):
        database.commit([("UPDATE blobs SET body = ?", (damaged,))])
        assert history.read_content(digest(content)) is None


def test_what_no_change_refers_to_can_be_deleted(database: Database):
    history = FileHistory(database, "s1")
    database.commit(history.insert_contents({digest(b"used"): b"used", digest(b"unused"): b"unused"}))
    changes = [change("/w/a", b"used", b"unused"), change("/w/b", None, b"x"), change("/w/c", b"x", None)]
    record(database, "s1", history.make_entries("c1", changes, 0))
    database.commit(UNUSED_CONTENTS)
    assert history.read_content(digest(b"used")) == b"used"
    assert history.read_content(digest(b"unused")) is None
    database.commit([("DELETE FROM files", ()), *UNUSED_CONTENTS])
    assert rows(database) == 0
