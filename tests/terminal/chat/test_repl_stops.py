"""Whatever stops a chat in a real terminal: Ctrl-C, signals, kill -9; and terminals that can do little."""

import os
import signal
import time

import pytest
from support.commands.command import Command
from support.screens.tmux_window import ASKS, DEAF_S, Terminal, is_running, wait

NAP = f"sleep 9874.{os.getpid()}"
ASKED = f"nice {NAP}"
"""In interactive mode this one asks."""


def test_ctrl_c_stops_the_command_and_not_the_chat(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type(f"run {NAP}")
    terminal.see(f"shell {NAP} 0.")
    terminal.keys("C-c")
    terminal.see("Interrupted.")
    terminal.see("yolo ❯", after="Interrupted.")
    wait(lambda: not is_running(NAP), 3, lambda: "the command still runs")
    terminal.type("run echo still here")
    terminal.see("exit 0")


def test_a_draft_typed_during_a_run_survives_escape(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type(f"run {NAP}")
    terminal.see(f"shell {NAP} 0.")
    terminal.keys("-l", "my draft")
    terminal.see("❯ my draft", after=NAP)
    terminal.keys("Escape")
    terminal.see("yolo ❯ my draft", after="Interrupted.")


def test_a_line_typed_during_a_run_waits_as_a_draft(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type("run sleep 1; echo $((7000000+42))")
    terminal.see("shell sleep 1")
    terminal.keys("-l", "rin")
    terminal.keys("BSpace", "BSpace", "Left", "Right")
    terminal.keys("-l", "un touch made")
    screen = terminal.see("run touch made", after="model calls")
    assert "exit 0" in screen
    time.sleep(0.5)
    assert not (terminal.folder / "made").exists()
    terminal.keys("Enter")
    wait((terminal.folder / "made").exists, 5, terminal.screen)


def test_a_session_that_runs_elsewhere_is_not_said_to_go_on(terminal: Terminal) -> None:
    command = Command(terminal.folder)
    process = command.start("-p", f"run touch begun; {NAP}", "-m", "demo", "-y")
    try:
        wait((terminal.folder / "begun").exists, 120, lambda: "the run has not begun")
        terminal.start("-c")
        screen = terminal.see("is running in process")
        assert "goes on from there" not in screen
    finally:
        process.kill()
        process.communicate(timeout=120)
    terminal.close()
    terminal.start("-c")
    screen = terminal.see("Enter checks the outcome")
    assert "In the middle: shell touch begun" in screen
    assert "execute_tools" not in screen


def test_a_killed_chat_goes_on_from_the_same_action(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run echo $((7000000+42))")
    terminal.see(ASKS)
    os.kill(terminal.pid(), signal.SIGKILL)
    terminal.see("exit=137")
    terminal.close()
    terminal.start("-c")
    screen = terminal.see(ASKS)
    assert "Resumed: run echo $((7000000+42))" in screen
    assert "Waits for your decision" in screen
    time.sleep(DEAF_S)
    terminal.keys("y")
    assert "7000042" in terminal.see("exit 0")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("place", ["prompt", "question", "command"])
def test_a_signal_ends_the_chat_in_order(
    terminal: Terminal, number: signal.Signals, code: int, place: str
) -> None:
    terminal.start("-m demo" + (" -y" if place == "command" else ""))
    terminal.see("demo")
    terminal.see("/help")
    if place != "prompt":
        terminal.type(f"run {ASKED if place == 'question' else NAP}")
        terminal.see(ASKS if place == "question" else f"{NAP} 0.")
    os.kill(terminal.pid(), number)
    screen = terminal.see(f"exit={code}")
    assert "Traceback" not in screen
    assert ("Resume with: sandbur -r " in screen) == (place != "prompt")
    wait(lambda: not is_running(NAP), 3, lambda: "the command still runs")


def test_ctrl_c_twice_leaves_with_130_and_ctrl_d_with_0(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("/help")
    terminal.keys("C-c")
    terminal.see("Press Ctrl-C again")
    terminal.keys("C-c")
    terminal.see("exit=130")
    terminal.close()
    terminal.start()
    terminal.see("/help")
    terminal.keys("C-d")
    terminal.see("exit=0")


def test_a_resized_terminal_goes_on(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type("run for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done")
    for width, height in ((1, 1), (30, 10), (200, 60), (80, 24)):
        terminal.resize(width, height)
        time.sleep(0.2)
    terminal.see("model calls")
    terminal.see("❯", after="model calls")
    terminal.type("/help")
    terminal.see("/mode [MODE]")


@pytest.mark.parametrize(
    "env",
    [
        {"TERM": "dumb"},
        {"SANDBUR_PLAIN": "1"},
        {"NO_COLOR": "1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX"},
    ],
    ids=["dumb", "plain", "no colour", "ascii", "posix"],
)
def test_a_poor_terminal_is_enough(terminal: Terminal, env: dict[str, str]) -> None:
    terminal.start("-m demo", **env)
    terminal.see("Sandbur")
    time.sleep(0.5)
    terminal.type("run echo $((7000000+42))")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("Enter", "C-d")
    terminal.see("Nothing is lost", after="left open")
    terminal.keys("Enter")
    terminal.see(ASKS, after="Nothing is lost")
    time.sleep(DEAF_S)
    terminal.keys("C-c")
    wait(lambda: terminal.screen().count("Nothing is lost") == 2, 60, terminal.screen)
    terminal.keys("Enter")
    wait(lambda: terminal.screen().count("[e] edit") == 3, 60, terminal.screen)
    terminal.see(ASKS, after="[e] edit")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see("7000042", after="exit 0")
    terminal.see("model calls")
    terminal.type("/exit")
    assert "Traceback" not in terminal.see("exit=0")
