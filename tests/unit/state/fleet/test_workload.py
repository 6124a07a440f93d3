"""The workload counts each session that needs a worker once, and the list has each worker with its state."""

from pathlib import Path

from support.stores.waiting import AGENT, add_waiting, make_claims, set_head

from sandbur.state.store.sessions.lanes import make_agent_key
from sandbur.state.store.sessions.workload import (
    FleetOrder,
    Workload,
    count_workload,
    list_workers,
    read_order,
    read_store_id,
    write_order,
)
from sandbur.state.store.store import Store

FUTURE = "2999-01-01T00:00:00.000+00:00"


def test_waiting_and_claimed_sessions_are_counted(store: Store) -> None:
    for number in range(5):
        add_waiting(store, f"s{number}")
    set_head(store, "s4", wake_at=FUTURE)
    assert count_workload(store.database) == Workload(waiting=4, claimed=0)
    claims = make_claims(store)
    claims.claim(3)
    assert count_workload(store.database) == Workload(waiting=1, claimed=3)


def test_sessions_of_a_dead_worker_wait_again(store: Store) -> None:
    add_waiting(store, "s1")
    claims = make_claims(store, host="elsewhere")
    claims.claim(1)
    assert count_workload(store.database) == Workload(0, 1)
    store.database.commit([("UPDATE workers SET lease_until = ? WHERE id = ?", ("", claims.profile.id))])
    assert count_workload(store.database) == Workload(1, 0)
    (worker,) = [one for one in list_workers(store.database) if one.id == claims.profile.id]
    assert (worker.state, worker.running) == ("dead", 1)


def test_only_lanes_that_fit_are_counted(store: Store) -> None:
    add_waiting(store, "plain")
    add_waiting(store, "placed", needs=("gpu",))
    agents = {make_agent_key(AGENT)}
    assert count_workload(store.database, lambda lane: lane.fits(agents, ())).waiting == 1
    assert count_workload(store.database, lambda lane: lane.fits(agents, ("gpu",))).waiting == 2
    assert count_workload(store.database, lambda lane: lane.fits((), ("gpu",))).waiting == 0


def test_a_worker_that_left_and_owns_nothing_is_not_listed(store: Store) -> None:
    claims = make_claims(store, labels=("gpu",))
    (worker,) = [one for one in list_workers(store.database) if one.id == claims.profile.id]
    assert (worker.state, worker.labels, worker.agents, worker.running) == ("running", ("gpu",), (AGENT,), 0)
    claims.leave()
    assert [one for one in list_workers(store.database) if one.id == claims.profile.id] == []


def test_the_newest_order_of_each_fleet_counts(store: Store) -> None:
    assert read_order(store.database, "none") is None
    write_order(store.database, "a", FleetOrder("up", "first", "127.0.0.1:1"))
    write_order(store.database, "b", FleetOrder("up", "other", "127.0.0.1:2"))
    write_order(store.database, "a", FleetOrder("drained", "second", "127.0.0.1:3"))
    assert read_order(store.database, "a") == FleetOrder("drained", "second", "127.0.0.1:3")
    assert read_order(store.database, "b") == FleetOrder("up", "other", "127.0.0.1:2")


def test_a_store_keeps_its_id_and_each_store_has_another(store: Store, tmp_path: Path) -> None:
    id = read_store_id(store.database)
    other = Store.open(f"sqlite:///{tmp_path}/other.db")
    other_id = read_store_id(other.database)
    other.close()
    again = Store.open(f"sqlite:///{tmp_path}/./other.db")
    assert (read_store_id(store.database), read_store_id(again.database)) == (id, other_id)
    assert id != other_id
    again.close()
