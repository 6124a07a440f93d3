"""A history that somebody has compressed is the old one or the new one, wherever the process dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import PYTHONPATH, ROOT

VICTIM = ROOT / "tests" / "support" / "compact_victim.py"
POINTS = (
    "compaction_mid",
    # Of the first turn after it.
    "request_before_send:4",
    "reply_before_commit:4",
    *(f"store_{when}_commit:{number}" for number in (7, 8, 9, 10) for when in ("before", "after")),
)


def run(folder: Path, point: str = "") -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PYTHONPATH": PYTHONPATH, "SANDBUR_CRASH_AT": point, "SANDBUR_LEASE_S": "1"}
    words = [sys.executable, str(VICTIM), f"sqlite:///{folder}/store.db", str(folder)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_compression_by_hand_is_whole_wherever_the_process_dies(tmp_path: Path, point: str) -> None:
    died = run(tmp_path, point)
    assert died.returncode == -signal.SIGKILL, died.stderr
    resumed = run(tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    told: dict[str, Any] = json.loads(resumed.stdout)
    assert (told["open"], told["next"]) == (False, "prompt")
    asked = told["asked"]
    assert sum("they counted to three" in text for text in asked) == 1
    assert sum(text.startswith("one xxx") for text in asked) == 0
    assert asked[-1] == "and now?"
