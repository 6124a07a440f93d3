"""A fact is written, corrected and renamed exactly once, wherever the process dies."""

import json
import signal
from pathlib import Path

import pytest
from support.commands.command import Ended
from support.victims.victims import run_victim

from sandbur.state.memory.fact_store import FactStore
from sandbur.state.store.store import Store

POINTS = [
    f"{point}:{number}"
    for number in (1, 2, 3)
    for point in (
        "started_after_commit",
        "memory_before_change",
        "fact_change_planned",
        "fact_change_committed",
        "memory_changed",
        "tool_ran",
    )
] + [f"{point}:{number}" for number in (4, 5) for point in ("started_after_commit", "tool_ran")]
PAGE = "Done: the port\nNext: the name"
FACTS = [["The port is 8080", "superseded", "/memories/port.md"],
         ["The port is 9090", "valid", "/memories/net.md"]]  # fmt: skip


def run(folder: Path, point: str = "") -> Ended:
    url = f"sqlite:///{folder}/store.db"
    return run_victim("agents/memory_victim", url, str(folder), point=point, SANDBUR_LEASE_S="1")


def check(folder: Path, ended: Ended) -> None:
    assert ended.code == 0, ended.err
    assert json.loads(ended.out) == {"status": "done", "results": 5, "page": PAGE, "facts": FACTS}
    store = Store.open(f"sqlite:///{folder}/store.db")
    facts = FactStore(store.database)
    happened = [one.what for id in _list_ids(store) for one in facts.history(id)]
    assert sorted(happened) == ["added", "added", "moved", "superseded"]
    assert store.database.find_problems() == []
    store.close()


def _list_ids(store: Store) -> list[str]:
    return [row[0] for row in store.database.query("SELECT id FROM facts", ())]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_each_change_of_memory_happens_once_wherever_the_process_dies(tmp_path: Path, point: str) -> None:
    died = run(tmp_path, point)
    assert died.code == -signal.SIGKILL, died.err
    check(tmp_path, run(tmp_path))


def test_a_page_that_was_half_written_when_the_process_died_is_written_once(tmp_path: Path) -> None:
    assert run(tmp_path, "tool_ran:5").code == -signal.SIGKILL
    check(tmp_path, run(tmp_path))


@pytest.mark.parametrize("point", ["fact_change_planned", "fact_change_committed"])
def test_taking_memory_back_happens_as_a_whole_or_not_at_all(tmp_path: Path, point: str) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    assert run(tmp_path).code == 0
    died = run_victim("agents/rewind_victim", url, point=point)
    assert died.code == -signal.SIGKILL, died.err
    store = Store.open(url)
    facts = FactStore(store.database)
    is_done = point == "fact_change_committed"
    states = {facts.get(id).state for id in _list_ids(store)}
    assert states == {"forgotten" if is_done else "valid", "superseded"}
    again = run_victim("agents/rewind_victim", url)
    assert again.code == 0, again.err
    assert again.out.strip() == ("" if is_done else "forgotten: /memories/project/net.md")
    assert "valid" not in {facts.get(id).state for id in _list_ids(store)}
    assert store.database.find_problems() == []
    store.close()


def test_a_correction_that_was_made_when_the_process_died_is_not_made_again(tmp_path: Path) -> None:
    assert run(tmp_path, "memory_changed:2").code == -signal.SIGKILL
    check(tmp_path, run(tmp_path))
