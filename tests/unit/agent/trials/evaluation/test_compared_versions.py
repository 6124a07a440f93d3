"""Results of several versions and interpreters are compared, and a changed agent begins other runs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur import Agent, EvaluationResult, EvaluationRun, JudgeMetric, Task, tool
from sandbur.agent.review.evaluation.contender import Contender
from sandbur.agent.review.evaluation.measures.metrics import name_metrics
from sandbur.agent.review.evaluation.measures.result import join_results
from sandbur.state.errors import UsageError

TASK = {
    "task.toml": 'version = "1.0"\n',
    "instruction.md": "Say hello.\n",
    "tests/test.sh": "true\n",
    "solution/script.json": '["Hello."]',
}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    for path, text in TASK.items():
        (tmp_path / "tasks/hello" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tasks/hello" / path).write_text(text)
    return Command(tmp_path)


def make_result(reward: float, version: str, tasks: tuple[str, ...] = ("a", "b")) -> EvaluationResult:
    runs = tuple(
        EvaluationRun(task=one, contender="x", repeat=1, session_id="", status="done", reward=reward)
        for one in tasks
    )
    return EvaluationResult("suite", tasks, ("x",), 1, runs, sandbur_version=version)


def test_results_of_two_versions_are_compared_at_the_tasks_of_both() -> None:
    joined = join_results({"old": make_result(0, "1.0", ("a", "b", "c")), "new": make_result(1, "1.1")})
    assert joined.contenders == ("x (1.0)", "x (1.1)")
    assert [(one.test.tasks, one.test.worse) for one in joined.compare()] == [(2, 2)]
    assert len(joined.notices) == 1


def test_results_of_one_version_get_the_names_of_their_files() -> None:
    joined = join_results({"old": make_result(0, "1.0"), "new": make_result(1, "1.0")})
    assert joined.contenders == ("x (old)", "x (new)")


def test_a_result_of_a_later_version_with_more_fields_is_read() -> None:
    dumped = make_result(1, "9.0").to_json()
    dumped["tasks"][0]["runs"][0]["something_new"] = 1
    assert EvaluationResult.from_json(dumped).sandbur_version == "9.0"


def test_two_files_are_compared_without_a_run(command: Command) -> None:
    for name, reward in (("old", 0), ("new", 1)):
        (command.folder / f"{name}.json").write_text(json.dumps(make_result(reward, name).to_json()))
    done = command.run("eval", "--compare", "old.json,new.json", "--html", "page.html")
    assert done.code == 0, done.err
    assert "x (old) against x (new): better at 0 of 2 tasks, worse at 2" in done.out
    page = (command.folder / "page.html").read_text()
    assert page.count(">fail</span>") == page.count(">pass</span>") == 2
    assert not (command.folder / "page-runs").exists(), "the runs are in other stores"
    assert not (command.folder / "data").exists()


def test_files_of_the_same_name_are_compared_by_their_paths(command: Command) -> None:
    for folder, reward in (("monday", 0), ("tuesday", 1)):
        (command.folder / folder).mkdir()
        (command.folder / folder / "base.json").write_text(json.dumps(make_result(reward, "1.0").to_json()))
    done = command.run("eval", "--compare", "monday/base.json,tuesday/base.json")
    assert done.code == 0, done.err
    compared = "x (monday/base.json) against x (tuesday/base.json): better at 0 of 2 tasks, worse at 2"
    assert compared in done.out
    same = command.run("eval", "--compare", "monday/base.json,monday/../monday/base.json")
    assert (same.code, same.out) == (2, "")
    assert "--compare has one result" in same.err


def test_control_characters_in_names_do_not_break_the_table(command: Command) -> None:
    for name in ("old", "new"):
        saved = make_result(1, name, ("a\x1b[2J\nb",)).to_json()
        (command.folder / f"{name}.json").write_text(json.dumps(saved))
    done = command.run("eval", "--compare", "old.json,new.json")
    assert done.code == 0, done.err
    assert done.out.splitlines()[:2] == ["task         x (old)  x (new)", r"a\x1b[2J\nb  pass     pass"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda saved: saved["tasks"][0]["runs"][0].update(contender="y"), "has the unknown contender 'y'"),
        (lambda saved: saved["tasks"][0]["runs"][0].update(reward=float("nan")), "finite number"),
        (lambda saved: saved.pop("tasks"), "tasks: Field required"),
    ],
)
def test_a_changed_result_is_refused_with_one_sentence(command: Command, change: Any, said: str) -> None:
    saved = make_result(1, "new").to_json()
    (command.folder / "good.json").write_text(json.dumps(saved))
    change(saved)
    (command.folder / "bad.json").write_text(json.dumps(saved))
    done = command.run("eval", "--compare", "bad.json,good.json")
    assert (done.code, done.out) == (2, "")
    assert "The result bad.json cannot be used" in done.err
    assert said in done.err


def test_interpreters_run_the_same_suite_and_are_compared(command: Command) -> None:
    pythons = [command.folder / name for name in ("first", "second")]
    for python in pythons:
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
    words = ("eval", "tasks", "-m", "scripted", "--python", ",".join(map(str, pythons)))
    done = command.run(*words, "--json", "--html", "page.html")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert [one["name"] for one in result["contenders"]] == [f"scripted ({python})" for python in pythons]
    runs = result["tasks"][0]["runs"]
    assert len({run["session_id"] for run in runs}) == 2
    assert all(run["pass"] and run["sandbur_version"] for run in runs)
    assert (command.folder / "page.html").read_text().count(">pass</span>") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--compare", "old.json"), "--compare has one result"),
        (("tasks", "--compare", "a.json,b.json"), "--compare runs nothing."),
        (("--compare", "a.json,b.json"), "cannot be read"),
        (("tasks", "-m", "scripted", "--python", "/nowhere"), "/nowhere cannot be started"),
    ],
)
def test_wrong_comparisons_end_with_one_sentence(command: Command, words: tuple[str, ...], said: str) -> None:
    done = command.run("eval", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


PROGRAM = """
from sandbur import Agent, Task, tool
from sandbur.agent.review.evaluation.contender import Contender

