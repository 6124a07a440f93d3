"""Texts that are no UTF-8 are read on every database, marked, and never taken for what was written."""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.network.proxy import Proxy
from support.stores.databases import ON_MYSQL, SERVERS, Place, fresh_place, run
from support.stores.old_stores import STORES, open_store, write_old_store

from sandbur.state.databases.chain import digest_of
from sandbur.state.databases.damaged_values import DamagedText, is_damaged
from sandbur.state.databases.database import open_database
from sandbur.state.databases.schema import CHAINED
from sandbur.state.errors import SandburError
from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store

FULL = bool(os.environ.get("SANDBUR_FULL"))
CELLS = 6
"""The columns of a store that are damaged one after the other, unless all are."""
TITLE = "ropes and anchors"


def flips(text: str) -> list[bytes]:
    """Return the bytes of a text with each of the eight bits of one byte flipped."""
    raw = text.encode()
    return [bytes([raw[0], raw[1] ^ 1 << bit, *raw[2:]]) for bit in range(8)]


def is_utf8(raw: bytes) -> bool:
    return raw.decode("utf-8", "replace").encode() == raw


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with fresh_place(request.param) as fresh:
        yield fresh


def without_tls(url: str) -> str:
    option = "sslmode=disable" if url.startswith("postgresql") else "ssl-mode=DISABLED"
    return f"{url}{'&' if '?' in url else '?'}{option}"


def test_a_damaged_text_of_a_server_is_read_and_the_others_are_whole(place: Place) -> None:
    with Proxy("127.0.0.1", place.port) as proxy:
        store = Store.open(without_tls(place.through(proxy.port)))
        for number, title in enumerate((TITLE, "others")):
            store.index.create(f"s{number}", SessionSettings(model="m", cwd="/w"), title)
        for raw in flips(TITLE):
            proxy.replaced = (TITLE.encode(), raw)
            titles = {summary.id: summary.title for summary in store.sessions()}
            assert titles == {"s0": raw.decode("utf-8", "replace"), "s1": "others"}
            assert isinstance(titles["s0"], DamagedText) is not is_utf8(raw)
        proxy.replaced = None
        assert store.index.summary("s0").title == TITLE
        store.index.rename("s0", "written after it")
        store.close()


@ON_MYSQL
def test_a_text_in_a_column_of_bytes_is_decoded() -> None:
    with fresh_place("mysql") as place:
        store = Store.open(place.url)
        store.index.create("s0", SessionSettings(model="m", cwd="/w"), TITLE)
        run("mysql", "ALTER TABLE heads DROP INDEX heads_titled", database=place.database)
        run("mysql", "ALTER TABLE heads MODIFY title LONGBLOB NOT NULL", database=place.database)
        assert store.index.summary("s0").title == TITLE
        run("mysql", "UPDATE heads SET title = X'726FFF'", "COMMIT", database=place.database)
        assert store.index.summary("s0").title == "ro\N{REPLACEMENT CHARACTER}"
        store.close()


def test_no_damaged_value_has_the_digest_of_a_written_one(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/sandbur.db")
    written = "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    row = "INSERT INTO messages (session_id, log, idx, body, record, digest) VALUES ('s', 0, 0, ?, 0, '')"
    database.commit([(row, (written,))])
    columns = ", ".join(CHAINED["messages"])
    whole = database.query(f"SELECT {columns} FROM messages")[0]
    # The text that replaces these bytes is the one that was written.
    for damage in ("CAST(x'61EFBFFF' AS TEXT)", "x'61EFBFFF'", "1.5"):
        database.commit([(f"UPDATE messages SET body = {damage}", ())])
        found = database.query(f"SELECT {columns} FROM messages")[0]
        assert isinstance(found[-1], str)
        assert is_damaged(found[-1]) or damage == "1.5"
        assert digest_of("", "messages", found) != digest_of("", "messages", whole)
    database.close()


@pytest.mark.parametrize("statements", STORES, ids=lambda path: path.stem)
def test_a_store_of_an_older_version_with_damaged_texts_is_migrated_or_refused_in_a_sentence(
    statements: Path, tmp_path: Path
) -> None:
    path = write_old_store(statements, tmp_path)
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        cells = [
            (table, column)
            for table in names
            if "search" not in table
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall()
            if kind.startswith(("VARCHAR", "TEXT"))
        ]
    if not FULL:
        cells = random.Random(statements.stem).sample(cells, CELLS)
    refused: list[tuple[str, str]] = []
    for number, (table, column) in enumerate(cells):
        path = tmp_path / f"{number}/sandbur.db"
        path.parent.mkdir()
        path.write_bytes(whole)
        damage = f"CAST(x'FF' AS TEXT) || {column}"
        row = f"(SELECT MAX(rowid) FROM {table})"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"UPDATE {table} SET {column} = {damage} WHERE rowid = {row}")
            connection.commit()
        try:
            store = open_store(path)
        except SandburError:
            refused.append((table, column))
            continue
        assert [summary.id for summary in store.sessions()]
        store.close()
    assert {table for table, _ in refused} <= {"meta"}
