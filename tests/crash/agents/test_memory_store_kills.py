"""A change of a program's own memory is never made twice by itself, wherever the process dies."""

import json
import signal
from pathlib import Path
from typing import Any

from support.victims.victims import run_victim

FACT = "The port is 8080"


def go_on_after_kill(folder: Path, kind: str, mode: str, point: str = "") -> dict[str, Any]:
    """Return what the second process prints; the first one dies in `add`, or at a crash point."""
    words = ("agents/memory_store_victim", str(folder), kind, mode)
    settings = {"SANDBUR_LEASE_S": "1"}
    died = run_victim(*words, point=point, **settings, **({} if point else {"DIE": "1"}))
    assert died.code == -signal.SIGKILL, died.err
    ended = run_victim(*words, **settings)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_the_model_is_told_that_the_outcome_of_a_killed_add_is_unknown(tmp_path: Path) -> None:
    found = go_on_after_kill(tmp_path, "plain", "yolo")
    assert (found["status"], found["facts"]) == ("done", [FACT])
    (told,) = found["results"]
    assert "It may or may not have taken effect." in told
    assert "It was not run again" in told


def test_a_killed_add_waits_for_a_person_outside_of_yolo(tmp_path: Path) -> None:
    found = go_on_after_kill(tmp_path, "plain", "interactive")
    assert (found["status"], found["waiting"]) == ("needs_decision", ["outcome_unknown"])
    assert found["facts"] == [FACT]


def test_a_memory_that_can_tell_settles_a_killed_add_that_took_effect(tmp_path: Path) -> None:
    found = go_on_after_kill(tmp_path, "checked", "interactive")
    assert (found["status"], found["facts"]) == ("done", [FACT])
    assert found["results"] == ["It had been done when the process died: the memory has been asked."]


def test_a_memory_that_can_tell_makes_a_change_that_a_kill_prevented(tmp_path: Path) -> None:
    found = go_on_after_kill(tmp_path, "checked", "interactive", "started_after_commit:1")
    assert (found["status"], found["facts"]) == ("done", [FACT])
    assert found["results"] == ["Remembered as [f1]."]
