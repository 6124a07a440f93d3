"""Stored contents are hashed: those of messages, and those that files had before a change."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.files import png
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect, open_session
from support.stores.audits import audit_session
from support.stores.reopening import reopen

from sandbur.state.conversation.messages import Image
from sandbur.state.maintenance.verify import audit_all
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow


async def recorded(store: Store, folder: Path) -> None:
    """Record a session with two pictures and an overwritten file, and a fork that adds a picture."""
    (folder / "notes.txt").write_text("old words\n" * 50)
    edit = [("write_file", {"path": "notes.txt", "content": "new"})]
    read = [("read_file", {"path": "notes.txt"})]
    session = await open_real(store, ScriptedModel(read, edit, "done", "seen"), folder)
    session.change_mode("yolo")
    await collect(session.send([Image.from_bytes(png(seed=1)), "look"]))
    await collect(session.send([Image.from_bytes(png(seed=2)), "and here"]))
    store.fork("s1", "s2")
    fork = await open_session(reopen(store), ScriptedModel("seen"), session_id="s2")
    await collect(fork.send([Image.from_bytes(png(seed=3)), "more"]))


def audit_of_all(store: Store) -> dict[str, list[str]]:
    parents = {summary.id: summary.parent_id for summary in store.sessions()}
    found = audit_all(store.database, parents)
    return {session_id: [breach.problem for breach in breaches] for session_id, breaches in found}


def put(store: Store, key: tuple[Any, ...], body: bytes) -> None:
    where = "digest = ? AND session_id = ? AND chunk = ?"
    store.database.commit([(f"UPDATE blobs SET body = ? WHERE {where}", (body, *key))])


async def test_every_flipped_bit_in_a_stored_content_is_found(store: Store, tmp_path: Path) -> None:
    await recorded(store, tmp_path)
    assert audit_of_all(store) == {"s1": [], "s2": []}
    rows = store.database.query("SELECT digest, session_id, chunk, body FROM blobs WHERE chunk >= 0")
    assert len(rows) == 4
    chance = random.Random(11)
    silent: list[Any] = []
    for number in range(40):
        *key, body = rows[number % len(rows)]
        flipped = bytearray(body)
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        put(store, tuple(key), bytes(flipped))
        by_doctor = [problem for problems in audit_of_all(store).values() for problem in problems]
        by_verify = [breach.problem for breach in audit_session(store, "s2").breaches]
        if not by_doctor or sorted(by_doctor) != sorted(by_verify):
            silent.append((number, by_doctor, by_verify))
        put(store, tuple(key), bytes(body))
    assert silent == []
    assert audit_of_all(store) == {"s1": [], "s2": []}


async def test_a_damaged_copy_is_found_where_another_copy_is_whole(store: Store, tmp_path: Path) -> None:
    await recorded(store, tmp_path)
    [(digest, size, body)] = store.database.query(
        "SELECT digest, size, body FROM blobs WHERE chunk = 0 AND session_id = 's2'"
    )
    broken = bytes(body)[:-1] + b"x"
    statement = "INSERT INTO blobs (digest, session_id, chunk, size, body) VALUES (?, ?, ?, ?, ?)"
    store.database.commit([(statement, (digest, "s1", 0, size, broken))])
    [problem] = audit_of_all(store)["s2"]
    assert "one copy is not what was written, another copy is" in problem


async def test_a_secret_that_was_never_stored_is_no_breach(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("-----BEGIN PRIVATE KEY-----\n" + "MIIEvQ" * 40)
    edit = [("write_file", {"path": "notes.txt", "content": "new"})]
    read = [("read_file", {"path": "notes.txt"})]
    session = await open_real(store, ScriptedModel(read, edit, "done"), tmp_path)
    session.change_mode("yolo")
    await collect(session.send("go"))
    [(body,)] = store.database.query("SELECT body FROM files")
    assert json.loads(body)["before"]
    assert store.database.query("SELECT 1 FROM blobs") == []
    assert audit_of_all(store) == {"s1": []}


async def test_what_a_fork_was_forked_from_is_reported_once(store: Store, tmp_path: Path) -> None:
    await recorded(store, tmp_path)
    store.database.commit([("UPDATE messages SET body = 'x' WHERE session_id = 's1' AND idx = 0", ())])
    assert audit_of_all(store) == {"s1": ["is not what was written"], "s2": []}
    assert [breach.problem for breach in audit_session(store, "s2").breaches] == ["is not what was written"]


def test_a_lost_picture_is_told_to_the_person_at_every_opening(tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "a.png").write_bytes(png(40, 40))
    first = command.run("-p", "look", "-m", "demo", "--attach", "a.png", "--output-format", "json")
    session_id = first.result["session_id"]
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    store.database.commit([("UPDATE blobs SET body = ? WHERE chunk = 0", (b"something else",))])
    store.close()
    for _ in range(2):
        ended = command.run("-p", "-r", session_id, "more")
        assert ended.code == 0
        assert f"The store has lost the bytes of {Image.from_bytes(png(40, 40)).label}" in ended.err
    for words in (("doctor",), ("sessions", "verify", session_id)):
        ended = command.run(*words)
        assert (ended.code, "which is missing, or is not what was written" in ended.out) == (1, True)
