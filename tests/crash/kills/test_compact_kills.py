"""A history that somebody has compressed is the old one or the new one, wherever the process dies."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Ended
from support.victims.victims import run_victim

POINTS = (
    "compaction_mid",
    # Of the first turn after it.
    "request_before_send:4",
    "reply_before_commit:4",
    *(f"store_{when}_commit:{number}" for number in (7, 8, 9, 10) for when in ("before", "after")),
)


def run(folder: Path, point: str = "") -> Ended:
    place = f"sqlite:///{folder}/store.db"
    return run_victim("compact_victim", place, str(folder), point=point, SANDBUR_LEASE_S="1")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_compression_by_hand_is_whole_wherever_the_process_dies(tmp_path: Path, point: str) -> None:
    died = run(tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    resumed = run(tmp_path)
    assert resumed.code == 0, resumed.err
    told: dict[str, Any] = json.loads(resumed.out)
    assert (told["open"], told["next"]) == (False, "prompt")
    asked = told["asked"]
    assert sum("they counted to three" in text for text in asked) == 1
    assert sum(text.startswith("one xxx") for text in asked) == 0
    assert asked[-1] == "and now?"
