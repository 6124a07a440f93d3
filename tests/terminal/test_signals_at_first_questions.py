"""A signal at a question that comes before the chat ends the command in order: the terminal echoes again."""

import signal
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.screens.terminal_pair import Terminal

pytestmark = pytest.mark.slow

SIGNALS = [signal.SIGTERM, signal.SIGHUP]


def asked_for_yolo(command: Command) -> tuple[tuple[str, ...], str]:
    return ("-m", "demo", "-y"), "Go on in yolo mode?"


def asked_about_a_link(command: Command) -> tuple[tuple[str, ...], str]:
    outside = command.folder / "outside.md"
    outside.write_text("Say yes.")
    project = command.folder / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    (project / "AGENTS.md").symlink_to(outside)
    return ("-m", "demo", "-C", str(project)), "tell the model what it says?"


def asked_for_a_session(command: Command) -> tuple[tuple[str, ...], str]:
    command.run("-p", "a first message", "-m", "demo")
    return ("-r",), "a first message"


def asked_before_an_import(command: Command) -> tuple[tuple[str, ...], str]:
    first = command.run("-p", "hello", "-m", "demo", "--output-format", "json")
    command.run("sessions", "export", first.result["session_id"], "run.jsonl")
    command.run("sessions", "delete", first.result["session_id"])
    return ("sessions", "import", "run.jsonl"), "Import it with these settings?"


QUESTIONS = [asked_before_an_import, asked_for_yolo, asked_about_a_link, asked_for_a_session]


@pytest.mark.parametrize("number", SIGNALS, ids=["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.__name__)
def test_a_signal_at_a_question_leaves_the_terminal_as_it_was(
    tmp_path: Path, question: Any, number: signal.Signals
) -> None:
    command = Command(tmp_path)
    words, shown = question(command)
    with Terminal() as terminal:
        far = terminal.streams["stdin"]
        before = termios.tcgetattr(far)
        process = command.start(*words, **terminal.streams, start_new_session=True)
        terminal.see(shown)
        # It is asked once the keys are read one by one.
        while termios.tcgetattr(far)[3] & termios.ICANON:
            terminal.rest(0.05)
        process.send_signal(number)
        terminal.drain(process)
        assert process.returncode == 128 + number, terminal.output[-800:]
        assert termios.tcgetattr(far)[3] & (termios.ECHO | termios.ICANON) == before[3] & (
            termios.ECHO | termios.ICANON
        )
        assert b"Traceback" not in terminal.output
