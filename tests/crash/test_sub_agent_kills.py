"""A run with sub-agents is killed anywhere: those that had ended stay ended, the others go on."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from support.victims.victims import run_victim

CHILDREN = 4
POINTS = [
    *(("started_after_commit", time) for time in (1, 3, 5, 8, 12)),
    *(("started_before_commit", time) for time in (2, 6, 11)),
    *(("tool_ran", time) for time in (1, 4, 8, 10, 12)),
    *(("store_after_commit", time) for time in (3, 7, 12, 20, 30)),
    *(("reply_before_commit", time) for time in (1, 2, 5, 9, 13)),
    *(("request_before_send", time) for time in (2, 6, 14)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "time"), POINTS)
def test_a_killed_family_goes_on_and_nothing_that_ended_runs_again(
    tmp_path: Path, point: str, time: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    words = (f"sqlite:///{tmp_path}/store.db", str(log))
    died = run_victim(
        "agents/sub_agents_victim", *words, "begin", point=f"{point}:{time}", SANDBUR_LEASE_S="1"
    )
    assert died.code == -signal.SIGKILL, died.err
    before = Counter(log.read_text().split())
    assert max(before.values(), default=1) == 1
    resumed = run_victim("agents/sub_agents_victim", *words, "resume", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    assert resumed.out.strip() == ", ".join(f"i{number} is done" for number in range(CHILDREN))
    after = Counter(log.read_text().split())
    assert set(after) == {f"i{number}.{part}" for number in range(CHILDREN) for part in range(2)}
    # A call with this effect class may run again only if it had started and had no end on disk.
    again = [item for item, count in after.items() if count > 1]
    assert all(after[item] == 2 and item in before for item in again)
    assert len(again) <= CHILDREN
