"""A flipped bit in any row of a file: other sessions stay as they are, and the damage is named."""

import asyncio
import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.agent.history.timeline import list_timeline
from sandbur.state.databases.schema import CHAINED, COLUMNS
from sandbur.state.errors import DamagedRecords, SandburError
from sandbur.state.maintenance.damaged_rows import find_damaged_rows
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.verify import audit_all
from sandbur.state.memory.fact_store import FactStore
from sandbur.state.store.access_tokens import AuditTrail, TokenTable
from sandbur.state.store.sessions.session_rows import list_due_runs
from sandbur.state.store.sessions.workload import list_workers
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

FULL = bool(os.environ.get("SANDBUR_FULL"))
CELLS, FLIPS, CUTS = (100_000, 5_000, 300) if FULL else (60, 50, 8)
"""How many columns, bits of the file and lengths of the file a test tries."""
TEXTS = {"scope": "user", "origin": "person", "state": "valid", "what": "added", "kind": "fact"}
"""The values of columns that have only a few."""


def make_value(column: str, kind: str) -> Any:
    if "INT" in kind:
        return 1
    return b"bytes" if kind.startswith("{blob}") else TEXTS.get(column, f"{column} of s1")


def fill(path: Path) -> None:
    """Write a row of session s1 into every table that has none."""
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in COLUMNS.items():
            if not connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]:
                values = ["s1" if c == "session_id" else make_value(c, kind) for c, kind in columns.items()]
                names, marks = ", ".join(columns), ", ".join("?" * len(columns))
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
        connection.commit()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "sandbur.db"
    asyncio.run(write_sessions(path))
    fill(path)
    return path


async def write_sessions(path: Path) -> None:
    store = Store.open(f"sqlite:///{path}")
    for session_id in ("s1", "s2"):
        model = ScriptedModel(act("a", "b"), "one", act("c"), "two")
        session = await open_session(store, model, Recorder(), session_id=session_id)
        await collect(session.send("first"))
        await collect(session.send("second"))
    store.close()


def read_everything(store: Store) -> Iterator[Callable[[], Any]]:
    """Yield what commands read, for every session."""
    database = store.database
    yield lambda: store.sessions()
    yield lambda: list(store.roots())
    yield lambda: dict(audit_all(database, {one.id: one.parent_id for one in store.sessions()}))
    yield lambda: list(find_damaged_rows(database))
    yield lambda: list_due_runs(database, "")
    yield lambda: list_workers(database)
    yield lambda: TokenTable(database).list_all()
    yield lambda: AuditTrail(database).list_newest(None, 10)
    yield lambda: FactStore(database).rows.select("1 = 1", ())
    yield lambda: store.verify("s1")
    yield lambda: store.show("s1")
    yield lambda: list(export_session(database, "s1"))
    yield lambda: list(list_timeline(database, "s1"))
    yield lambda: store.inbox("s1").load(store.inbox("s1").load_taken())
    yield lambda: store.quarantine_damage("s1", trusting=False)
    yield lambda: store.journal("s1")
    yield lambda: store.writer("s1").load()


def open_damaged(content: bytes, folder: Path) -> Store | None:
    """Write a file and open it; return None if it is refused in a sentence."""
    folder.mkdir()
    path = folder / "sandbur.db"
    path.write_bytes(content)
    try:
        return Store.open(f"sqlite:///{path}")
    except SandburError:
        return None


def count_refused(store: Store) -> int:
    """Read everything; return how much of it was refused in a sentence. Any other error is a bug."""
    refused = 0
    for read in read_everything(store):
        try:
            read()
        except SandburError:
            refused += 1
    return refused


def list_cells(path: Path) -> list[tuple[str, str, int, bytes]]:
    """Return table, column, row and bytes of a text or blob of session s1 in every column of the file."""
    found: list[tuple[str, str, int, bytes]] = []
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in COLUMNS.items():
            rows = f"{table}_by_key" if table in CHAINED else table
            where = "session_key = (SELECT key FROM session_keys WHERE id = 's1')" if table in CHAINED else ""
            where = where or ("session_id = 's1'" if "session_id" in columns else "1 = 1")
            where = "id = 's1'" if table == "sessions" else where
            for column, kind in columns.items():
                if "INT" in kind or (table in CHAINED and column == "session_id"):
                    continue
                query = f"SELECT rowid, CAST({column} AS BLOB) FROM {rows} WHERE {where} AND {column} > ''"
                if row := connection.execute(f"{query} ORDER BY rowid DESC LIMIT 1").fetchone():
                    found.append((rows, column, *row))
    return found


def flip(raw: bytes, at: int, bit: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]


def list_texts(store: Store, session_id: str) -> list[str]:
    return [message.text for message in store.show(session_id).state.chat_history if message.text]


