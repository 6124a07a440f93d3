"""Sessions are found and listed by reading those that are shown, and no others."""

import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session

from sandbur.state.databases.schema import make_folder_key
from sandbur.state.errors import SessionNotFound, StoreError
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.listing import FolderFilter
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


def test_the_indexes_answer_without_the_rows(large: Store) -> None:
    """What decides which rows are read is in an index, whole: it is not looked up row by row."""
    sql = "SELECT session_id FROM heads WHERE tenant = ? AND status <> 'running' AND folder IN (?, '')"
    order = " ORDER BY updated_at DESC, session_id DESC LIMIT 20"
    plan = large.database.query(f"EXPLAIN QUERY PLAN {sql}{order}", ("", make_folder_key("/srv")))
    assert [row[3] for row in plan] == ["SEARCH heads USING COVERING INDEX heads_at_rest (tenant=?)"]
