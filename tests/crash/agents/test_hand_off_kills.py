"""A conversation that is handed over is killed anywhere: it goes on with the agent that has it."""

import signal
from collections import Counter
from pathlib import Path

import pytest
from support.victims.victims import run_victim

POINTS = [
    *(("started_after_commit", time) for time in (1, 2, 3, 4, 5)),
    *(("tool_ran", time) for time in (1, 2, 3, 4, 5)),
    *(("store_after_commit", time) for time in (2, 4, 6, 9, 12, 15, 18)),
    *(("reply_before_commit", time) for time in (1, 2, 3, 4, 5, 6, 7)),
    *(("request_before_send", time) for time in (1, 2, 3, 4, 5, 6)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "time"), POINTS)
def test_a_killed_conversation_goes_on_with_the_agent_that_has_it(
    tmp_path: Path, point: str, time: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    words = (f"sqlite:///{tmp_path}/store.db", str(log))
    died = run_victim("agents/hand_off_victim", *words, "begin", point=f"{point}:{time}", SANDBUR_LEASE_S="1")
    assert died.code == -signal.SIGKILL, died.err
    before = Counter(log.read_text().split())
    resumed = run_victim("agents/hand_off_victim", *words, "resume", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    # The agent that answers last has read each message of the user once.
    assert resumed.out.strip() == "welcome, heard 1 1"
    after = Counter(log.read_text().split())
    assert set(after) == {"billing", "refunds0", "refunds1"}
    # A call with this effect class may run again only if it had started and had no end on disk.
    again = [item for item, count in after.items() if count > 1]
    assert all(after[item] == 2 and item in before for item in again)
    assert len(again) <= 1
