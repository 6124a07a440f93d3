"""What the store keeps, what it costs in bytes, and what it refuses."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.models.scripted import START, Recorder, ScriptedModel, collect, finish, open_session, plan
from support.stores.reopening import reopen

from sandbur.state.conversation.messages import Message, Text, Wire
from sandbur.state.errors import SessionNotFound, StoreError, UsageError
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.store import Store


def act(*texts: str) -> list[tuple[str, dict[str, str]]]:
    return [("act", {"text": text}) for text in texts]


def file_of(store: Store) -> Path:
    return Path(store.url.removeprefix("sqlite:///"))


def rows(store: Store, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file_of(store))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def test_a_step_writes_only_what_changed(store: Store) -> None:
    session = await open_session(
        store, ScriptedModel(*[act("x" * 500 + str(n)) for n in range(30)], "done"), Recorder()
    )
    await collect(session.send("go"))
    snapshots, deltas = (
        [len(str(row[0])) for row in rows(store, f"SELECT fields FROM steps WHERE is_snapshot = {flag}")]
        for flag in (1, 0)
    )
    assert len(snapshots) < len(deltas) / 4
    assert max(deltas) < 2048


async def test_bytes_stay_within_three_times_the_content_and_two_kilobytes_a_step(store: Store) -> None:
    turns = [act("é" * 1000 + str(n)) for n in range(100)]
    session = await open_session(store, ScriptedModel(*turns, "done", context_window=10**6), Recorder())
    await collect(session.send("go"))
    content = sum(message.size_bytes for message in session.state.chat_history)
    steps = store.index.summary("s1").steps
    store.close()
    on_disk = sum(path.stat().st_size for path in file_of(store).parent.iterdir())
    assert on_disk <= 3 * content + 2048 * steps


async def test_a_reopened_session_has_the_same_state(store: Store) -> None:
    model = ScriptedModel(START, plan("one", "two"), act("a"), finish("x"), act("b"), finish("y"), "end")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    resumed = await open_session(reopen(store), ScriptedModel(), Recorder())
    assert list(resumed.state.chat_history) == list(session.state.chat_history)
    fields = set(type(session.state).model_fields) - {"chat_history", "vibe_plan"}
    assert {name: getattr(resumed.state, name) for name in fields} == {
        name: getattr(session.state, name) for name in fields
    }
    assert [step.analysis for step in resumed.state.vibe_plan] == ["x", "y"]


async def test_a_finished_step_leaves_the_working_state_and_stays_in_the_store(store: Store) -> None:
    model = ScriptedModel(START, plan("one"), act("a"), finish("x"), "end")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    with pytest.raises(LookupError):
        list(session.state.vibe_plan[0].chat_history)
    history = store.show("s1").state.vibe_plan[0].chat_history
    assert [use.tool for said in history for use in said.tool_uses] == ["act", "finish_step"]
    results = [result.content for said in history for result in said.tool_results]
    assert results == ["did a", "The step is closed."]


async def test_a_fork_is_a_pointer_and_both_sides_go_on(store: Store) -> None:
    session = await open_session(store, ScriptedModel("one", "two", "three"))
    await collect(session.send("first"))
    await collect(session.send("second"))
    before = rows(store, "SELECT COUNT(*) FROM messages")
    store.fork("s1", "s2", at=1)
    assert rows(store, "SELECT COUNT(*) FROM messages") == before
    fork = await open_session(store, ScriptedModel("other"), session_id="s2")
    await collect(fork.send("instead"))
    await collect(session.send("third"))
    again = reopen(store)
    texts = {name: [message.text for message in again.show(name).state.chat_history] for name in ("s1", "s2")}
    assert texts["s1"] == ["first", "one", "second", "two", "third", "three"]
    assert texts["s2"] == ["first", "one", "instead", "other"]
    with pytest.raises(StoreError, match="has the fork"):
        store.delete("s1")
    with pytest.raises(UsageError, match="no step 99"):
        store.fork("s1", "s3", at=99)


async def test_any_earlier_step_can_be_shown(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a"), "done"), Recorder())
    await collect(session.send("go"))
    lengths = [len(store.show("s1", seq).state.chat_history) for seq in range(4)]
    assert lengths == [1, 2, 3, 4]


async def test_the_journal_has_every_move_of_every_call_in_order(store: Store) -> None:
    session = await open_session(store, ScriptedModel(act("a", "b"), "done"), Recorder())
    await collect(session.send("go"))
    moves = rows(store, "SELECT call_id, move FROM calls ORDER BY n")
    assert moves == [
        ("c1_0", "proposed"), ("c1_1", "proposed"),
        ("c1_0", "started"), ("c1_0", "finished"),
        ("c1_1", "started"), ("c1_1", "finished"),
    ]  # fmt: skip


async def test_odd_characters_survive(store: Store) -> None:
    odd = "\x00 \x1b[31m é 日本 👩‍👩‍👧 \u202e \ufffd"
    session = await open_session(store, ScriptedModel(act(odd), odd), Recorder())
    await collect(session.send("say it"))
    texts = store.show("s1").state.chat_history
    assert [message.text for message in texts][-1] == odd
    assert not any("\x00" in str(body) for (body,) in rows(store, "SELECT body FROM messages"))


async def test_the_providers_own_json_comes_back_in_its_own_order(store: Store) -> None:
    body = json.loads('{"zeta": 1, "alpha": {"b": null, "a": [1.5, "x"]}}')
    message = Message(
        role="assistant",
        origin="model",
        blocks=(Text(text="x"),),
        wire=Wire(provider="p", model="m", body=body),
    )
    session = await open_session(store, ScriptedModel("x"))
    await collect(session.send("hi"))
    assert json.dumps(Message.model_validate_json(message.model_dump_json()).wire.body) == json.dumps(body)  # type: ignore[union-attr]


def test_folder_and_files_are_private(tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        store = Store.open(f"sqlite:///{tmp_path}/home/sandbur.db")
        store.index.create("a", SessionSettings(model="m", cwd="/"))
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    for path in (tmp_path / "home").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    store.close()


def test_sessions_are_found_by_id_prefix_and_title(store: Store) -> None:
    settings = SessionSettings(model="m", cwd="/")
    for name, title in (("aa11", ""), ("aa22", ""), ("bb33", "my title")):
        store.index.create(name, settings, title)
    assert store.find("bb33") == store.find("b") == store.find("my title") == "bb33"
    with pytest.raises(UsageError, match="2 sessions"):
        store.find("aa")
    for nothing in ("zz", "", "\x1b[31m"):
        with pytest.raises(SessionNotFound):
            store.find(nothing)
    with pytest.raises(UsageError, match="exists already"):
        store.index.create("aa11", settings)
    store.delete("aa11")
    assert store.find("aa") == "aa22"


def test_the_start_of_an_id_names_a_session_and_not_what_it_started(store: Store) -> None:
    settings = SessionSettings(model="m", cwd="/")
    by = SpawnedBy(session_id="run1", sequence=0, call_id="", agents=("",))
    store.index.create("run1", settings)
    store.index.create("run1.check", settings.model_copy(update={"spawned_by": by}))
    assert store.find("run") == "run1"
    assert store.find("run1.c") == "run1.check"


@pytest.mark.parametrize("content", [b"this is no database at all, but text\n" * 100, b"\x00" * 5000])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(StoreError):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        Store.open(f"sqlite:///{path}")


def test_a_newer_schema_is_refused(store: Store) -> None:
    connection = sqlite3.connect(file_of(store))
    connection.execute("UPDATE meta SET value = '99'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="newer Sandbur"):
        reopen(store)


def test_a_folder_that_cannot_be_made_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(f"sqlite:///{tmp_path}/file/sandbur.db")


OPEN = "import sys; from sandbur.state.store.store import Store; Store.open('sqlite:///' + sys.argv[1])"


def test_a_second_store_on_the_file_does_not_take_the_locks_of_the_first(store: Store) -> None:
    settings = SessionSettings(model="m", cwd="/")
    store.index.create("before", settings)
    Store.open(store.url).close()
    subprocess.run([sys.executable, "-c", f"{OPEN}.close()", file_of(store)], check=True)
    store.index.create("after", settings)
    count = (
        f"import sqlite3; print(*sqlite3.connect({str(file_of(store))!r}).execute('SELECT id FROM sessions'))"
    )
    seen = subprocess.run([sys.executable, "-c", count], check=True, capture_output=True, text=True)
    assert "after" in seen.stdout


@pytest.mark.slow
def test_many_first_starts_at_once_make_one_store(tmp_path: Path) -> None:
    starts = [subprocess.Popen([sys.executable, "-c", OPEN, tmp_path / "x.db"]) for _ in range(12)]
    assert [start.wait(30) for start in starts] == [0] * 12


def test_the_mode_of_a_file_that_is_not_ours_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, by no means a database\n" * 40)
    path.chmod(0o644)
    with pytest.raises(StoreError):
        Store.open(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_store_that_others_could_read_is_made_private(store: Store) -> None:
    file_of(store).chmod(0o644)
    Store.open(store.url).close()
    assert stat.S_IMODE(file_of(store).stat().st_mode) == 0o600
