"""`sandbur eval`: the table, the JSON, the page, the gate, and what is wrong with its arguments."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from support.commands.command import Command
from support.screens.terminal_pair import Terminal

from sandbur.ui.terminal.text.sanitize import plain

TASKS = {
    "hello/task.toml": 'version = "1.0"\n',
    "hello/instruction.md": "Write hello into /app/hello.txt.\n",
    "hello/tests/test.sh": "grep -q hello /app/hello.txt\n",
    "hello/solution/solve.sh": "echo hello > /app/hello.txt\n",
    "hello/solution/script.json": json.dumps(
        [
            {
                "calls": [
                    {"tool": "write_file", "arguments": {"path": "/app/hello.txt", "content": "hello\n"}}
                ]
            },
            "Done.",
        ]
    ),
    "hello/environment/Dockerfile": "FROM scratch\n",
    "half/task.toml": 'version = "1.0"\n',
    "half/instruction.md": "Do half of it.\n",
    "half/tests/test.sh": "echo only half; echo 0.5 > /logs/verifier/reward.txt\n",
    "half/solution/script.json": '["Half."]',
}


@pytest.fixture
def command(tmp_path: Path) -> Command:
    for path, text in TASKS.items():
        (tmp_path / "tasks" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tasks" / path).write_text(text)
    return Command(tmp_path)


def passes(result: Any) -> dict[str, list[bool]]:
    return {task["name"]: [run["pass"] for run in task["runs"]] for task in result["tasks"]}


def test_a_table_shows_tasks_and_metrics(command: Command) -> None:
    done = command.run("eval", "tasks", "-m", "scripted", "--repeats", "2")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[:3] == ["task   scripted", "half   0/2", "hello  2/2"]
    assert "pass^2       0.500 [0.000, 1.000]" in lines
    assert "half · scripted · 1: failed (done, reward 0.5)" in done.err
    assert "only half" in done.err
    assert "environment/Dockerfile is not used" in done.err


def test_a_table_that_is_wider_than_the_window_becomes_a_list_of_its_rows(command: Command) -> None:
    command.env |= {"TERM": "xterm", "COLUMNS": "", "LINES": ""}
    words = ("eval", "tasks", "-m", "scripted,demo", "--repeats", "2", "-q")
    with Terminal(columns=34) as terminal:
        terminal.drain(command.start(*words, start_new_session=True, **terminal.streams))
        rows = plain(terminal.output.decode()).splitlines()
    assert rows[:4] == ["task   scripted  demo", "half   0/2       0/2", "hello  2/2       0/2", ""]
    at = rows.index("pass^2")
    assert rows[at + 1 : at + 3] == ["  scripted  0.500 [0.000, 1.000]", "  demo      0.000"]
    assert max(map(cell_len, rows)) <= 34


def test_the_same_command_repeats_nothing_and_prints_the_same(command: Command) -> None:
    words = ("eval", "tasks", "-m", "scripted", "--json")
    first, second = command.run(*words), command.run(*words)
    assert json.loads(first.out) == json.loads(second.out)
    assert "2 of 2 runs have ended before; they are not repeated." in second.err
    assert passes(json.loads(first.out)) == {"half": [False], "hello": [True]}


def test_models_are_compared_and_each_run_has_a_report(command: Command) -> None:
    done = command.run("eval", "tasks", "-m", "scripted,demo", "--html", "page.html", "-q")
    assert done.code == 0, done.err
    assert "scripted against demo: better at 1 of 2 tasks, worse at 0" in done.out
    page = (command.folder / "page.html").read_text()
    reports = list((command.folder / "page-runs").iterdir())
    assert len(reports) == 4
    assert all(f'href="page-runs/{report.name}"' in page for report in reports)
    assert "<script" not in page
    assert "<td>half · demo · 1</td><td>done</td><td>0.5</td><td>only half</td>" in page
    assert "environment/Dockerfile is not used" in page
    assert any("Write hello into" in report.read_text() for report in reports)


def test_the_gate_refuses_what_is_worse_than_the_baseline(command: Command) -> None:
    base = command.run("eval", "tasks", "--task", "hello", "-m", "scripted", "--json", "-q")
    (command.folder / "base.json").write_text(base.out)
    same = command.run("eval", "tasks", "--task", "hello", "-m", "scripted", "--baseline", "base.json")
    assert same.code == 0, same.err
    worse = command.run("eval", "tasks", "--task", "hello", "-m", "demo", "--baseline", "base.json")
    assert worse.code == 4
    assert "demo is worse than the baseline: pass@1 is 0.000, and was 1.000" in worse.err


def test_the_oracle_checks_the_tasks_themselves(command: Command) -> None:
    assert command.run("eval", "tasks", "--task", "hello", "--oracle", "-q").code == 0
    (command.folder / "tasks/hello/solution/solve.sh").write_text("true\n")
    wrong = command.run("eval", "tasks", "--task", "hello", "--oracle", "-q")
    assert wrong.code == 4
    assert "Some solutions do not pass" in wrong.err
    missing = command.run("eval", "tasks", "--oracle", "-q")
    assert missing.code == 2
    assert "The task half has no solution/solve.sh." in missing.err


def test_a_deleted_session_takes_its_workspace_with_it(command: Command) -> None:
    done = command.run("eval", "tasks", "--task", "hello", "-m", "scripted", "--json", "-q")
    session_id = json.loads(done.out)["tasks"][0]["runs"][0]["session_id"]
    workspace = command.folder / "data-evaluations" / session_id / "app"
    assert (workspace / "hello.txt").read_text() == "hello\n"
    listed = command.run("sessions", "list", "--json")
    assert [one["id"] for one in listed.lines] == [session_id]
    assert command.run("sessions", "show", f"{session_id}.check").code == 0
    assert command.run("sessions", "delete", session_id).code == 0
    assert command.run("sessions", "show", f"{session_id}.check").code != 0
    assert not workspace.parent.exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nowhere", "-m", "scripted"), 2, "There is no folder"),
        (("tasks", "-m", "demo", "--oracle"), 2, "--oracle runs no agent."),
        (("tasks", "-m", "scripted", "--task", "other"), 2, "The suite has no task other."),
        (("tasks", "-m", "scripted", "--baseline", "missing.json"), 2, "cannot be read"),
        (("tasks", "-m", "scripted", "--baseline", "tasks/hello/task.toml"), 2, "cannot be used"),
        (("tasks", "-m", "scripted", "--repeats", "100000"), 2, "--repeats is at most 1000"),
        (("tasks", "--agent", "no.such:agent"), 2, "There is no module no.such"),
        (("tasks", "--agent", "missing.toml"), 2, "missing.toml does not exist"),
        (("tasks", "-m", "scripted", "--html", "no/page.html"), 2, "There is no folder no for the page."),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    command: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    done = command.run("eval", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_wrong_script_is_told_with_its_path(command: Command) -> None:
    (command.folder / "tasks/hello/solution/script.json").write_text('[{"calls": [{"name": "x"}]}]')
    done = command.run("eval", "tasks", "-m", "scripted")
    assert done.code == 2
    assert "script.json: reply 1 is" in done.err


def test_the_named_model_replaces_the_model_of_an_agent(command: Command) -> None:
    (command.folder / "owned.py").write_text(
        "from sandbur import Agent\n"
        "from sandbur.testing import ScriptedModel\n"
        'agent = Agent(ScriptedModel(lambda request: "The model of the agent."))\n'
    )
    words = ("eval", "tasks", "--task", "half", "--agent", "owned:agent", "-q", "--json")
    own, demo = command.run(*words), command.run(*words, "-m", "demo")
    assert (own.code, demo.code) == (0, 0), demo.err
    results = [json.loads(done.out)["tasks"][0]["runs"][0]["result"] for done in (own, demo)]
    assert results[0] == "The model of the agent."
    assert results[1] != results[0]
