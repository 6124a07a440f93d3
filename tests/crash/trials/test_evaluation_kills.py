"""The shipped suites, killed again and again, run to the same table, and no ended run is repeated."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT
from support.tool_servers import foreign_schemas
from support.tool_servers.agentdojo_package import python_path

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
BANKING = "banking/user_task_0/injection_task_0,banking/user_task_2/injection_task_3"
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
        assert len(sessions) == len(passed)
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


def bfcl_path() -> str:
    return f"{ROOT}:{foreign_schemas.folder().parents[1]}"


SUITES = (
    ("tool-choice/live_parallel", "live_parallel", bfcl_path, ("started_after_commit:2", "tool_ran:3")),
    (
        "memory",
        "corrected",
        lambda: str(ROOT),
        ("tool_ran:2", "store_after_commit:12", "store_in_transaction:20"),
    ),
    ("injection/banking", BANKING, python_path, ("tool_ran:1", "tool_ran:2")),
)
"""A suite, some of its tasks, the PYTHONPATH that it needs, and where it is killed."""


@pytest.mark.parametrize(("suite", "tasks", "find_path", "points"), SUITES, ids=[one[0] for one in SUITES])
def test_every_suite_killed_at_named_points_runs_to_the_table_of_an_undisturbed_run(
    command: Command, suite: str, tasks: str, find_path: Callable[[], str], points: tuple[str, ...]
) -> None:
    words, path = ("eval", suite, "--task", tasks, "-m", "scripted", "--json", "-q"), find_path()
    died = [command.run(*words, PYTHONPATH=path, SANDBUR_CRASH_AT=point) for point in points]
    assert {one.code for one in died} <= {-signal.SIGKILL, 128 + signal.SIGKILL}, died[-1].err
    done = command.run(*words, PYTHONPATH=path)
    assert done.code == 0, done.err
    undisturbed = command.run(*words, "--name", "other", PYTHONPATH=path)
    assert read_measures(done.out) == read_measures(undisturbed.out)
    assert all(passes == [True] for passes in read_passes(done.out).values()), done.out


def read_measures(out: str) -> dict[str, Any]:
    return {
        task["name"]: [(run["pass"], run["own"]) for run in task["runs"]] for task in json.loads(out)["tasks"]
    }
