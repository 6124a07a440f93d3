"""The suite `smoke`, killed again and again, runs to the same table, and no ended run is repeated."""

import json
import signal
from typing import Any

import pytest
from support.commands.command import Command

from sandbur.state.maintenance.verify import audit_all
from sandbur.state.store.store import Store

POINTS = (
    "store_before_commit:3",
    "store_in_transaction:9",
    "store_after_commit:14",
    "started_before_commit:2",
    "started_after_commit:3",
    "tool_ran:4",
    "edit_tmp_written",
    "effect_mid",
)
WORDS = ("eval", "smoke", "-m", "scripted", "--json", "-q")


@pytest.fixture
def command(tmp_path: Any) -> Command:
    return Command(tmp_path)


def read_passes(out: str) -> dict[str, list[bool]]:
    return {task["name"]: [run["pass"] for run in task["runs"]] for task in json.loads(out)["tasks"]}


def test_the_suite_killed_at_named_points_runs_to_the_same_table(command: Command) -> None:
    died = [command.run(*WORDS, SANDBUR_CRASH_AT=point) for point in POINTS]
    assert any(one.code in (-signal.SIGKILL, 128 + signal.SIGKILL) for one in died)
    done = command.run(*WORDS)
    assert done.code == 0, done.err
    passed = read_passes(done.out)
    assert len(passed) == 20
    assert all(runs == [True] for runs in passed.values()), passed
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    try:
        sessions = {one.id: None for one in store.roots()}
        assert len(sessions) == 2 * len(passed)
        assert all(found == [] for _, found in audit_all(store.database, sessions))
    finally:
        store.close()


def test_the_suite_killed_after_every_fourth_run_repeats_none(command: Command) -> None:
    ended: list[str] = []
    for _ in range(10):
        process = command.start("eval", "smoke", "-m", "scripted", "--parallel", "3")
        assert process.stderr is not None
        seen = 0
        for line in process.stderr:
            if b": passed, " in line:
                seen += 1
                ended.append(line.decode().partition(":")[0])
                if seen == 4:
                    process.kill()
                    break
        process.communicate()
        if process.returncode == 0:
            break
    else:
        pytest.fail("the evaluation did not end")
    assert len(ended) == len(set(ended)), ended
    assert all(runs == [True] for runs in read_passes(command.run(*WORDS).out).values())
