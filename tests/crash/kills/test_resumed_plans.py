"""A plan that another process began: its steps keep their numbers and names, in every front end."""

from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, ToolCall, calls
from support.required import needs
from support.screens.tmux_window import Terminal

GOAL = "my web site is slow, find out why"
UTF8 = {"PYTHONUTF8": "1"}
RESULT = ("--output-format", "json")


@pytest.fixture
def session_id(command: Command) -> str:
    """Return a session whose plan waits for the approval of its first step's command."""
    waiting = command.run("-p", GOAL, "-m", "demo", *RESULT).result
    assert (waiting["status"], len(waiting["steps"])) == ("needs_approval", 3)
    return waiting["session_id"]


def test_an_approval_from_outside_tells_the_steps_by_number_and_name(
    command: Command, session_id: str
) -> None:
    told = command.run("approve", session_id, "--all", **UTF8).err
    assert "○ 2. Find out who listens" in told
    assert "Step 1/3: " in told
    assert "Step 2/3 · Find out who listens" in told


def test_a_recorded_decision_ends_with_0_inside_a_plan(command: Command, session_id: str) -> None:
    recorded = command.run("approve", session_id, "--all", "--record-only", *RESULT)
    assert (recorded.code, recorded.result["status"], recorded.result["pending"]) == (0, "interrupted", [])
    assert recorded.err.startswith("Recorded. ")
    assert "failed" not in recorded.err


def test_a_headless_resume_tells_the_steps_by_number_and_name(command: Command, session_id: str) -> None:
    command.run("deny", session_id, "--all", "--record-only")
    told = command.run("-p", "-r", session_id, **UTF8).err
    assert "Step 1/3: " in told
    assert "Step 2/3 · Find out who listens" in told


def test_the_stream_of_a_resumed_run_begins_with_the_plan_as_it_stands(
    command: Command, session_id: str
) -> None:
    lines = command.run("approve", session_id, "--all", "--output-format", "stream-json").lines
    assert [line["type"] for line in lines[:2]] == ["init", "plan"]
    steps = lines[1]["steps"]
    assert [(step["step_id"], step["status"]) for step in steps] == [
        ("1", "in_progress"), ("2", "pending"), ("3", "pending"),
    ]  # fmt: skip
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_message_that_ends_the_plan_does_not_tell_it_again(command: Command, session_id: str) -> None:
    lines = command.run("-p", "-r", session_id, "hello", "--output-format", "stream-json").lines
    assert "plan" not in [line["type"] for line in lines]


def test_one_of_two_decisions_can_be_recorded(command: Command) -> None:
    both = calls(*(ToolCall("run_shell_command", f'{{"command": "touch {name}"}}') for name in "ab"))
    with ModelServer([both]) as server:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        asked = command.run("-p", "go", "-m", "anthropic/claude-test", *RESULT, **keys).result
    first, second = (pending["call_id"] for pending in asked["pending"])
    recorded = command.run("approve", asked["session_id"], first, "--record-only", *RESULT)
    assert (recorded.code, recorded.result["status"]) == (0, "needs_approval")
    assert [pending["call_id"] for pending in recorded.result["pending"]] == [second]
    assert recorded.err.startswith("Recorded. ")
    assert second in recorded.err
    assert "Continue the run" not in recorded.err


def test_a_decision_that_does_not_fit_is_not_called_recorded(command: Command) -> None:
    asked = command.run("-p", "run touch one", "-m", "demo", *RESULT).result
    (command.folder / "edited.json").write_text('{"command": 7}')
    recorded = command.run("approve", asked["session_id"], "--edit", "edited.json", "--record-only", *RESULT)
    assert (recorded.code, recorded.result["status"]) == (3, "needs_approval")
    assert "Recorded" not in recorded.err


@needs("tmux")
def test_a_resumed_chat_tells_the_plan_once_and_its_steps_by_number(
    tmp_path: Path, command: Command, session_id: str
) -> None:
    command.run("approve", session_id, "--all", "--record-only")
    terminal = Terminal(tmp_path)
    try:
        terminal.start(f"-r {session_id}")
        terminal.see("Enter runs the approved calls that have not begun")
        terminal.keys("Enter")
        screen = terminal.see("▶ 2. Find out who listens", after="Step 1/3: ")
        told, _, _ = screen.partition("Step 1/3: ")
        assert told.count("2. Find out who listens") == 1
    finally:
        terminal.close()
        terminal.forget()
