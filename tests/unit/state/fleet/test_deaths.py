"""Deaths count as long as there is no progress; a session that may kill its process runs alone."""

import pytest
from support.stores.waiting import AGENT, add_waiting, make_claims, set_head

from sandbur.agent.fleet.isolation import SessionIsolation
from sandbur.state.session import SessionSettings, SpawnedBy
from sandbur.state.store.sessions.deaths import drop_deaths, load_deaths, record_death
from sandbur.state.store.store import Store

OWNER = "alpha:1:1:aa"


def count(store: Store, session_id: str = "s1") -> int:
    found = load_deaths(store.database, [session_id])
    return found[session_id].count if found else 0


def die(store: Store, epoch: int, session_id: str = "s1") -> int:
    return record_death(store.database, session_id, epoch, OWNER).count


@pytest.mark.parametrize(("steps", "counted"), [(0, 2), (3, 2), (4, 1)])
def test_a_death_counts_with_the_one_before_within_three_steps(
    store: Store, steps: int, counted: int
) -> None:
    add_waiting(store, "s1")
    set_head(store, "s1", last_seq=5)
    assert die(store, 1) == 1
    assert die(store, 1) == 1, "one death counts once, whoever records it"
    set_head(store, "s1", last_seq=5 + steps)
    assert die(store, 2) == counted
    set_head(store, "s1", last_seq=9 + steps)
    assert count(store) == 0


def test_the_steps_of_sub_agents_are_progress(store: Store) -> None:
    add_waiting(store, "s1")
    by = SpawnedBy(session_id="s1", sequence=1, call_id="c", agents=("a",))
    store.index.create("child", SessionSettings(model="m", cwd="/", spawned_by=by))
    assert [die(store, 1), die(store, 2)] == [1, 2]
    set_head(store, "child", last_seq=3)
    assert die(store, 3) == 1


def test_a_person_drops_the_deaths(store: Store) -> None:
    add_waiting(store, "s1")
    assert [die(store, epoch) for epoch in range(3)] == [1, 2, 3]
    store.database.commit([drop_deaths("s1")])
    assert (count(store), die(store, 7)) == (0, 1)


def test_a_worker_whose_session_may_kill_it_keeps_it_alone_until_there_is_progress(store: Store) -> None:
    for name in ("s1", "s2", "s3"):
        add_waiting(store, name)
    for epoch in range(2):
        die(store, epoch)
    for epoch in range(3):
        die(store, epoch, "s2")
    claims, isolation = make_claims(store), SessionIsolation(store.database)
    claimed = claims.claim(4)
    assert {one.lane.agent for one in claimed} == {AGENT}
    found = isolation.sort_out(claimed)
    assert [one.session_id for one in found.run] == ["s1"]
    assert [one.session_id for one in found.left] == ["s3"]
    assert [one.session_id for one, _ in found.parked] == ["s2"]
    assert isolation.is_needed({"s1"})
    set_head(store, "s1", last_seq=3)
    assert not isolation.is_needed({"s1"})
    again = isolation.sort_out([one for one in claimed if one.session_id != "s2"])
    assert len(again.run) == 2
