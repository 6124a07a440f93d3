"""A run with sub-agents is killed anywhere: those that had ended stay ended, the others go on."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
from support.victims.victims import run_victim

from sandbur.agent.history.replay.replay import replay
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

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
@pytest.mark.sampled
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
    require_sound(words[0])


def require_sound(url: str) -> None:
    """Check what the kill left: every record fits, and the session of the parent replays."""
    store = Store.open(url)
    assert not audit(store.database, ["parent"]).breaches
    assert asyncio.run(replay(store, "parent")).divergence is None
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "time"),
    [
        *(("started_after_commit", time) for time in (1, 2, 3)),
        *(("tool_ran", time) for time in (1, 2, 3)),
        *(("store_after_commit", time) for time in (1, 3, 6, 9)),
        *(("reply_before_commit", time) for time in (1, 3)),
    ],
)
def test_a_killed_flow_goes_on_with_its_sub_agent_and_answers_once(
    tmp_path: Path, point: str, time: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    url = f"sqlite:///{tmp_path}/store.db"
    died = run_victim(
        "agents/sub_agents_victim",
        url,
        str(log),
        "begin",
        "flow",
        point=f"{point}:{time}",
        SANDBUR_LEASE_S="1",
    )
    assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("agents/sub_agents_victim", url, str(log), "resume", "flow", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    assert resumed.out.splitlines() == ["Done: i0 is done", "0 1"]
    assert set(log.read_text().split()) == {"i0.0", "i0.1"}
    require_sound(url)
