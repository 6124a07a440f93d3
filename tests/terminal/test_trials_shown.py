"""`/try` in a real terminal: a trial takes the place of the chat, which goes on with its changes."""

import time
from pathlib import Path

import pytest
from support.screens.tmux_window import DEAF_S, Terminal, wait

from sandbur.agent.review.trials.trial import list_trials

ASKS = "What becomes of the changes? ["


@pytest.fixture
def workspace(terminal: Terminal) -> Path:
    folder = terminal.folder / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def begin(terminal: Terminal, workspace: Path, task: str, more: str = "") -> None:
    terminal.start(f"-m demo -C {workspace} {more}")
    terminal.see("interactive · demo" if not more else "❯")
    terminal.type(f"/try {task}")
    terminal.see("auto-edit · demo", after="The copy is")


def test_a_trial_is_run_decided_and_taken_back_in_the_chat(terminal: Terminal, workspace: Path) -> None:
    begin(terminal, workspace, "write two into a.txt")
    terminal.see("auto-edit · demo", after="model calls")
    assert (workspace / "a.txt").read_text() == "one\n"
    terminal.type("/exit")
    terminal.see(ASKS)
    assert "+two" in terminal.screen()
    time.sleep(DEAF_S)
    terminal.keys("a")
    terminal.see("1 file changed", after="apply them")
    assert (workspace / "a.txt").read_text() == "two\n"
    terminal.see("interactive · demo", after="1 file changed")
    terminal.type("/undo")
    terminal.see("Bring them back? [")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see("The model is informed.")
    assert (workspace / "a.txt").read_text() == "one\n"


def test_ctrl_c_in_a_trial_reaches_only_its_run(terminal: Terminal, workspace: Path) -> None:
    begin(terminal, workspace, "run until test -e go; do sleep 0.1; done", "--allow run_shell_command")
    terminal.see("Enter steers", after="The copy is")
    terminal.keys("C-c")
    terminal.see("Nothing is lost", after="The copy is")
    terminal.type("/exit")
    terminal.see("changed no files.")
    terminal.type("hello")
    terminal.see("I am the demo", after="❯ hello")


def test_a_trial_ends_with_its_chat(terminal: Terminal, workspace: Path) -> None:
    begin(terminal, workspace, "write two into a.txt")
    terminal.see("auto-edit · demo", after="model calls")
    terminal.kill()
    [trial] = list_trials(terminal.folder / "data")
    wait(lambda: list_trials(terminal.folder / "data")[0].state == "ended", 60, terminal.screen)
    assert trial.task == "write two into a.txt"
