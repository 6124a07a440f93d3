"""A store that any released version wrote opens in this one, with everything in it."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.old_stores import (
    DONE,
    FORK,
    KILLED,
    PRESENT,
    STORES,
    WAITING,
    open_store,
    write_old_store,
)

from sandbur.state.calls import CallDecision
from sandbur.state.databases.chain import insert_row
from sandbur.state.databases.schema import CHAINED, INDEXES, SCHEMA_VERSION
from sandbur.state.databases.sqlite.keyed_tables import name_rows
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.listing import LabelFilter
from sandbur.state.store.store import Store

OPEN = "from sandbur.state.store.store import Store; Store.open('sqlite:///{}').close()"
POINTS = {"migration_mid", "migration_committed"}
LABELS = {"migration_labels_filled"}
"""Points of the migration of stores that do not have the labels of sessions in columns."""
DOCUMENTS = {"migration_documents_sampled"}
"""Points of the migration of stores whose documents are in no sample."""
CONVERSION = {"migration_rows_copied", "migration_table_converted"}
"""Points of the migration of tables in which each row has the id of its session."""
BEFORE_KEYS = STORES[5]
"""The last version with such tables."""
BEFORE_LABELS = STORES[6]
"""The last version without the labels of sessions in columns."""


def open_in_a_process(path: Path, **env: str) -> int:
    """Open the store in a process of its own; return how it ended."""
    command = [sys.executable, "-c", OPEN.format(path)]
    return subprocess.run(command, env={**os.environ, **env}, check=False).returncode


def contents_of(path: Path) -> dict[str, list[Any]]:
    """Return the rows of each table of records that is there, without digests: version 1 had none."""
    with closing(sqlite3.connect(path)) as connection:
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        return {
            table: sorted(connection.execute(f"SELECT session_id, {', '.join(CHAINED[table])} FROM {table}"))
            for table in CHAINED
            if table in there
        }


def schema_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()[0]
    finally:
        connection.close()


def test_there_is_a_fixture_of_every_older_version() -> None:
    assert [path.stem for path in STORES] == [f"store-{n}" for n in range(1, SCHEMA_VERSION)]


def tables_of(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.replace("IF NOT EXISTS ", "").split()) for name, sql in rows}


def test_the_fixture_of_this_version_has_the_tables_that_a_new_store_gets(tmp_path: Path) -> None:
    """Whoever changes a table raises the version, because stores with the old table are out there."""
    kept = write_old_store(PRESENT, tmp_path)
    assert schema_of(kept) == str(SCHEMA_VERSION)
    with closing(open_store(kept)) as store:
        assert {session.id for session in store.sessions()} >= {DONE, WAITING, KILLED, FORK}
        assert not any(store.verify(session.id) for session in store.sessions())
    open_store(tmp_path / "new.db").close()
    new = tables_of(tmp_path / "new.db")
    later = {name for name in tables_of(kept) if name.startswith("documents_")}  # made by the first search
    assert {name: sql for name, sql in tables_of(kept).items() if name not in later - set(new)} == new


def test_an_old_store_is_brought_up_to_date_and_holds(old: Path) -> None:
    store = open_store(old)
    assert schema_of(old) == str(SCHEMA_VERSION)
    assert {session.id for session in store.sessions()} >= {DONE, WAITING, KILLED, FORK}
    assert not any(store.verify(session.id) for session in store.sessions())
    view = store.show(DONE)
    assert [step.analysis for step in view.state.vibe_plan] == ["first", "second"]
    assert view.state.chat_history.last is not None
    assert view.state.chat_history.last.text == "all done"
    store.close()


async def test_old_sessions_go_on(old: Path) -> None:
    store = open_store(old)
    for session_id in (DONE, FORK):
        session = await open_session(store, ScriptedModel("more"), Recorder(), session_id=session_id)
        _, end = await collect(session.send("And now?"))
        assert (end.status, end.result) == ("done", "more")
    tool = Recorder()
    with chdir("/tmp"):  # where it was to run: elsewhere an approval would not hold
        model = ScriptedModel("ran")
        waiting = await open_session(store, model, tool, session_id=WAITING, mode="interactive")
        call = waiting.state.pending_tool_calls[0]
        _, end = await collect(waiting.decide([CallDecision(call_id=call.call_id, approved=True)]))
    assert (end.result, tool.done) == ("ran", ["x"])
    store.close()


async def test_a_call_that_was_running_under_an_old_version_is_not_run_again(old: Path) -> None:
    store = open_store(old)
    tool, model = Recorder(), ScriptedModel("told")
    killed = await open_session(store, model, tool, session_id=KILLED)
    _, end = await collect(killed.carry_on())
    assert (end.result, tool.done) == ("told", [])
    assert "may or may not have taken effect" in str(list(model.requests[0].messages)[-1].blocks)
    store.close()


def test_a_crash_in_the_middle_of_a_migration_changes_nothing(old: Path) -> None:
    assert open_in_a_process(old, SANDBUR_CRASH_AT="migration_mid") == -signal.SIGKILL
    assert int(schema_of(old)) < SCHEMA_VERSION
    assert len(open_store(old).sessions()) >= 4


def test_killed_anywhere_in_a_migration_a_store_is_old_or_new_and_whole(old: Path, tmp_path: Path) -> None:
    untouched, old_version = contents_of(old), int(schema_of(old))
    reached = tmp_path / "reached.txt"
    copy = shutil.copy(old, tmp_path / "whole.db")
    assert open_in_a_process(copy, SANDBUR_CRASH_TRACE=str(reached)) == 0
    points = Counter(name for name in reached.read_text().split() if name.startswith("migration_"))
    has_keys = old_version >= 7
    labels = LABELS if old_version < 8 else set[str]()
    documents = DOCUMENTS if old_version == 9 else set[str]()
    assert {*points} == POINTS | labels | documents | (set[str]() if has_keys else CONVERSION)
    # Older stores lack some of the tables, so that nothing of them is copied.
    assert points["migration_table_converted"] == (0 if has_keys else len(CHAINED))
    for name, count in points.items():
        for number in range(1, count + 1):
            path = tmp_path / f"{name}-{number}.db"
            shutil.copy(old, path)
            assert open_in_a_process(path, SANDBUR_CRASH_AT=f"{name}:{number}") == -signal.SIGKILL
            if name != "migration_committed":
                assert int(schema_of(path)) < SCHEMA_VERSION
                assert contents_of(path) == untouched
            open_store(path).close()
            assert schema_of(path) == str(SCHEMA_VERSION)
            assert contents_of(path).items() >= untouched.items()


@pytest.mark.skipif(sys.platform != "linux", reason="waits for a lock that Linux can name")
def test_two_processes_that_open_an_old_store_at_once_both_get_the_new_one(old: Path) -> None:
    untouched = contents_of(old)
    command = [sys.executable, "-c", OPEN.format(old)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert schema_of(old) == str(SCHEMA_VERSION)
    assert contents_of(old).items() >= untouched.items()


@pytest.mark.parametrize("version", [6, 7])
def test_sessions_of_an_old_store_are_found_by_their_labels(tmp_path: Path, version: int) -> None:
    path = write_old_store(STORES[version - 1], tmp_path)
    if version == 6:
        labelled = (
            "json_set(settings, '$.app', 'shop', '$.user', 'ada', '$.tags', json('[\"vip\", \"new\"]'))"
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE sessions SET settings = {labelled} WHERE id = ?", (DONE,))
    store = open_store(path)
    for wanted in (LabelFilter(app="shop", user="ada"), LabelFilter(tags=("vip",)), LabelFilter(user="ada")):
        assert [one.id for one in store.newest_sessions(wanted) if one.id != FORK] == [DONE]
    assert store.database.query(
        "SELECT tag FROM session_tags WHERE session_id = ? ORDER BY tag", (DONE,)
    ) == [
        ("new",),
        ("vip",),
    ]
    assert store.index.children_of(DONE) == []
    store.close()


def test_a_store_with_damaged_settings_is_brought_up_to_date(tmp_path: Path) -> None:
    path = write_old_store(BEFORE_LABELS, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute('UPDATE sessions SET settings = \'{"app": "sh\' WHERE id = ?', (DONE,))
    store = open_store(path)
    assert [one.id for one in store.newest_sessions(LabelFilter(user="bob"))] == [WAITING]
    assert DONE in {one.id for one in store.sessions()}
    store.close()


def test_a_damaged_page_of_sessions_keeps_no_store_from_its_migration(tmp_path: Path) -> None:
    path = write_old_store(BEFORE_LABELS, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA page_size = 1024")
        connection.execute("VACUUM")
        page = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'sessions' AND pagetype = 'leaf' LIMIT 1"
        ).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 1024] = 0xEE  # no kind of page
    path.write_bytes(content)
    store = open_store(path)
    assert schema_of(path) == str(SCHEMA_VERSION)
    indexes = {row[0] for row in store.database.query("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {index.name for index in INDEXES if index.table != "sessions"} <= indexes
    assert "sessions_spawned" not in indexes
    store.close()


def test_a_large_store_is_converted_in_little_memory(tmp_path: Path) -> None:
    """Of 60 MB; a process may take 40 MB more than one that opens an empty store."""
    paths = [tmp_path / "empty.db", tmp_path / "large.db"]
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(BEFORE_KEYS.read_text("utf-8"))
    with closing(sqlite3.connect(paths[1])) as connection:
        rows = ((DONE, f"big{n}", 0, b"x" * 20_000, 100 + n, "") for n in range(3000))
        with connection:
            connection.executemany("INSERT INTO outputs VALUES (?, ?, ?, ?, ?, ?)", rows)
    code = f"{OPEN}; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    peaks = [
        int(subprocess.run([sys.executable, "-c", code.format(path)], check=True, stdout=-1).stdout)
        for path in paths
    ]
    assert peaks[1] - peaks[0] < 40_000
    store = open_store(paths[1])
    assert store.database.query("SELECT COUNT(*), SUM(LENGTH(body)) FROM outputs") == [(3000, 60_000_000)]
    store.close()
    size = paths[1].stat().st_size
    assert size < 70_000_000, "the space of the old rows is free"


def test_a_table_with_a_damaged_page_keeps_its_form_and_the_other_sessions_work(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 1024")
        connection.executescript(BEFORE_KEYS.read_text("utf-8"))
        page = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'calls' AND pagetype = 'leaf' ORDER BY path DESC LIMIT 1"
        ).fetchone()[0]
    content = bytearray(path.read_bytes())
    content[(page - 1) * 1024] = 0xEE  # no kind of page
    path.write_bytes(content)
    notices: list[str] = []
    store = Store.open(f"sqlite:///{path}", on_notice=notices.append)
    assert notices == [
        f"The table calls of the store {path} is damaged and keeps its old form: sandbur doctor"
    ]
    kinds = dict(
        store.database.query("SELECT name, type FROM sqlite_master WHERE name IN ('calls', 'steps')")
    )
    assert kinds == {"calls": "table", "steps": "view"}
    assert store.show(DONE).state.chat_history.last is not None
    store.close()


def test_an_old_store_with_a_damaged_index_loses_no_record(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(BEFORE_KEYS.read_text("utf-8"))
        untouched = contents_of(path)
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'index'"))
    content = bytearray(path.read_bytes())
    for index in ("sqlite_autoindex_messages_1", "sqlite_autoindex_sessions_1"):
        first = (pages[index] - 1) * size
        content[content.rindex(DONE.encode(), first, first + size)] ^= 1
    path.write_bytes(content)
    store = open_store(path)
    store.database.reindex()
    assert store.verify(DONE) == []
    store.close()
    assert contents_of(path) == untouched


async def test_a_process_of_before_that_still_runs_goes_on_writing(tmp_path: Path) -> None:
    """Its statements name the tables of before, with the id in each row."""
    path = tmp_path / "old.db"
    before = sqlite3.connect(path, isolation_level=None)
    before.executescript(BEFORE_KEYS.read_text("utf-8"))
    insert = (
        "INSERT INTO outputs (session_id, call_id, chunk, body, record, digest) VALUES (?, ?, ?, ?, ?, ?)"
    )
    before.execute(insert, (DONE, "one", 0, b"1", 42, ""))
    store = open_store(path)
    before.execute(insert, (DONE, "two", 0, b"2", 43, ""))
    assert store.database.query("SELECT call_id FROM outputs WHERE session_id = ?", (DONE,)) == [
        ("one",),
        ("two",),
    ]
    before.execute("DELETE FROM outputs WHERE session_id = ? AND call_id = 'one'", (DONE,))
    assert store.database.query("SELECT call_id FROM outputs") == [("two",)]
    before.close()
    store.close()


def test_a_deleted_session_leaves_nothing_and_its_number_is_not_used_again(old: Path) -> None:
    store = open_store(old)
    keys = "SELECT key, id FROM session_keys ORDER BY key"
    known = store.database.query(keys)
    store.delete(FORK)
    store.delete(DONE)
    without_session = "SELECT 1 FROM {} WHERE session_key NOT IN (SELECT key FROM session_keys)"
    for table in CHAINED:
        assert store.database.query(without_session.format(name_rows(table))) == []
    store.index.create("next", SessionSettings(model="m", cwd="/"))
    store.database.commit([insert_row("messages", ("next", 0, 0, "{}", 0, ""))])
    left = store.database.query(keys)
    assert {"next"} == {name for _, name in left} - {name for _, name in known}
    assert not {DONE, FORK} & {name for _, name in left}
    assert left[-1][0] > max(key for key, _ in known)
    store.close()
