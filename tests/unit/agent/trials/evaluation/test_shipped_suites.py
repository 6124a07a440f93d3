"""The shipped suites pass with the scripted model, measure what they say, and name what they lack."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT
from support.tool_servers import foreign_schemas
from support.tool_servers.agentdojo_package import python_path

from sandbur import Suite
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

BANKING = "user_task_0", "user_task_3"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def bfcl_path() -> str:
    """Return a PYTHONPATH with the data of BFCL."""
    return f"{ROOT}:{foreign_schemas.folder().parents[1]}"


def read_runs(out: str) -> dict[str, Any]:
    return {task["name"]: task["runs"][0] for task in json.loads(out)["tasks"]}


def test_each_tool_choice_has_the_tools_of_its_question_alone(command: Command) -> None:
    path = bfcl_path()
    done = command.run("eval", "tool-choice/live_parallel", "-m", "scripted", "--json", "-q", PYTHONPATH=path)
    assert done.code == 0, done.err
    runs = read_runs(done.out)
    assert len(runs) == 16
    assert all(run["pass"] and run["turns"] == 1 for run in runs.values())
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    try:
        session_id = next(iter(runs.values()))["session_id"]
        assert list(store.index.settings(session_id).own_tools) == ["get_current_weather"]
    finally:
        store.close()


def test_a_wrong_choice_fails_and_says_what_was_called(command: Command) -> None:
    words = ("eval", "tool-choice/simple", "--task", "simple/simple_python_0", "-m", "demo", "--json")
    done = command.run(*words, PYTHONPATH=bfcl_path())
    assert done.code == 0, done.err
    assert [run["check"] for run in read_runs(done.out).values()] == [
        "AssertionError: 0 calls instead of 1: none."
    ]


def test_a_suite_without_its_package_says_how_to_install_it(command: Command) -> None:
    for suite, package in (("tool-choice", "bfcl-eval"), ("injection", "agentdojo==0.1.35")):
        done = command.run("eval", suite, "-m", "scripted")
        assert (done.code, done.out) == (2, "")
        assert f"The suite {suite} needs" in done.err
        assert package in done.err
        assert "Traceback" not in done.err


def test_an_unknown_part_names_the_parts() -> None:
    for name, part in (("tool-choice/other", "live_multiple"), ("injection/other", "banking")):
        with pytest.raises(UsageError) as error:
            Suite.shipped(name)
        assert part in (error.value.hint or "")
    with pytest.raises(UsageError, match="injection has no part"):
        Suite.shipped("injection/banking/other")
    with pytest.raises(UsageError, match="memory has no part"):
        Suite.shipped("memory/other")
    with pytest.raises(UsageError, match="There is no suite"):
        Suite.shipped("smoke/other")


def test_an_attack_that_no_model_follows_leaves_the_task_done(command: Command) -> None:
    tasks = ",".join(f"banking/{one}" for one in BANKING)
    words = ("eval", "injection/banking/none", "--task", tasks, "-m", "scripted", "--json", "-q")
    done = command.run(*words, PYTHONPATH=python_path())
    assert done.code == 0, done.err
    runs = read_runs(done.out)
    assert [run["own"] for run in runs.values()] == [{"utility": 1.0, "security": 1.0}] * len(BANKING)


def test_tasks_whose_answer_is_masked_are_left_out(command: Command) -> None:
    words = ("eval", "injection", "-m", "scripted", "--json", "-q", "--task")
    done = command.run(*words, "workspace/user_task_22,workspace/user_task_24", PYTHONPATH=python_path())
    assert done.code == 0, done.err
    assert {name: run["pass"] for name, run in read_runs(done.out).items()} == {
        "workspace/user_task_24/injection_task_4": True
    }


def test_facts_are_saved_found_and_corrected(command: Command) -> None:
    done = command.run("eval", "memory", "-m", "scripted", "--json", "-q")
    assert done.code == 0, done.err
    runs = read_runs(done.out)
    assert all(run["pass"] and run["own"]["found"] == 1 for run in runs.values()), runs
    saved = {name.partition("/")[0]: run["own"]["saved"] for name, run in runs.items()}
    assert saved == {"session": 0.0, "project": 1.0, "corrected": 1.0}
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    try:
        state = store.show(runs["session/approver"]["session_id"]).state
        before_the_call = [message.text for message in list(state.chat_history) if not message.tool_results]
        assert not any("Ilka Sorensen" in text for text in before_the_call)
    finally:
        store.close()
    assert command.run("memory", "list").out == ""


def test_a_suite_without_solutions_says_so_to_the_oracle(command: Command) -> None:
    done = command.run("eval", "memory", "--oracle", "-q")
    assert done.code == 2
    assert "has no solution/solve.sh." in done.err
    assert "`-m scripted` plays its script." in done.err
