"""An application that is killed at any moment loses no step that it reported as saved."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import SUPPORT
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.burr.persister import SandburPersister

VICTIM = SUPPORT / "victims/burr_victim.py"
KILLS = 5


@pytest.mark.parametrize("kind", DATABASES)
def test_no_step_that_was_reported_is_lost(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    with fresh_url(kind, tmp_path) as url:
        reported = -1
        for _ in range(KILLS):
            reported = killed_after(url, chance.randrange(1, 12), reported)
            with SandburPersister.from_url(url) as persister:
                found = persister.load(None, "victim")
                assert found is not None
                assert found["sequence_id"] in (reported, reported + 1)
                numbers = [message["n"] for message in found["state"]["history"]]
                assert numbers == list(range(found["sequence_id"] + 1))
                reported = found["sequence_id"]


def killed_after(url: str, steps: int, before: int) -> int:
    """Run the application until it has reported some more steps and kill it; return its last report."""
    command = [sys.executable, "-W", "error", str(VICTIM), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reports = [int(process.stdout.readline()) for _ in range(steps)]
        process.kill()
        reports += map(int, process.stdout.read().splitlines())
    assert reports == list(range(before + 1, before + 1 + len(reports)))
    return reports[-1]