@tool
def look(word: str) -> bool:
    "Look a word up."
    return word in {WORDS}

agent = Agent("openai/x", instructions="PROMPT", tools=[look])
words = "a"
print(Contender("x", definition=agent.definition, is_of_program=True).key.encode().hex())
print(Task("Go.", check=lambda solution: solution.result in {WORDS}).digest)
"""


def run_program(words: str = '"a", "b", "c", "d"', prompt: str = "Help.") -> list[str]:
    program = PROGRAM.replace("WORDS", words).replace("PROMPT", prompt)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_keys_stay_the_same_in_every_process_until_the_agent_changes() -> None:
    first, check = run_program()
    assert [run_program() for _ in range(3)] == [[first, check]] * 3
    assert run_program(prompt="Help more.")[0] != first
    changed = run_program(words='"a", "b", "c", "e"')
    assert changed[0] != first
    assert changed[1] != check


def make_limited(limit: int) -> Any:
    @tool
    def fetch(name: str) -> bool:
        """Fetch a file."""
        return len(name) < limit

    return fetch


def test_the_place_of_an_agent_is_no_part_of_its_key(tmp_path: Path) -> None:
    keys = {
        Contender("x", definition=Agent("openai/x", tools=[make_limited(limit)], cwd=folder).definition).key
        for limit, folder in ((1, tmp_path), (1, Path("/")), (2, tmp_path))
    }
    assert len(keys) == 2


def test_what_a_tool_collects_is_no_part_of_the_key() -> None:
    sent: list[str] = []

    @tool
    def send(text: str) -> None:
        """Send a text."""
        sent.append(text)

    contender = Contender("x", definition=Agent("openai/x", tools=[send]).definition)
    before = contender.key
    sent.append("more")
    assert contender.key == before


def test_a_check_that_calls_itself_has_a_digest() -> None:
    def check(solution: Any) -> bool:
        return check(solution)

    assert Task("Go.", check=check).digest


def test_judges_with_different_models_need_no_names() -> None:
    first, second = JudgeMetric("a/one", "Good?"), JudgeMetric("a/two", "Good?")
    assert [one.name for one in name_metrics([first, second])] == ["judge a/one", "judge a/two"]
    assert [one.name for one in name_metrics([first])] == ["judge"]
    with pytest.raises(UsageError, match="Two metrics have the name 'judge a/one'"):
        name_metrics([first, JudgeMetric("a/one", "Short?")])
