"""The chat in a real terminal, with the shipped demo model and real commands."""

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_window import ASKS, DEAF_S, Terminal, wait

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    window = Terminal(tmp_path)
    yield window
    window.close()
    window.forget()


def test_a_command_runs_after_approval_and_its_answer_is_shown(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run echo $((40+2))")
    screen = terminal.see(ASKS)
    assert "$ echo $((40+2))" in screen
    assert "42" not in screen
    time.sleep(DEAF_S)
    terminal.keys("y")
    screen = terminal.see("exit 0")
    assert "❯ yes, once" in screen
    assert "42" in screen
    terminal.see("model calls")


def test_a_denied_command_does_not_run_and_the_model_reads_why(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("r")
    terminal.see("Reason:")
    terminal.type("not in this folder")
    terminal.see("Denied by the user: not in this folder.")
    assert not (terminal.folder / "made").exists()


def test_always_is_asked_once(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch one")
    terminal.see("always in this session: run_shell_command(touch one)")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("a")
    terminal.see("exit 0")
    terminal.see("❯", after="model calls")
    (terminal.folder / "one").unlink()
    terminal.type("run touch one")
    wait((terminal.folder / "one").exists, 5, terminal.screen)
    assert terminal.screen().count("yes, once") == 1


def test_keys_typed_before_the_question_approve_nothing(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.keys("-l", "run touch made")
    terminal.keys("Enter", "y", "y")
    terminal.see(ASKS)
    time.sleep(0.5)
    assert ASKS in terminal.screen()
    assert not (terminal.folder / "made").exists()


def test_ctrl_c_leaves_the_question_open_at_once(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    began = time.monotonic()
    terminal.keys("C-c")
    screen = terminal.see("Nothing is lost")
    assert time.monotonic() - began < 5
    assert "WARNING" not in screen


def test_yolo_shows_in_the_prompt_and_runs_unasked(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("/mode yolo")
    terminal.see("yolo ❯")
    terminal.see("YOLO")
    terminal.type("run touch made")
    terminal.see("exit 0")
    assert (terminal.folder / "made").exists()
    assert ASKS not in terminal.screen()


def test_exit_says_how_to_come_back(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("/help")
    terminal.type("hello")
    terminal.see("model call")
    terminal.type("/exit")
    screen = terminal.see("exit=0")
    assert re.search(r"Resume with: sandbur -r [0-9a-f-]{36}", screen)


def test_the_picker_finds_a_session_by_its_title(terminal: Terminal) -> None:
    for goal in ("hello there", "what is in this folder"):
        terminal.start(f"-m demo {shlex.quote(goal)}")
        terminal.see("model call")
        terminal.close()
    terminal.start("-r")
    terminal.see("2 of 2")
    terminal.keys("-l", "hello")
    terminal.see("1 of 2")
    terminal.keys("Enter")
    terminal.see("Resumed: hello there")


def test_a_plan_is_shown_step_by_step(terminal: Terminal) -> None:
    terminal.start("-m demo -y 'my web site is slow, find out why'", height=60)
    screen = terminal.see("I am the demo", seconds=15)
    assert "○ 1." in screen
    assert "✓ Step 1/" in screen
    assert screen.index("Step 1/") < screen.index("Step 2/")
