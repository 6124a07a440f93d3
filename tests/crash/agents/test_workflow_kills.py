"""A workflow of 20 branches is killed anywhere: branches that had ended stay ended, the others go on."""

import asyncio
import json
import signal
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from support.victims.victims import run_victim

from sandbur import Agent
from sandbur.testing import ScriptedModel

ITEMS = 20
POINTS = [
    *(("started_after_commit", time) for time in (1, 5, 23, 40)),
    *(("started_before_commit", time) for time in (2, 30)),
    *(("tool_ran", time) for time in (1, 10, 25, 45, 60)),
    *(("store_after_commit", time) for time in (3, 20, 40, 60)),
    *(("reply_before_commit", time) for time in (1, 2, 25, 50, 62)),
    *(("request_before_send", time) for time in (3, 40, 63)),
]


def list_ended(folder: Path) -> dict[str, datetime]:
    """Return the sessions whose run has ended, with the time of their last step."""

    async def read() -> dict[str, datetime]:
        agent = Agent(
            ScriptedModel([]), store=f"sqlite:///{folder}/store.db", env={"SANDBUR_HOME": str(folder)}
        )
        return {each.id: each.updated_at async for each in agent.sessions(status="done")}

    return asyncio.run(read())


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize(("point", "time"), POINTS)
def test_a_killed_workflow_goes_on_and_no_branch_that_ended_runs_again(
    tmp_path: Path, point: str, time: int
) -> None:
    log = tmp_path / "log"
    log.touch()
    words = (f"sqlite:///{tmp_path}/store.db", str(log))
    died = run_victim(
        "agents/workflow_victim", *words, "begin", "all", point=f"{point}:{time}", SANDBUR_LEASE_S="1"
    )
    assert died.code == -signal.SIGKILL, died.err
    before = Counter(log.read_text().split())
    assert max(before.values(), default=1) == 1
    ended = list_ended(tmp_path)
    resumed = run_victim("agents/workflow_victim", *words, "resume", "all", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    expected = json.dumps([f"i{n} is done" for n in range(ITEMS)], separators=(",", ":"))
    assert resumed.out.strip() == f"all of {expected}"
    assert ended.items() <= list_ended(tmp_path).items()
    after = Counter(log.read_text().split())
    assert set(after) == {f"i{n}.{part}" for n in range(ITEMS) for part in range(2)}
    # A call with this effect class may run again only if it had started and had no end on disk.
    again = [item for item, count in after.items() if count > 1]
    assert all(after[item] == 2 and item in before for item in again)
    assert len(again) <= 16


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["first", "deciding"])
def test_branches_beside_a_winner_do_not_go_on(tmp_path: Path, kind: str) -> None:
    """The process dies after the winner has ended: when its result is recorded, or before."""
    log = tmp_path / "log"
    log.touch()
    words = (f"sqlite:///{tmp_path}/store.db", str(log))
    died = run_victim("agents/workflow_victim", *words, "begin", kind, SANDBUR_LEASE_S="1")
    assert died.code == -signal.SIGKILL, died.err
    before = log.read_text()
    assert {"i0.0", "i0.1"} <= set(before.split())
    resumed = run_victim("agents/workflow_victim", *words, "resume", kind, SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    expected = json.dumps(["i0 is done", *[None] * (ITEMS - 1)], separators=(",", ":"))
    assert resumed.out.strip() == f"all of {expected}"
    assert (log.read_text() == before) or kind == "deciding"
