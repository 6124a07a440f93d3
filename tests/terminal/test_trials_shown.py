"""`/try` in a real terminal: a trial takes the place of the chat, which goes on with its changes."""

import re
import time
from collections.abc import Callable
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
    waits = "run echo be''gun; until test -e go; do sleep 0.1; done"
    begin(terminal, workspace, waits, "--allow run_shell_command")
    terminal.see("begun")
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


def leave_by_command(terminal: Terminal) -> None:
    terminal.type("/exit")


def leave_by_end_of_input(terminal: Terminal) -> None:
    terminal.keys("C-d")


def leave_by_two_interrupts(terminal: Terminal) -> None:
    terminal.keys("C-c", "C-c")


@pytest.mark.parametrize(
    ("rendering", "leave", "key", "says", "text"),
    [
        ("drawn", leave_by_command, "a", "Applied", "two\n"),
        ("drawn", leave_by_two_interrupts, "x", "is removed.", "one\n"),
        ("plain", leave_by_end_of_input, "x", "is removed.", "one\n"),
        ("plain", leave_by_two_interrupts, "a", "Applied", "two\n"),
        ("dumb", leave_by_two_interrupts, "k", "sandbur try apply", "one\n"),
        ("dumb", leave_by_command, "a", "Applied", "two\n"),
    ],
)
def test_who_leaves_a_trial_decides_with_one_key(
    terminal: Terminal,
    workspace: Path,
    rendering: str,
    leave: Callable[[Terminal], None],
    key: str,
    says: str,
    text: str,
) -> None:
    line = f"-C {workspace} -m demo {'--plain ' * (rendering == 'plain')}try 'write two into a.txt'"
    terminal.start(line, TERM="dumb" if rendering == "dumb" else "screen")
    terminal.see("trial >" if rendering == "plain" else "trial ❯", after="model calls")
    leave(terminal)
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys(key)
    _, *after = terminal.see("exit=").split("[k] keep them for later\n")
    assert len(after) == 1, "the question was asked twice"
    assert says in after[0]
    assert (workspace / "a.txt").read_text() == text
    assert len(list_trials(terminal.folder / "data")) == (key != "x")


def test_a_trial_that_was_kept_asks_again_when_it_is_resumed_and_left(
    terminal: Terminal, workspace: Path
) -> None:
    terminal.start(f"-C {workspace} -m demo try 'write two into a.txt'")
    terminal.see("trial ❯", after="model calls")
    terminal.type("/exit")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("Escape")
    terminal.see("exit=0")
    [trial] = list_trials(terminal.folder / "data")
    terminal.close()
    terminal.start(f"-C {workspace} -r {trial.id}")
    terminal.see("trial ❯")
    terminal.type("/exit")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("a")
    terminal.see("exit=0")
    assert (workspace / "a.txt").read_text() == "two\n"


def test_a_trial_is_marked_in_the_prompt_and_in_the_status_line(terminal: Terminal, workspace: Path) -> None:
    waits = "run echo be''gun; until test -e go; do sleep 0.1; done"
    begin(terminal, workspace, waits, "--allow run_shell_command")
    terminal.see("begun")
    terminal.see("trial · auto-edit · demo", after="Enter steers")
    magenta = r"\x1b\[[\d;]*35m(?:\x1b\[[\d;]*m)*"
    wait(lambda: bool(re.search(f"{magenta}❯", terminal.read_colours())), 60, terminal.read_colours)
    terminal.keys("C-c")
    terminal.see("trial · auto-edit · demo", after="Nothing is lost")
    wait(lambda: bool(re.search(f"{magenta}trial ❯", terminal.read_colours())), 60, terminal.read_colours)


def test_a_trial_of_a_plain_chat_is_plain(terminal: Terminal, workspace: Path) -> None:
    terminal.start(f"-m demo -C {workspace} --plain")
    terminal.see(f"Sandbur - {workspace}")
    terminal.type("/try write two into a.txt")
    terminal.see("trial >", after="trial - auto-edit - demo")
    terminal.keys("C-d")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("a")
    terminal.see("1 file changed", after="> apply them")
    assert (workspace / "a.txt").read_text() == "two\n"
