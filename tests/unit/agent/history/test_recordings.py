"""Recorded runs of every workflow still go as they did; and runs of a project become its tests."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import ROOT, Command, Ended
from support.models.demo_runs import DemoRuns
from support.places import FIXTURES, RECORDINGS

from sandbur.agent.sdk.testing.recorded_runs import problem_of
from sandbur.state.databases.schema import SCHEMA_VERSION
from sandbur.ui.commands.past.replay import name_of
from sandbur.ui.pytest_plugin import Replay, sandbur_replay  # noqa: F401

RUNS = sorted(RECORDINGS.glob("*.jsonl"))
EARLIER = sorted((RECORDINGS / "earlier").glob("*.jsonl"))
"""Runs that earlier versions recorded, one for each schema since 6. Most `RUNS` are of schema 5."""
ACTIONS = {"prompt", "router", "vibe_planner", "vibe_step_executor", "human_confirm", "execute_tools",
           "vibe_result_analyzer", "step_summarizer", "context_compressor"}  # fmt: skip


def records(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


@pytest.mark.parametrize("name", [path.stem for path in RUNS])
def test_a_recorded_run_goes_as_it_did(sandbur_replay: Replay, name: str) -> None:  # noqa: F811
    sandbur_replay(str(RECORDINGS / f"{name}.jsonl"))


@pytest.mark.parametrize("name", [path.stem for path in EARLIER])
def test_a_run_that_an_earlier_version_recorded_goes_as_it_did(sandbur_replay: Replay, name: str) -> None:  # noqa: F811
    sandbur_replay(str(RECORDINGS / "earlier" / f"{name}.jsonl"))


def test_every_schema_since_the_first_recordings_has_one() -> None:
    schemas = {json.loads(path.read_text("ascii").partition("\n")[0])["schema"] for path in [*RUNS, *EARLIER]}
    assert schemas == set(range(5, SCHEMA_VERSION + 1))


def test_a_run_of_a_version_that_recorded_too_little_is_a_sentence() -> None:
    problem = problem_of(FIXTURES / "export-2.jsonl")
    assert "an older version of Sandbur recorded too little for a replay" in problem


def test_the_recordings_tell_of_every_action_tool_and_wire() -> None:
    found = [record for path in RUNS for record in records(path)]
    assert {record["position"] for record in found if record["kind"] == "step"} == ACTIONS
    models = {record["settings"]["model"].split("/")[0] for record in found if record["kind"] == "session"}
    assert models == {"anthropic", "openai-chat", "openai-responses"}
    tools = {record["body"]["tool"] for record in found if record.get("move") == "proposed"}
    assert tools >= {
        "run_shell_command",
        "read_file",
        "write_file",
        "edit_file",
        "list_directory",
        "glob",
        "grep",
    }
    decided = [record["body"] for record in found if record.get("move") == "decided"]
    assert {body["decision"] for body in decided} == {"approved", "denied"}
    assert {body.get("settled_as") for body in decided} == {None, "done", "failed"}
    assert any(body.get("edited") for body in decided)


def test_the_recordings_do_not_tell_where_they_were_made() -> None:
    for path in [*RUNS, *EARLIER]:
        text = path.read_text("ascii")
        assert not re.search(r"/root|/home/|/tmp/|127\.0\.0\.1|\w@\w", text), path


class Project:
    """A project of a person, with a session in the store that can become its test."""

    def __init__(self, folder: Path) -> None:
        self.runs = DemoRuns(folder)
        self.folder = self.runs.folder
        self.command = Command(self.folder)
        self.command.env["SANDBUR_HOME"] = str(self.runs.home)

    def worked(self, *prompts: str) -> str:
        return asyncio.run(self.runs.work(*prompts))

    def add(self, *words: str) -> Ended:
        return self.command.run("test", "add", *words)

    def pytest(self, *words: str) -> Ended:
        line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
        env = {**self.command.env, "SANDBUR_HOME": str(self.folder / "nothing")}
        done = subprocess.run(line, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.slow
def test_a_run_becomes_a_test_of_two_lines_that_passes(project: Project) -> None:
    session_id = project.worked("write one into a.txt", "run echo hi")
    ended = project.add(session_id[:8])
    assert (ended.code, ended.out) == (0, "tests/test_write_one_into_a_txt.py\n")
    test = project.folder / "tests/test_write_one_into_a_txt.py"
    assert test.read_text().splitlines() == [
        "def test_write_one_into_a_txt(sandbur_replay):",
        '    sandbur_replay("recordings/write_one_into_a_txt.jsonl")',
    ]
    ran = project.pytest("-W", "error", "-p", "no:asyncio")
    assert ran.code == 0, ran.out
    assert not (project.folder / "nothing").exists()


@pytest.mark.slow
def test_the_test_fails_with_the_step_that_goes_another_way(project: Project) -> None:
    session_id = project.worked("write one into a.txt")
    assert project.add(session_id, "--name", "one", "--to", "checks").code == 0
    (project.folder / "checks/conftest.py").write_text(
        "from sandbur.actions.ports import Verdict\nfrom sandbur.agent.policy.gate import Policy\n"
        "Policy.judge = lambda *call: Verdict('deny', 'not today')\n"
    )
    ran = project.pytest("checks")
    assert ran.code == 1
    assert "one.jsonl: step 1 (router), state: " in ran.out
    assert "- is recorded, + is this program." in ran.out
    assert "Traceback" not in ran.out
    assert "pytest_plugin.py" not in ran.out


def test_a_recording_that_is_none_is_told_in_a_sentence(project: Project) -> None:
    tests = project.folder / "tests"
    (tests / "recordings").mkdir(parents=True)
    (tests / "recordings/bad.jsonl").write_text("{}\n")
    (tests / "test_bad.py").write_text(
        "def test_bad(sandbur_replay):\n    sandbur_replay('recordings/bad.jsonl')\n"
        "def test_none(sandbur_replay):\n    sandbur_replay('recordings/none.jsonl')\n"
    )
    ran = project.pytest()
    assert ran.code == 1
    assert "bad.jsonl: This is not an export of Sandbur." in ran.out
    assert "none.jsonl cannot be read: No such file or directory." in ran.out
    assert "Error" not in ran.out.replace("AssertionError", "")


@pytest.mark.slow
def test_it_works_inside_of_event_loops_and_in_several_processes(project: Project) -> None:
    session_id = project.worked("run echo hi")
    assert project.add(session_id, "--name", "hi").code == 0
    (project.folder / "tests/test_async.py").write_text(
        "import asyncio\n"
        "async def test_in_a_loop(sandbur_replay):\n"
        "    sandbur_replay('recordings/hi.jsonl')\n"
        "    assert asyncio.get_running_loop().is_running()\n"
    )
    options = ("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
    ran = project.pytest("-n", "2", "-W", "error", *options)
    assert (ran.code, "2 passed" in ran.out) == (0, True), ran.out


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import sandbur.ui.pytest_plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['sandbur', 'sandbur.ui', 'sandbur.ui.pytest_plugin']"


def test_nothing_is_replaced_without_force(project: Project) -> None:
    session_id = project.worked("run echo hi")
    tests = project.folder / "tests"
    tests.mkdir()
    (tests / "test_hi.py").write_text("mine\n")
    ended = project.add(session_id, "--name", "hi")
    assert (ended.code, ended.out) == (2, "")
    assert "tests/test_hi.py exists already. Choose a --name, or replace it with --force." in ended.err
    assert [path.name for path in tests.iterdir()] == ["test_hi.py"]
    assert (tests / "test_hi.py").read_text() == "mine\n"
    assert project.add(session_id, "--name", "hi", "--force").code == 0
    assert project.add(session_id, "--name", "hi", "--force").code == 0
    assert sorted(path.name for path in tests.rglob("*")) == ["hi.jsonl", "recordings", "test_hi.py"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Why is it slow?", "why_is_it_slow"),
        ("../../etc/passwd", "etc_passwd"),
        ("Größe der Datei", "grosse_der_datei"),
        ("你好", "run_1234abcd"),
        ("", "run_1234abcd"),
        ("\x1b[31m'); import os #", "31m_import_os"),
        ("word " * 40, "_".join(["word"] * 10)),
        ("x" * 200, "x" * 50),
    ],
)
def test_a_name_is_safe_whatever_the_title_says(title: str, name: str) -> None:
    assert name_of(title, "1234abcd-1111-4111-8111-111111111111") == name


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nope",), "There is no session 'nope'."),
        (("{id}", "--name", "../evil"), "--name: '../evil' cannot name a test."),
        (("{id}", "--name", "a b"), "cannot name a test."),
        (("{id}", "--to", "file/below"), "cannot be written: "),
    ],
)
def test_a_wrong_word_is_told_in_a_sentence(project: Project, words: tuple[str, ...], problem: str) -> None:
    session_id = project.worked("hello")
    (project.folder / "file").write_text("")
    ended = project.add(*(word.format(id=session_id) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert not (project.folder / "tests").exists()


def test_a_run_that_cannot_be_replayed_becomes_no_test(project: Project) -> None:
    session_id = project.worked("hello")
    store = project.runs.store()
    store.database.commit([("DELETE FROM traces WHERE session_id = ?", (session_id,))])
    store.close()
    ended = project.add(session_id)
    assert (ended.code, ended.out) == (2, "")
    assert "can be replayed" in ended.err
    assert not (project.folder / "tests").exists()