def test_a_flipped_bit_in_a_text_is_named_and_leaves_other_sessions_alone(
    written: Path, tmp_path: Path
) -> None:
    chance = random.Random(5)
    cells = [(*cell, bit) for cell in list_cells(written) for bit in range(8)]
    assert {table.removesuffix("_by_key") for table, *_ in cells} == set(COLUMNS)
    for number, (table, column, row, raw, bit) in enumerate(chance.sample(cells, min(CELLS, len(cells)))):
        changed = flip(raw, chance.randrange(len(raw)), bit)
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "sandbur.db"
        path.write_bytes(written.read_bytes())
        kind = "?" if is_blob(table, column) else "CAST(? AS TEXT)"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE {table} SET {column} = {kind} WHERE rowid = ?", (changed, row))
            connection.commit()
        where = f"{table}.{column} {raw!r} -> {changed!r}"
        try:
            store = Store.open(f"sqlite:///{path}")
        except SandburError:
            assert table == "meta", where
            continue
        refused = count_refused(store)
        assert "s2" in [summary.id for summary in store.sessions()], where
        assert list_texts(store, "s2") == ["first", "one", "second", "two"], where
        assert store.verify("s2") == [], where
        if b"\xff" in changed or changed.decode("utf-8", "replace").encode() != changed:
            is_named = refused or list(find_damaged_rows(store.database)) or store.verify("s1")
            assert is_named or is_blob(table, column), where
        store.close()


def is_blob(table: str, column: str) -> bool:
    return COLUMNS[table.removesuffix("_by_key")][column].startswith("{blob}")


def test_a_flipped_bit_anywhere_in_the_file_gives_no_other_error_than_a_sentence(
    written: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    whole = written.read_bytes()
    used = [at for at, byte in enumerate(whole) if byte]
    for number, at in enumerate(chance.sample(used, min(FLIPS, len(used)))):
        store = open_damaged(flip(whole, at, chance.randrange(8)), tmp_path / str(number))
        if store is not None:
            count_refused(store)
            store.close()


def test_a_file_that_ends_early_gives_no_other_error_than_a_sentence(written: Path, tmp_path: Path) -> None:
    chance = random.Random(9)
    whole = written.read_bytes()
    for number in range(CUTS):
        store = open_damaged(whole[: chance.randrange(1, len(whole))], tmp_path / str(number))
        if store is not None:
            count_refused(store)
            store.close()


def test_a_head_that_claims_endless_records_is_verified_at_once(written: Path, tmp_path: Path) -> None:
    store = open_damaged(written.read_bytes(), tmp_path / "copy")
    assert store is not None
    store.database.commit([("UPDATE heads SET records = ? WHERE session_id = 's1'", (2**62,))])
    assert any("missing" in sentence for sentence in store.verify("s1"))
    [(_, breaches)] = audit_all(store.database, {"s1": None})
    assert len(breaches) < 1100
    store.close()


def test_a_damaged_title_is_listed_named_and_repaired(tmp_path: Path) -> None:
    command = Command(tmp_path)
    ids = [
        command.run("-p", word, "-m", "demo", "--output-format", "json").result["session_id"]
        for word in ("ropes", "hello")
    ]
    with closing(sqlite3.connect(tmp_path / "data/sandbur.db")) as connection:
        connection.execute("UPDATE heads SET title = CAST(x'726FFF' AS TEXT) WHERE session_id = ?", ids[:1])
        connection.commit()
    listed = command.run("sessions")
    assert (listed.code, listed.out.count("\n")) == (0, 2)
    assert "ro\N{REPLACEMENT CHARACTER}" in listed.out
    for words in (("sessions", "show"), ("sessions", "export"), ("-p", "-r")):
        ended = command.run(*words, ids[1], *(["more"] if "-p" in words else []))
        assert ended.code == 0, ended.err
    ended = command.run("doctor")
    assert ended.code == 1
    assert f"{ids[0][:8]}: its title is not what was written" in ended.out
    assert command.run("sessions", "verify", ids[0]).code == 1
    assert command.run("sessions", "rename", ids[0], "ropes").code == 0
    assert command.run("doctor").code == 0


async def test_a_damaged_number_of_claims_is_the_reason_that_a_session_cannot_go_on(
    written: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sandbur.db"
    path.write_bytes(written.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE heads SET epoch = 'zz' WHERE session_id = 's1'")
        connection.commit()
    store = Store.open(f"sqlite:///{path}")
    settings = store.index.settings("s2")
    for known in ((0, ""), (1, "a")):
        conflict = store.index.find_conflict("s1", "me", known)
        assert isinstance(conflict, DamagedRecords)
        with pytest.raises(DamagedRecords, match="The row of session s1 in the table heads is damaged"):
            await store.index.claim("s1", "me", known, settings, "")
    store.close()
