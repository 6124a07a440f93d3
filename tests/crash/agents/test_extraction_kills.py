"""Facts are found in a session exactly once, wherever the process dies."""

import json
import signal
from pathlib import Path

import pytest
from support.commands.command import Ended
from support.victims.victims import run_victim

from sandbur.state.store.store import Store

POINTS = [
    "extraction_answered",
    *(f"extraction_fact_written:{number}" for number in (1, 2)),
    *(f"fact_change_planned:{number}" for number in (1, 2, 3, 4)),
    *(f"fact_change_committed:{number}" for number in (1, 2, 3, 4)),
    "extraction_marked",
]


def run(folder: Path, point: str = "") -> Ended:
    url = f"sqlite:///{folder}/store.db"
    return run_victim("agents/extraction_victim", url, str(folder), point=point, SANDBUR_LEASE_S="1")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_each_fact_is_kept_once_wherever_the_process_dies(tmp_path: Path, point: str) -> None:
    died = run(tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    ended = run(tmp_path)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    texts = ["Tests of the shop run with just test", "The port of the shop is 9090"]
    assert found == {"facts": texts, "waiting": 0, "problems": []}
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    rows = store.database.query("SELECT what FROM fact_changes ORDER BY version", ())
    assert [row[0] for row in rows] == ["proposed", "accepted"] * 2
    # The model was asked for facts once: its answer was recorded before the process died.
    (child,) = store.index.children_of("s1")
    assert store.show(child.id).state.usage.llm_calls == 1
    store.close()
