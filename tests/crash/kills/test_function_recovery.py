"""A function whose process died in its middle runs again where that is harmless, or its check settles it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.victims.victims import run_victim

MOMENTS = (
    # The third commit holds the result of the call.
    "started_before_commit",
    "started_after_commit",
    "tool_ran",
    "store_before_commit:3",
    "store_after_commit:3",
    "reply_before_commit:2",
)


def died_and_resumed(name: str, moment: str, folder: Path) -> tuple[str, str]:
    """Return what the model was told of the call once the session had been resumed."""
    where, point = ("", moment) if moment in MOMENTS else (moment, "")
    died = run_victim("function_victim", name, where, str(folder), point=point)
    assert died.code == -signal.SIGKILL, died.err
    resumed = run_victim("function_victim", name, moment, str(folder))
    assert resumed.code == 0, resumed.err
    told: Any = json.loads(resumed.out)
    assert told["status"] == "done"
    ((outcome, content),) = told["results"]
    return outcome, content


def lines(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().splitlines() if file.exists() else []


def test_what_was_done_is_not_done_again_as_its_check_tells(tmp_path: Path) -> None:
    outcome, content = died_and_resumed("pay_checked", "after", tmp_path)
    assert (outcome, content) == ("ok", "It had been done when the process died: its check found it done.")
    assert lines(tmp_path, "effects") == ["A1"]
    assert len(lines(tmp_path, "calls")) == 1
    assert lines(tmp_path, "checks") == ["A1 ledger"]


def test_what_was_not_done_runs_again_as_its_check_tells(tmp_path: Path) -> None:
    assert died_and_resumed("pay_checked", "before", tmp_path) == ("ok", "paid A1")
    assert lines(tmp_path, "effects") == ["A1"]
    first, second = lines(tmp_path, "calls")
    assert first == second
    assert first.startswith("s1:")


def test_a_provider_that_died_is_opened_anew_and_closed(tmp_path: Path) -> None:
    assert died_and_resumed("pay_checked", "provider", tmp_path) == ("ok", "paid A1")
    assert lines(tmp_path, "effects") == ["A1"]
    # The dead one, the one of the check, and the one of the run.
    assert lines(tmp_path, "ledger") == ["open", "open", "close", "open", "close"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_idempotent_call_runs_again_with_the_same_key(tmp_path: Path, moment: str) -> None:
    outcome, _ = died_and_resumed("pay_again", moment, tmp_path)
    assert outcome == "ok"
    assert lines(tmp_path, "effects") == ["A1"]
    first, second = lines(tmp_path, "calls")
    assert first == second


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "told"), [("pay_unchecked", "may or may not"), ("pay_unsure", "Its check cannot determine")]
)
def test_what_nobody_knows_is_never_run_again(tmp_path: Path, name: str, told: str, moment: str) -> None:
    outcome, content = died_and_resumed(name, moment, tmp_path)
    assert outcome == "unknown"
    assert told in content
    assert len(lines(tmp_path, "calls")) == 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["pay_checked", "pay_again"])
def test_wherever_the_process_dies_the_effect_happens_once(tmp_path: Path, name: str, moment: str) -> None:
    outcome, _ = died_and_resumed(name, moment, tmp_path)
    assert outcome == "ok"
    assert lines(tmp_path, "effects") == ["A1"]
    assert len(set(lines(tmp_path, "calls"))) == 1
