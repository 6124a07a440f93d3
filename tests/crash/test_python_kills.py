"""Code whose agent was killed runs again, its calls do not: nothing twice, nothing lost, no process left."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.tools.processes import alive
from support.victims.victims import run_victim
from support.waiting import wait_for

from sandbur.state.maintenance.verify import audit_all
from sandbur.state.store.store import Store

POINTS = (
    # Before, in and after the start of the code.
    "started_before_commit",
    "started_after_commit",
    "spawned",
    # The first nested call reads, the others pay.
    "nested_proposed",
    "nested_proposed:2",
    "started_before_commit:3",
    "started_after_commit:3",
    "tool_ran:2",
    "finished_before_commit",
    "finished_after_commit",
    "nested_finished:2",
    "nested_proposed:3",
    "started_after_commit:4",
    "tool_ran:3",
    "finished_before_commit:2",
    "finished_after_commit:2",
    "nested_finished:3",
    # The code has ended.
    "tool_ran:4",
)
STARTED = (
    "started_after_commit:3",
    "tool_ran:2",
    "finished_before_commit",
    "started_after_commit:4",
    "tool_ran:3",
)
"""Points at which the record says that a payment began, and not how it ended."""
IN_DOUBT = (*STARTED, "finished_before_commit:2", "before", "after")


def kill_and_resume(name: str, moment: str, folder: Path) -> tuple[str, str]:
    """Return the outcome and the text that the model got once the session had been resumed."""
    where, point = (moment, "") if moment in ("before", "after") else ("", moment)
    died = run_victim("python_victim", name, where, str(folder), point=point)
    assert died.code == -signal.SIGKILL, died.err
    wait_for(lambda: not alive("exec(marshal.loads("), lambda: alive("exec(marshal.loads("))
    (folder / "died").touch()
    resumed = run_victim("python_victim", name, moment, str(folder))
    assert resumed.code == 0, resumed.err
    got: Any = json.loads(resumed.out)
    assert got["status"] == "done"
    verified = Store.open(f"sqlite:///{folder}/runs.db")
    try:
        assert [found for _, found in audit_all(verified.database, {"s1": None})] == [[]]
    finally:
        verified.close()
    ((outcome, content),) = got["results"]
    return outcome, content


def lines(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("moment", [*POINTS, "before", "after"])
def test_wherever_the_agent_dies_each_payment_happens_once(tmp_path: Path, moment: str) -> None:
    outcome, content = kill_and_resume("pay_checked", moment, tmp_path)
    assert outcome == "ok"
    assert "A has 100" in content
    assert lines(tmp_path, "effects") == ["A1", "A2"]
    # A payment that ran again, because its check says that it was not made, has the same key.
    assert len(set(lines(tmp_path, "calls"))) == 2


@pytest.mark.parametrize("moment", [*POINTS, "before", "after"])
def test_a_payment_of_unknown_outcome_is_never_made_again(tmp_path: Path, moment: str) -> None:
    outcome, content = kill_and_resume("pay_unchecked", moment, tmp_path)
    made = lines(tmp_path, "calls")
    assert len(made) == len(set(made))
    if moment in IN_DOUBT:
        assert outcome == "error"
        assert "may or may not" in content
        assert "ToolFailed" in content
    else:
        assert outcome == "ok"
        assert lines(tmp_path, "effects") == ["A1", "A2"]
