"""Many messages are added to an inbox in one transaction, on every kind of database."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT
from support.stores.databases import DATABASES, EVERY_STORE, UrlOf, fresh_url

from sandbur.state.application import NOTHING_TAKEN
from sandbur.state.databases.database import insert
from sandbur.state.errors import UsageError
from sandbur.state.process.clock import now
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.inbox import (
    MOST_AT_ONCE,
    MOST_CHARS,
    MOST_CHARS_AT_ONCE,
    Inbox,
    NewMessage,
)
from sandbur.state.store.store import Store

WRITER = """
import asyncio, sys
from sandbur.state.store.sessions.inbox import NewMessage
from sandbur.state.store.store import Store

async def main(url, name):
    store = Store.open(url)
    for batch in range(10):
        await store.inbox("s1").add_many("observe", [NewMessage(f"{name}.{batch}.{n}") for n in range(5)])
    store.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=EVERY_STORE)
def inbox(request: pytest.FixtureRequest, url_of: UrlOf, tmp_path: Path) -> Iterator[Inbox]:
    store = Store.open(url_of(request.param, tmp_path))
    store.delete("s1") if store.index.exists("s1") else None
    store.index.create("s1", SessionSettings(model="m", cwd="/"))
    yield store.inbox("s1")
    store.close()


def messages(*texts: str) -> list[NewMessage]:
    return [NewMessage(text) for text in texts]


def stored(inbox: Inbox) -> list[tuple[int, str]]:
    return [(one.number, one.text) for one in inbox.load(NOTHING_TAKEN)]


async def test_messages_added_together_have_the_numbers_that_follow(inbox: Inbox) -> None:
    await inbox.add_many("observe", messages("zero"))
    added = await inbox.add_many("observe", [NewMessage("one", "a context"), *messages("two", "three")], 6)
    assert [(one.number, one.text, one.context) for one in added] == [
        (7, "one", "a context"), (8, "two", ""), (9, "three", ""),
    ]  # fmt: skip
    assert stored(inbox) == [(1, "zero"), (7, "one"), (8, "two"), (9, "three")]
    assert inbox.waiting(NOTHING_TAKEN)[1:] == added
    assert await inbox.add_many("observe", []) == ()


async def test_a_number_that_another_process_took_meanwhile_is_not_taken_twice(inbox: Inbox) -> None:
    """A message of an import has a number in the middle of those that a batch would take."""
    adding = asyncio.ensure_future(inbox.add_many("observe", messages(*map(str, range(2000)))))
    row = {"session_id": "s1", "n": 3, "kind": "observe", "at": now(), "token": "t", "body": '{"text": "x"}'}
    await inbox._database.acommit([insert("inbox", row)])  # pyright: ignore[reportPrivateUsage]
    added = await adding
    numbers = [number for number, _ in stored(inbox)]
    assert [one.text for one in added] == [str(n) for n in range(2000)]
    assert len(numbers) == len(set(numbers)) == 2001
    assert [one.number for one in added] == list(range(4, 2004))


async def test_a_batch_that_is_too_large_is_refused_and_nothing_is_stored(inbox: Inbox) -> None:
    with pytest.raises(UsageError, match="may have 262,144 characters; this one has 262,145"):
        await inbox.add_many("observe", messages("short", "x" * (MOST_CHARS + 1)))
    with pytest.raises(UsageError, match=r"10,001 messages with 10,001 characters are too many"):
        await inbox.add_many("observe", messages("x") * (MOST_AT_ONCE + 1))
    with pytest.raises(UsageError, match=r"Add at most 10,000 messages with 16,777,216 characters"):
        await inbox.add_many("observe", messages("x" * MOST_CHARS) * (MOST_CHARS_AT_ONCE // MOST_CHARS + 1))
    assert stored(inbox) == []


@pytest.mark.parametrize("kind", DATABASES)
def test_batches_of_several_processes_do_not_mix(kind: str, tmp_path: Path) -> None:
    with fresh_url(kind, tmp_path) as url:
        store = Store.open(url)
        store.index.create("s1", SessionSettings(model="m", cwd="/"))
        line = [sys.executable, "-c", WRITER, url]
        writers = [subprocess.Popen([*line, name], cwd=ROOT) for name in ("a", "b")]
        assert [writer.wait(60) for writer in writers] == [0, 0]
        rows = stored(store.inbox("s1"))
        store.close()
    assert [number for number, _ in rows] == list(range(1, 101))
    batches = [rows[start : start + 5] for start in range(0, 100, 5)]
    for batch in batches:
        first = batch[0][1].removesuffix(".0")
        assert [text for _, text in batch] == [f"{first}.{n}" for n in range(5)]
    for name in ("a", "b"):
        own = [batch[0][1] for batch in batches if batch[0][1].startswith(name)]
        assert own == [f"{name}.{n}.0" for n in range(10)]
