"""A damaged index hides no record: what is whole is read without it, and it is rebuilt when asked."""

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.state.errors import SandburError
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

TURNS = 40
FLIPS = 12
"""Of each page."""


def root_pages(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return dict(
            database.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'index' AND rootpage > 0")
        )


def page_size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA page_size").fetchone()[0]


def flip(path: Path, offset: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def change_a_key(path: Path, table: str, columns: int) -> str:
    """Change the session of an entry from 1 to 0 in the index of a table; return the name of the index.

    `columns` is the number of the index's columns with the row's own number. The page stays well formed.
    """
    index = f"sqlite_autoindex_{table}_by_key_1"
    size = page_size(path)
    first = (root_pages(path)[index] - 1) * size
    # An entry begins with the length of its header and the types of its columns; 9 is the number 1, 8 is 0.
    at = path.read_bytes().rindex(bytes((columns + 1, 9)), first, first + size)
    flip(path, at + 1, 0)
    return index


def hide_the_session(path: Path, session_id: str) -> None:
    """Flip a bit of a session's id in the index that leads to its key."""
    size = page_size(path)
    first = (root_pages(path)["sqlite_autoindex_session_keys_1"] - 1) * size
    flip(path, path.read_bytes().rindex(session_id.encode(), first, first + size), 0)


def copied(store: Path, to: Path) -> Path:
    """Copy a store that nobody has open, with what is noted of it."""
    shutil.copytree(store.parent, to)
    return to / store.name


@pytest.fixture
async def written(tmp_path: Path) -> Path:
    """A session of some length, in a file without a log."""
    path = tmp_path / "written/sandbur.db"
    store = Store.open(f"sqlite:///{path}")
    model = ScriptedModel(*(act(f"t{number}") for number in range(TURNS)), "done")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    store.close()
    root_pages(path)
    return path


def flips(path: Path) -> Iterator[tuple[str, int, int]]:
    chance = random.Random(3)
    size = page_size(path)
    for name, page in root_pages(path).items():
        for _ in range(FLIPS):
            yield name, (page - 1) * size + chance.randrange(size), chance.randrange(8)


async def test_no_flipped_bit_in_an_index_makes_a_record_missing(written: Path, tmp_path: Path) -> None:
    lost: list[object] = []
    noticed = 0
    for number, (name, offset, bit) in enumerate(flips(written)):
        path = copied(written, tmp_path / str(number))
        flip(path, offset, bit)
        notices: list[str] = []
        try:
            store = Store.open(f"sqlite:///{path}", on_notice=notices.append)
        except SandburError as error:
            lost.append((name, offset, bit, str(error)))
            continue
        try:
            said = store.quarantine_damage("s1", trusting=False)
            history = [message.text for message in store.show("s1").state.chat_history]
            aside = store.database.query("SELECT place FROM quarantine")
            if said or aside or len(history) != 2 * TURNS + 2:
                lost.append((name, offset, bit, said, aside, len(history)))
        except SandburError as error:
            # What refuses names the way out.
            if "--reindex" not in str(error.hint):
                lost.append((name, offset, bit, str(error)))
        store.close()
        noticed += any("sandbur doctor --reindex" in notice for notice in notices)
        shutil.rmtree(path.parent)
    assert lost == []
    assert noticed > 0


async def test_the_session_goes_on_with_a_damaged_index(written: Path, tmp_path: Path) -> None:
    path = copied(written, tmp_path / "copy")
    index = change_a_key(path, "steps", columns=3)
    store = Store.open(f"sqlite:///{path}")
    assert store.quarantine_damage("s1", trusting=False) == []
    session = await open_session(store, ScriptedModel("more"), Recorder())
    _, end = await collect(session.send("and now?"))
    assert end.result == "more"
    store.close()
    store = Store.open(f"sqlite:///{path}")
    assert store.database.find_damaged_indexes() == [index]
    store.database.reindex()
    assert store.database.find_problems() == []
    assert store.verify("s1") == []
    assert len(store.show("s1").state.chat_history) == 2 * TURNS + 4
    store.close()


async def test_a_session_whose_key_is_hidden_is_read_and_gets_no_second_key(
    written: Path, tmp_path: Path
) -> None:
    path = copied(written, tmp_path / "copy")
    hide_the_session(path, "s1")
    store = Store.open(f"sqlite:///{path}")
    assert store.quarantine_damage("s1", trusting=False) == []
    session = await open_session(store, ScriptedModel("more"), Recorder())
    with pytest.raises(SandburError, match="an index is damaged and hides the session") as refused:
        await collect(session.send("and now?"))
    assert refused.value.hint == "Rebuild it: sandbur doctor --reindex"
    store.database.reindex()
    assert store.database.query("SELECT key, id FROM session_keys") == [(1, "s1")]
    assert store.database.find_problems() == []
    assert store.verify("s1") == []
    store.close()


def test_doctor_names_the_index_and_rebuilds_it_only_when_asked(tmp_path: Path) -> None:
    command = Command(tmp_path)
    first = command.run("-p", "hello", "-m", "demo", "--output-format", "json")
    session_id = first.result["session_id"]
    path = tmp_path / "data/sandbur.db"
    index = change_a_key(path, "messages", columns=4)
    for _ in range(2):
        ended = command.run("doctor")
        assert ended.code == 1
        assert f"{index}: damaged" in ended.out
        assert "\n                  sandbur doctor --reindex\n" in ended.out
        assert session_id[:8] not in ended.out, "no record is called damaged"
    resumed = command.run("-p", "-r", session_id, "more")
    assert resumed.code == 0
    assert "sandbur doctor --reindex" in resumed.err
    ended = command.run("doctor", "--reindex")
    assert (ended.code, "1 session, intact" in ended.out) == (0, True)
    assert command.run("doctor").code == 0
    assert command.run("sessions", "verify", session_id).code == 0


async def test_records_behind_an_index_that_cannot_be_followed_move_to_a_new_store(tmp_path: Path) -> None:
    command = Command(tmp_path)
    session_id = command.run("-p", "hello", "-m", "demo", "--output-format", "json").result["session_id"]
    path = tmp_path / "data/sandbur.db"
    # The number of entries of the page.
    flip(path, (root_pages(path)["sqlite_autoindex_messages_by_key_1"] - 1) * page_size(path) + 3, 0)
    ended = command.run("doctor")
    assert (ended.code, "sqlite_autoindex_messages_by_key_1: damaged" in ended.out) == (1, True)
    ended = command.run("doctor", "--reindex")
    assert (ended.code, "sandbur sessions export" in ended.out) == (1, True)
    assert command.run("sessions", "export", session_id, "moved.jsonl").code == 0
    new = ("--store", f"sqlite:///{tmp_path}/new.db")
    assert command.run("sessions", "import", "moved.jsonl", "--yes", *new).code == 0
    assert command.run("sessions", "verify", session_id, *new).code == 0


def test_a_write_that_a_damaged_index_refuses_is_told_to_rebuild_it_and_needs_no_backup(
    tmp_path: Path,
) -> None:
    command = Command(tmp_path)
    assert command.run("-p", "hello", "-m", "demo").code == 0
    path = tmp_path / "data/sandbur.db"
    size = page_size(path)
    for index, page in root_pages(path).items():
        # The type of the page.
        flip(path, (page - 1) * size, 2)
        ended = command.run("-p", "again", "-m", "demo")
        flip(path, (page - 1) * size, 2)
        assert "internal error" not in ended.err, index
        assert "backup" not in ended.err, (index, ended.err)
        assert ended.code == 0 or "sandbur doctor --reindex" in ended.err, (index, ended.err)
