"""`sandbur eval --workers`: workers carry out the runs; killed on both sides, the table is the same."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command

AGENT = """
import asyncio
from sandbur import Agent, tool, workspace_tools
from sandbur.testing import ScriptedModel, ToolCall

def answer(request):
    done = sum(bool(message.tool_results) for message in request.messages)
    text = [message.text for message in request.messages if message.role == "user"][0]
    if done == 0:
        return ToolCall("write_file", path="number.txt", content=text.split()[1] + "\\n")
    return ToolCall("read_file", path="number.txt") if done < 3 else "done"

agent = Agent(ScriptedModel(answer), tools=workspace_tools())

@tool
async def wait() -> str:
    "Wait without an end."
    await asyncio.Event().wait()

stuck = Agent(ScriptedModel(lambda request: ToolCall("wait")), tools=[wait])
"""
WORDS = ("eval", "tasks", "--agent", "worked:agent", "--workers", "--parallel", "4")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "worked.py").write_text(AGENT)
    for number in range(6):
        folder = tmp_path / "tasks" / f"task-{number}"
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text('version = "1.0"\n')
        (folder / "instruction.md").write_text(f"Write {number} into number.txt.\n")
        wanted = number if number else "another"
        (folder / "tests/test.sh").write_text(f"test $(cat /app/number.txt) = {wanted}\n")
    return Command(tmp_path)


def start_worker(command: Command, *agents: str, **env: str) -> Any:
    named = [word for agent in agents or ("worked:agent",) for word in ("--agent", agent)]
    words = ("worker", *named, "--until-stdin-ends")
    return command.start(*words, env=env, stdin=-1)


def read_passes(out: str) -> list[bool]:
    return [run["pass"] for task in json.loads(out)["tasks"] for run in task["runs"]]


def test_workers_carry_out_the_runs_of_agents_of_modules_and_files(command: Command) -> None:
    (command.folder / "desk.toml").write_text('instructions = "Help."\nmodel = "demo"\n')
    worker = start_worker(command, "worked:agent", "tasks/../desk.toml")
    try:
        words = ("eval", "tasks", "--agent", "worked:agent,desk.toml", "--workers", "--task", "task-0,task-1")
        done = command.run(*words, "--json")
    finally:
        worker.kill()
        worker.communicate()
    assert done.code == 0, done.err
    assert read_passes(done.out) == [False, False, True, False]
    assert "No worker runs" not in done.err


def test_killed_evaluations_and_workers_run_to_the_same_table(command: Command) -> None:
    for point in ("tool_ran:2", "store_after_commit:6", "hand_back_before_commit:2"):
        worker = start_worker(command, SANDBUR_CRASH_AT=point)
        evaluation = command.start(*WORDS, env={"SANDBUR_LEASE_S": "2"})
        assert worker.wait(timeout=120) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        evaluation.kill()
        evaluation.communicate()
        worker.communicate()
    worker = start_worker(command)
    try:
        done = command.run(*WORDS, "--json", "-q")
        again = command.run(*WORDS, "--json", "-q")
    finally:
        worker.kill()
        worker.communicate()
    assert done.code == 0, done.err
    assert read_passes(done.out) == [False, True, True, True, True, True]
    assert json.loads(again.out) == json.loads(done.out)


def test_a_run_that_is_late_is_stopped_and_checked(command: Command) -> None:
    (command.folder / "tasks/task-1/task.toml").write_text('version = "1.0"\n[agent]\ntimeout_sec = 0.1\n')
    worker = start_worker(command, "worked:stuck")
    try:
        words = ("eval", "tasks", "--task", "task-1", "--agent", "worked:stuck", "--workers", "--json")
        done = command.run(*words)
    finally:
        worker.kill()
        worker.communicate()
    assert done.code == 0, done.err
    assert [run["status"] for task in json.loads(done.out)["tasks"] for run in task["runs"]] == ["timeout"]


def test_an_evaluation_names_the_missing_worker_and_goes_on_with_one(command: Command) -> None:
    evaluation = command.start(*WORDS, "--task", "task-1")
    assert evaluation.stderr is not None
    line = evaluation.stderr.readline().decode()
    assert "No worker runs worked:agent. Start one: sandbur worker --agent worked:agent" in line
    killed = start_worker(command, SANDBUR_CRASH_AT="tool_ran:1")
    killed.wait(timeout=120)
    killed.communicate()
    worker = start_worker(command)
    try:
        evaluation.communicate(timeout=120)
    finally:
        worker.kill()
        worker.communicate()
    assert evaluation.returncode == 0, "the run of the killed worker waits for another one"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workers", "-m", "demo"), "--workers needs --agent: "),
        (("--workers", "--agent", "desk.yaml", "-m", "scripted"), "Workers do not play the scripts"),
        (
            ("--workers", "--agent", "worked:agent", "-m", "demo"),
            "worked:agent has a model of its own",
        ),
        (("--labels", "gpu", "-m", "demo"), "--labels goes with --workers."),
        (
            ("--workers", "--agent", "worked:agent", "--task", "talk"),
            "Workers cannot run the task talk: it has turns and interrupt_at_call.",
        ),
    ],
)
def test_what_workers_cannot_run_is_named(command: Command, words: tuple[str, ...], said: str) -> None:
    (command.folder / "desk.yaml").write_text("instructions: Help.\nmodel: demo\n")
    talk = command.folder / "tasks/talk"
    shutil.copytree(talk.with_name("task-1"), talk)
    (talk / "task.toml").write_text("[metadata]\ninterrupt_at_call = 1\n")
    (talk / "turns").mkdir()
    (talk / "turns/1.md").write_text("First, talk.\n")
    done = command.run("eval", "tasks", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
