"""A fleet grows at once, shrinks after a while, and never ends a worker that runs a session."""

from dataclasses import replace

import pytest

from sandbur.agent.fleet.cluster.ray_connection import ActorState
from sandbur.agent.fleet.cluster.scaling import Bounds, Change, Scaling
from sandbur.agent.fleet.worker_process import WorkerOrder
from sandbur.state.errors import UsageError
from sandbur.state.store.sessions.workload import WorkerState, Workload

NOTHING = Workload(0, 0)


def make_actors(*states: str, digest: str = "new") -> dict[str, ActorState]:
    return {
        f"worker-{number}-{digest}": ActorState(state, "alpha", 100 + number)
        for number, state in enumerate(states, start=1)
    }


def make_workers(*running: int) -> list[WorkerState]:
    """Return the rows of workers, in the order of their actors, with how many sessions each runs."""
    return [
        WorkerState(f"alpha:{100 + number}:1:x", "alpha", (), (), 4, "running", "", count)
        for number, count in enumerate(running, start=1)
    ]


@pytest.mark.parametrize(
    ("workload", "count"),
    [((0, 0), 1), ((1, 0), 1), ((4, 0), 1), ((5, 0), 2), ((1, 8), 3), ((1000, 0), 5)],
)
def test_as_many_workers_start_as_the_sessions_need(workload: tuple[int, int], count: int) -> None:
    change = Scaling(Bounds(1, 5, 4), "new").decide(Workload(*workload), {}, [], 0)
    assert change.start == [f"worker-{number}-new" for number in range(1, count + 1)]


def test_a_fleet_may_have_no_worker_while_nothing_waits() -> None:
    scaling = Scaling(Bounds(0, 5, 4), "new")
    assert scaling.decide(NOTHING, {}, [], 0) == Change([], [], [], [])
    assert scaling.decide(Workload(1, 0), {}, [], 0).start == ["worker-1-new"]


def test_idle_workers_end_after_a_while_and_the_newest_first() -> None:
    scaling = Scaling(Bounds(1, 5, 4, idle_s=60), "new")
    actors, workers = make_actors(*["running"] * 3), make_workers(0, 0, 0)
    assert scaling.decide(NOTHING, actors, workers, 0).drain == []
    assert scaling.decide(NOTHING, actors, workers, 59).drain == []
    assert scaling.decide(NOTHING, actors, workers, 60).drain == ["worker-3-new", "worker-2-new"]


def test_a_session_in_between_starts_the_idle_time_anew() -> None:
    scaling = Scaling(Bounds(0, 5, 4, idle_s=60), "new")
    actors = make_actors("running")
    scaling.decide(NOTHING, actors, make_workers(0), 0)
    scaling.decide(Workload(0, 1), actors, make_workers(1), 50)
    scaling.decide(NOTHING, actors, make_workers(0), 55)
    assert scaling.decide(NOTHING, actors, make_workers(0), 61).drain == []
    assert scaling.decide(NOTHING, actors, make_workers(0), 115).drain == ["worker-1-new"]


def test_a_worker_that_runs_a_session_is_not_drained_however_many_there_are() -> None:
    scaling = Scaling(Bounds(1, 5, 4, idle_s=1), "new")
    actors, workers = make_actors("running", "running", "running"), make_workers(1, 1, 1)
    for now_s in (0, 10, 1000):
        assert scaling.decide(Workload(0, 3), actors, workers, now_s).drain == []


def test_a_worker_without_a_row_and_one_that_starts_count_but_are_not_drained() -> None:
    scaling = Scaling(Bounds(0, 5, 4, idle_s=1), "new")
    actors = make_actors("running", "starting", "restarting")
    for now_s in (0, 10):
        assert scaling.decide(NOTHING, actors, [], now_s) == Change([], [], [], [])
    assert scaling.decide(Workload(12, 0), actors, [], 20).start == []


def test_drained_workers_are_removed_and_others_take_their_place() -> None:
    change = Scaling(Bounds(2, 5, 4), "new").decide(NOTHING, make_actors("drained", "draining"), [], 0)
    assert change == Change(["worker-3-new", "worker-4-new"], [], ["worker-1-new"], [])


@pytest.mark.parametrize("count", [0, 1])
def test_workers_of_another_order_are_replaced_also_those_that_run_a_session(count: int) -> None:
    actors = make_actors("running", "pausing", "draining", digest="old")
    change = Scaling(Bounds(2, 5, 4), "new").decide(NOTHING, actors, make_workers(count, 0, 0), 0)
    assert change == Change(["worker-1-new", "worker-2-new"], [], [], ["worker-1-old", "worker-2-old"])


def test_actors_of_another_order_that_no_machine_has_room_for_are_removed() -> None:
    actors = make_actors("starting", "restarting", "drained", digest="old")
    change = Scaling(Bounds(1, 5, 4), "new").decide(NOTHING, actors, [], 0)
    assert change == Change(["worker-1-new"], [], list(actors), [])


def test_orders_that_differ_have_other_digests_and_each_store_has_its_own() -> None:
    order = WorkerOrder("postgresql://me:secret@db/runs", "", "/", ("a:b",), 4)
    digest = order.make_digest("id")
    assert order.make_digest("id") == digest
    others = [replace(order, agents=("a:c",)), replace(order, concurrency=3), replace(order, labels=("gpu",))]
    assert len({digest, order.make_digest("other"), *(one.make_digest("id") for one in others)}) == 5


@pytest.mark.parametrize(("least", "most"), [(3, 2), (-1, 2), (0, 0)])
def test_bounds_that_contradict_each_other_are_refused(least: int, most: int) -> None:
    with pytest.raises(UsageError, match="not possible"):
        Bounds(least, most, 4)
