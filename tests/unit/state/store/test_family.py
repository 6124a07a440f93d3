"""Lists leave out sub-agents, whose sessions are found from their parent."""

from datetime import UTC, datetime

import pytest

from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.sessions.family import FamilyFilter, count_children, count_descendants
from sandbur.state.store.sessions.listing import FolderFilter, LabelFilter
from sandbur.state.store.sessions.session_rows import delete_rows, list_due_runs, list_unfinished_tenants
from sandbur.state.store.store import Store


def begin(store: Store, session_id: str, parent: str = "", cwd: str = "/srv") -> None:
    by = SpawnedBy(session_id=parent, sequence=0, call_id=session_id, agents=("a",)) if parent else None
    store.index.create(session_id, SessionSettings(model="m", cwd=cwd, spawned_by=by), "a title")


@pytest.fixture
def family(store: Store) -> Store:
    begin(store, "p")
    for number in range(3):
        begin(store, f"c{number}", "p")
    begin(store, "g", "c0")
    begin(store, "q", cwd="/other")
    return store


def list_roots(store: Store) -> list[str]:
    return sorted(one.id for one in store.roots())


def test_a_list_of_roots_has_no_sub_agents(family: Store) -> None:
    assert list_roots(family) == ["p", "q"]
    assert [one.id for one in family.roots(FolderFilter("/srv"))] == ["p"]
    assert [one.id for one in family.roots(LabelFilter(app="shop"))] == []
    assert family.count_roots() == 2
    assert len(family.sessions()) == family.count_sessions() == 6


def test_the_sub_agents_of_one_session_are_selected_by_it(family: Store) -> None:
    assert sorted(one.id for one in family.newest_sessions(FamilyFilter("p"))) == ["c0", "c1", "c2"]
    assert [one.id for one in family.newest_sessions(FamilyFilter("c0"))] == ["g"]
    assert count_children(family.database, "p") == 3


def test_the_number_of_sub_agents_contains_those_of_sub_agents(family: Store) -> None:
    assert count_descendants(family.database, ["p", "c0", "c1", "q"]) == {"p": 4, "c0": 1}
    assert count_descendants(family.database, []) == {}


def test_the_number_of_sub_agents_of_many_sessions_comes_from_several_queries(family: Store) -> None:
    names = [f"s{number}" for number in range(1200)]
    assert count_descendants(family.database, [*names, "p"]) == {"p": 4}


def test_a_circle_in_a_damaged_store_is_counted_once(family: Store) -> None:
    family.database.commit([("UPDATE sessions SET parent_session = 'g' WHERE id = 'p'", ())])
    assert count_descendants(family.database, ["p"]) == {"p": 5}


def test_a_sub_agent_without_its_parent_is_listed(family: Store) -> None:
    family.database.commit([("DELETE FROM sessions WHERE id = 'p'", ()), *delete_rows("p")])
    assert list_roots(family) == ["c0", "c1", "c2", "q"]
    assert family.count_roots() == 4


def test_the_tenants_of_runs_that_have_not_ended_are_listed(family: Store) -> None:
    assert list_unfinished_tenants(family.database) == []
    family.database.commit([
        ("UPDATE heads SET status = 'running', tenant = 'red' WHERE session_id IN ('p', 'c0')", ()),
        ("UPDATE heads SET wake_at = '2030-01-01T00:00:00Z', tenant = 'blue' WHERE session_id = 'q'", ()),
    ])  # fmt: skip
    assert list_unfinished_tenants(family.database) == ["blue", "red"]


def test_a_sub_agent_is_not_due_while_its_parent_is(family: Store) -> None:
    def list_due() -> list[str]:
        return sorted(one.session_id for one in list_due_runs(family.database, "", datetime.now(UTC)))

    family.database.commit([("UPDATE heads SET status = 'running', last_seq = 1", ())])
    assert list_due() == ["p", "q"]
    family.database.commit([("UPDATE heads SET status = 'done' WHERE session_id = 'p'", ())])
    assert list_due() == ["c0", "c1", "c2", "q"]
