"""Code whose agent was killed runs again, its calls do not: nothing twice, nothing lost, no process left.

The agent dies at every point of a run without questions, and at those around the approvals of its calls. The
supervisor of the code, and the code itself, die in `unit/actions/tools/python/test_killed_code.py`.
"""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.tools.processes import at_work_in
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
    # Within the commits of the start and the end of each payment.
    "store_in_transaction:3",
    "store_in_transaction:4",
    "store_in_transaction:5",
    "store_in_transaction:6",
    # The code has ended: its result is stored with the step.
    "tool_ran:4",
    "store_before_commit:7",
    "store_in_transaction:7",
    "scratch_mid",
    "store_after_commit:7",
)
STARTED = (
    "started_after_commit:3",
    "tool_ran:2",
    "finished_before_commit",
    "started_after_commit:4",
    "tool_ran:3",
)
"""Points at which the record says that a payment began, and not how it ended."""
IN_DOUBT = (
    *STARTED,
    "finished_before_commit:2",
    "store_in_transaction:4",
    "store_in_transaction:6",
    "before",
    "after",
)
APPROVED_POINTS = (
    # The code stops at its first payment, which is stored as a question.
    "tool_ran:2",
    "store_before_commit:3",
    "store_after_commit:3",
    "store_in_transaction:4",
    # The first payment is approved, and runs alone.
    "store_in_transaction:5",
    "started_before_commit:3",
    "started_after_commit:3",
    "tool_ran:3",
    "finished_before_commit",
    "finished_after_commit",
    "scratch_mid",
    # The code runs again, up to its second payment.
    "started_before_commit:4",
    "started_after_commit:4",
    "spawned:2",
    "tool_ran:4",
    # The second payment is approved, and the code runs to its end.
    "started_after_commit:5",
    "finished_before_commit:2",
    "finished_after_commit:2",
    "spawned:3",
    "tool_ran:6",
)
APPROVED_IN_DOUBT = (
    "started_after_commit:3",
    "tool_ran:3",
    "finished_before_commit",
    "started_after_commit:5",
    "finished_before_commit:2",
)


def kill_and_resume(name: str, moment: str, folder: Path, mode: str = "yolo") -> tuple[str, str]:
    """Return the outcome and the text that the model got once the session had been resumed."""
    where, point = (moment, "") if moment in ("before", "after") else ("", moment)
    died = run_victim("python_victim", name, where, str(folder), mode, point=point)
    assert died.code == -signal.SIGKILL, died.err
    # Neither the code nor its supervisor outlives the agent.
    wait_for(lambda: not at_work_in(folder), lambda: at_work_in(folder))
    (folder / "died").touch()
    resumed = run_victim("python_victim", name, moment, str(folder), mode)
    assert resumed.code == 0, resumed.err
    wait_for(lambda: not at_work_in(folder), lambda: at_work_in(folder))
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


@pytest.mark.sampled
@pytest.mark.parametrize("moment", [*POINTS, "before", "after"])
def test_wherever_the_agent_dies_each_payment_happens_once(tmp_path: Path, moment: str) -> None:
    outcome, content = kill_and_resume("pay_checked", moment, tmp_path)
    assert outcome == "ok"
    assert "A has 100" in content
    assert lines(tmp_path, "effects") == ["A1", "A2"]
    # A payment that ran again, because its check says that it was not made, has the same key.
    assert len(set(lines(tmp_path, "calls"))) == 2


@pytest.mark.sampled
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


@pytest.mark.sampled
@pytest.mark.parametrize("moment", APPROVED_POINTS)
def test_wherever_the_agent_dies_each_approved_payment_happens_once(tmp_path: Path, moment: str) -> None:
    outcome, content = kill_and_resume("pay_checked", moment, tmp_path, "interactive")
    assert outcome == "ok"
    assert "A has 100" in content
    assert lines(tmp_path, "effects") == ["A1", "A2"]
    assert len(set(lines(tmp_path, "calls"))) == 2


@pytest.mark.sampled
@pytest.mark.parametrize("moment", APPROVED_POINTS)
def test_an_approved_payment_of_unknown_outcome_is_never_made_again(tmp_path: Path, moment: str) -> None:
    outcome, content = kill_and_resume("pay_unchecked", moment, tmp_path, "interactive")
    made = lines(tmp_path, "calls")
    assert len(made) == len(set(made))
    if moment in APPROVED_IN_DOUBT:
        assert outcome == "error"
        assert "ToolFailed" in content
    else:
        assert outcome == "ok"
        assert lines(tmp_path, "effects") == ["A1", "A2"]
