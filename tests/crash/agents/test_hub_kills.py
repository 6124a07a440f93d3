"""A program with a hub is killed anywhere and runs again: nothing is said twice, lost, or heard twice."""

import signal
from pathlib import Path

import pytest
from support.victims.victims import run_victim

EXPECTED = [
    "hub Welcome. ada:ada0 bea:bea0 cleo:cleo0 The Psst. ada:ada1 cleo:cleo1 Vote. bea:bea3",
    "ada Welcome. It ada0 bea:bea0 cleo:cleo0 The Psst. It ada1 cleo:cleo1 Vote. for ada2 bea:bea3",
    "bea Welcome. ada:ada0 It bea0 cleo:cleo0 fail (interrupted The Vote. for bea2 last bea3",
    "cleo Welcome. ada:ada0 bea:bea0 It cleo0 The Psst. ada:ada1 It cleo1 Vote. for cleo2 bea:bea3",
]
POINTS = [
    *(("hub_before_record", time) for time in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)),
    *(("store_after_commit", time) for time in (1, 3, 5, 8, 11, 15, 20, 25, 30, 35)),
    *(("store_before_commit", time) for time in (2, 4, 7, 12, 18)),
    *(("reply_before_commit", time) for time in (1, 2, 3, 4, 5, 6, 7, 8, 9)),
    *(("request_before_send", time) for time in (1, 3, 5, 7, 9)),
]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("point", "time"), POINTS)
def test_a_killed_hub_goes_on_and_each_message_is_said_and_heard_once(
    tmp_path: Path, point: str, time: int
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    died = run_victim("agents/hub_victim", store, point=f"{point}:{time}", SANDBUR_LEASE_S="1")
    assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("agents/hub_victim", store, SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    assert resumed.out.splitlines() == EXPECTED


@pytest.mark.slow
def test_a_hub_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    for point in (
        "reply_before_commit:2",
        "hub_before_record:2",
        "store_after_commit:6",
        "hub_before_record:3",
    ):
        died = run_victim("agents/hub_victim", store, point=point, SANDBUR_LEASE_S="1")
        assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("agents/hub_victim", store, SANDBUR_LEASE_S="1")
    assert resumed.out.splitlines() == EXPECTED, resumed.err
