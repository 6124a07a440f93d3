"""A plan is revised, abandoned, reopened and begun exactly once, wherever the process dies."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Ended
from support.victims.victims import run_victim

from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.review.plans.plan_tool import PlanTool
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store

POINTS = (
    *(f"reply_before_commit:{number}" for number in (3, 5, 7, 10)),
    *(f"started_{when}_commit:{number}" for number in (1, 2, 3) for when in ("before", "after")),
    *(f"tool_ran:{number}" for number in (1, 2, 3)),
    *(
        f"store_{when}_commit:{number}"
        for number in (4, 6, 8, 11, 14, 17, 20)
        for when in ("before", "after")
    ),
)


def run(folder: Path, point: str = "") -> Ended:
    url = f"sqlite:///{folder}/store.db"
    return run_victim("agents/notebook_victim", url, str(folder), point=point, SANDBUR_LEASE_S="1")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_each_change_of_a_plan_happens_once_wherever_the_process_dies(tmp_path: Path, point: str) -> None:
    died = run(tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    check(tmp_path, run(tmp_path))


def test_what_a_kill_left_of_a_change_of_the_plan_verifies_and_replays(tmp_path: Path) -> None:
    assert run(tmp_path, "tool_ran:2").code == -signal.SIGKILL
    check(tmp_path, run(tmp_path))


def check(folder: Path, resumed: Ended) -> None:
    assert resumed.code == 0, resumed.err
    found: dict[str, Any] = json.loads(resumed.out)
    assert found == {
        "steps": [["Read", "completed"]],
        "past": [[1, "done", ["Move it", "Write the notes"]]],
        "abandoned": 1,
        "messages": [1, 1, 1],
        "answers": [1, 1, 1],
        "reopened": 1,
        "calls": found["calls"],
    }
    store = Store.open(f"sqlite:///{folder}/store.db")
    assert not audit(store.database, ["s1"]).breaches
    today = Today(toolbox={**builtin_tools(), "plan": PlanTool()})
    assert asyncio.run(replay(store, "s1", today=today)).divergence is None
    store.close()
