"""Sessions are found and listed by reading those that are shown, and no others."""

import asyncio
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session

from sandbur.state.databases.schema import make_index_key
from sandbur.state.errors import SessionNotFound, StoreError
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.sessions.listing import FolderFilter, LabelFilter, SpawningCall
from sandbur.state.store.store import Store

LARGE = "x" * 50_000


def settings(cwd: str = "/srv", prompt: str = "") -> SessionSettings:
    return SessionSettings(model="openai/m", cwd=cwd, system_prompt=prompt)


def made(store: Store, session_id: str, minute: int, cwd: str = "/srv", status: str = "done") -> None:
    """Make a session that was used in this minute."""
    store.index.create(session_id, settings(cwd), f"title of {session_id}")
    when = f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00.000+00:00"
    sql = "UPDATE heads SET status = ?, updated_at = ? WHERE session_id = ?"
    store.database.commit([(sql, (status, when, session_id))])


def test_all_pages_together_are_every_session_once_the_newest_first(store: Store) -> None:
    for number in range(260):
        # Some are of one minute; every seventh runs, or did until its process died.
        made(store, f"s{number:03}", number // 2, status="running" if number % 7 == 0 else "done")
    found = store.sessions()
    assert sorted(one.id for one in found) == [f"s{number:03}" for number in range(260)]
    times = [one.updated_at for one in found]
    assert times == sorted(times, reverse=True)
    assert [one.id for one in store.sessions(most=5)] == [one.id for one in found[:5]]
    assert store.count_sessions() == 260


def test_the_sessions_of_a_folder_are_those_that_work_in_it(store: Store) -> None:
    long, odd = f"/{'deep/' * 80}", "/opt/ä%_"
    for number, cwd in enumerate(("/srv", "/srv/a", "/srvers", "/srv", long, f"{long}x", odd)):
        made(store, f"s{number}", number, cwd)
    assert [one.id for one in store.sessions(cwd="/srv")] == ["s3", "s0"]
    assert [one.id for one in store.sessions(cwd=long)] == ["s4"]
    assert [one.id for one in store.sessions(cwd=odd)] == ["s6"]
    assert [one.id for one in store.newest_sessions(FolderFilter("/srv/a", "/srv"))] == ["s3", "s1", "s0"]
    assert [one.id for one in store.newest_sessions(FolderFilter("/x", long.rstrip("/")))] == ["s5", "s4"]
    assert store.sessions(cwd="/nowhere") == []


async def test_a_session_that_moves_to_another_folder_is_found_there(store: Store) -> None:
    made(store, "s1", 1)
    session = await open_session(store, ScriptedModel("done"), Recorder())
    await collect(session.send("hello"))
    assert [one.id for one in store.sessions(cwd=str(Path.cwd()))] == ["s1"]
    assert store.sessions(cwd="/srv") == []


def test_a_session_that_an_older_version_made_meanwhile_is_found(store: Store) -> None:
    made(store, "s1", 1)
    store.database.commit([("UPDATE heads SET folder = ''", ())])
    assert [one.id for one in store.sessions(cwd="/srv")] == ["s1"]
    assert store.sessions(cwd="/other") == []


def test_a_running_session_is_listed_by_its_last_commit(store: Store) -> None:
    for minute, (session_id, status) in enumerate((("s1", "running"), ("s2", "done"), ("s3", "running"))):
        made(store, session_id, minute, status=status)
    committed = "2026-01-01T00:05:00.000+00:00"
    store.database.commit([("UPDATE heads SET committed_at = ? WHERE session_id = 's1'", (committed,))])
    assert [one.id for one in store.sessions()] == ["s1", "s3", "s2"]
    assert [one.id for one in store.newest_sessions(LabelFilter(since=committed))] == ["s1"]
    assert store.index.summary("s1").updated_at == store.index.head("s1").updated_at == committed


def labelled(store: Store, session_id: str, minute: int, status: str = "done", **labels: Any) -> None:
    """Make a session with labels that was used in this minute."""
    store.index.create(session_id, settings().model_copy(update=labels), "a title")
    sql = "UPDATE heads SET status = ?, updated_at = ? WHERE session_id = ?"
    store.database.commit([(sql, (status, f"2026-01-01T00:{minute:02}:00.000+00:00", session_id))])


def found(store: Store, **wanted: Any) -> list[str]:
    return [one.id for one in store.newest_sessions(LabelFilter(**wanted))]


def test_sessions_are_found_by_their_labels_status_and_time(store: Store) -> None:
    labelled(store, "s1", 1, app="shop", user="ada", tags=("vip", "new"))
    labelled(store, "s2", 2, app="shop", user="bob", tags=("new",), status="needs_approval")
    labelled(store, "s3", 3, app="bank", user="ada", tags=("vip ",), status="running")
    labelled(store, "s4", 4)
    assert found(store) == ["s4", "s3", "s2", "s1"]
    assert found(store, app="shop") == ["s2", "s1"]
    assert found(store, user="ada") == ["s3", "s1"]
    assert found(store, app="shop", user="ada", tags=("new", "vip")) == ["s1"]
    assert found(store, tags=("vip",)) == ["s1"]
    assert found(store, app="", user="") == ["s4"]
    assert found(store, status="needs_approval") == ["s2"]
    assert found(store, status="interrupted") == ["s3"]
    assert found(store, status="running") == []
    assert found(store, since="2026-01-01T00:02:00.000+00:00", until="2026-01-01T00:04:00") == ["s3", "s2"]
    assert found(store, after=("2026-01-01T00:03:00.000+00:00", "s3")) == ["s2", "s1"]


def test_labels_may_be_long_and_have_any_characters(store: Store) -> None:
    for number, text in enumerate(("x" * 300, "x" * 301, "ä'%\"\\", "a\0b", "tag ", "tag", "TAG")):
        labelled(store, f"s{number}", number, app=text, user=text, tags=(text,))
        for wanted in ({"app": text}, {"user": text}, {"tags": (text,)}):
            assert found(store, **wanted) == [f"s{number}"]


def test_the_labels_of_a_session_that_an_older_version_made_meanwhile_are_found_after_its_next_run(
    store: Store,
) -> None:
    labelled(store, "s1", 1, app="shop", tags=("vip",))
    store.database.commit([("UPDATE heads SET app = ''", ()), ("DELETE FROM session_tags", ())])
    assert found(store, app="shop") == []
    end = store.writer("s1").chain
    taken = asyncio.run(store.index.claim("s1", "me", end, store.index.settings("s1"), ""))
    head = {"records": end.records, "chain": end.digest}
    store.database.commit(taken.statements, taken.make_guard(head, end))
    assert (found(store, app="shop"), found(store, tags=("vip",))) == (["s1"], ["s1"])


def test_the_tags_of_a_deleted_session_are_deleted(store: Store) -> None:
    labelled(store, "s1", 1, tags=("vip",))
    labelled(store, "s2", 2, tags=("vip",))
    store.delete("s1")
    assert store.database.query("SELECT session_id FROM session_tags") == [("s2",)]


def test_a_session_has_the_children_that_its_calls_spawned(store: Store) -> None:
    labelled(store, "p", 0)
    for number in range(7):
        spawned = SpawnedBy(session_id="p", sequence=number, call_id=f"c{number}", agents=("a",))
        labelled(store, f"child{number}", number, spawned_by=spawned)
    labelled(store, "other", 1, spawned_by=SpawnedBy(session_id="q", sequence=0, call_id="c0", agents=("a",)))
    store.database.commit([("UPDATE heads SET last_seq = 3 WHERE session_id = 'child0'", ())])
    store.fork("child0", "fork")
    first = store.index.children_of("p", limit=4)
    rest = store.index.children_of("p", limit=4, cursor=(first[-1].created_at, first[-1].id))
    assert [one.id for one in (*first, *rest)] == [f"child{number}" for number in range(7)]
    assert first[2].spawned_by == SpawningCall(session_id="p", sequence=2, call_id="c2")
    assert store.index.settings("child2").spawned_by == SpawnedBy(
        session_id="p", sequence=2, call_id="c2", agents=("a",)
    )
    assert (store.index.forks("p"), store.index.summary("fork").spawned_by) == ((), None)
    store.delete("fork")
    store.delete("p")
    assert store.index.children_of("p") == []
    assert [one.id for one in store.sessions()] == ["other"]


@pytest.mark.parametrize("name", ["\udcff", "\0", "s%", "s_", "!", "%"])
def test_a_name_that_no_session_has_finds_none(store: Store, name: str) -> None:
    made(store, "s1", 1)
    with pytest.raises(SessionNotFound):
        store.find(name)


def test_a_session_whose_settings_are_damaged_is_listed_and_not_opened(store: Store) -> None:
    made(store, "s1", 1)
    made(store, "s2", 2)
    store.database.commit([("UPDATE sessions SET settings = ? WHERE id = 's1'", ('{"cwd": "/wo',))])
    assert [(one.id, one.cwd) for one in store.sessions()] == [("s2", "/srv"), ("s1", "")]
    with pytest.raises(StoreError, match="settings of session s1 are damaged"):
        store.index.settings("s1")


LOOKS: dict[str, Callable[[Store], object]] = {
    "the newest of a folder": lambda store: next(store.newest_sessions(FolderFilter("/srv"))),
    "one of no folder": lambda store: next(store.newest_sessions(FolderFilter("/nowhere")), None),
    "a page": lambda store: store.sessions(most=10),
    "how many": lambda store: store.count_sessions(),
    "an id": lambda store: store.find("s001"),
    "a start of ids": lambda store: store.find("s00000")[0],
    "a title": lambda store: store.find("title of s001"),
    "one after the other": lambda store: deque(store.newest_sessions(), maxlen=1),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store whose settings are many times what a look at a few of them may take."""
    store = Store.open(f"sqlite:///{tmp_path_factory.mktemp('large')}/s.db", durability="normal")
    for number in range(1000):
        store.index.create(f"s{number:03}", settings(prompt=LARGE), f"title of s{number:03}")
    store.index.create("s00000", settings(prompt=LARGE), "another")
    yield store
    store.close()


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_few_sessions_reads_few(large: Store, look: str) -> None:
    tracemalloc.start()
    LOOKS[look](large)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1001 * len(LARGE) / 3


@pytest.mark.parametrize(
    ("wanted", "plan"),
    [
        ({"app": "shop"}, "heads USING COVERING INDEX heads_of_app (tenant=? AND app=?)"),
        ({"user": "ada"}, "heads USING COVERING INDEX heads_of_user (tenant=? AND app_user=?)"),
        (
            {"user": "ada", "since": "2026"},
            "heads USING COVERING INDEX heads_of_user (tenant=? AND app_user=? AND updated_at>?)",
        ),
    ],
)
def test_the_indexes_answer_for_labels_in_their_order(large: Store, wanted: Any, plan: str) -> None:
    condition, values = LabelFilter(**wanted).condition
    sql = f"SELECT session_id FROM heads WHERE tenant = ? AND status <> 'running' AND {condition}"
    order = " ORDER BY updated_at DESC, session_id DESC LIMIT 20"
    found = large.database.query(f"EXPLAIN QUERY PLAN {sql}{order}", ("", *values))
    assert [row[3] for row in found] == [f"SEARCH {plan}"]


def test_the_indexes_answer_without_the_rows(large: Store) -> None:
    """What decides which rows are read is in an index, whole: it is not looked up row by row."""
    sql = "SELECT session_id FROM heads WHERE tenant = ? AND status <> 'running' AND folder IN (?, '')"
    order = " ORDER BY updated_at DESC, session_id DESC LIMIT 20"
    plan = large.database.query(f"EXPLAIN QUERY PLAN {sql}{order}", ("", make_index_key("/srv")))
    assert [row[3] for row in plan] == ["SEARCH heads USING COVERING INDEX heads_at_rest (tenant=?)"]
