"""Ctrl-Z and `fg` in a real terminal, from an interactive shell."""

import os
import signal
import time

import pytest
from support.required import needs
from support.screens.tmux_window import ASKS, DEAF_S, Terminal

pytestmark = needs("tmux", "bash")

SHELL = "shell>"
STOPPED = "Stopped"


def away(terminal: Terminal) -> None:
    """Let the shell print something while the chat is stopped, and bring the chat back."""
    terminal.see(SHELL, after=STOPPED)
    terminal.type("for word in from the shell; do echo said: $word; done")
    terminal.see("said: shell")
    terminal.type("fg")


def is_kept(screen: str) -> bool:
    """Tell whether all is there that bash has said: the stop, the words, and what it brings back."""
    said = ["said: from", "said: the", "said: shell"]
    places = [screen.rfind(word) for word in (STOPPED, *said)]
    return -1 not in places and places == sorted(places) and "> fg\nbash " in screen


@pytest.mark.parametrize("is_wrapped", [False, True], ids=["by itself", "in a script"])
def test_what_the_shell_printed_stays_when_the_prompt_comes_back(
    terminal: Terminal, is_wrapped: bool
) -> None:
    terminal.start_in_shell(is_wrapped=is_wrapped)
    terminal.see("interactive · demo")
    terminal.keys("-l", "run echo $((7000000+42))")
    terminal.keys("Escape", "Enter")
    terminal.keys("-l", "# more")
    terminal.see("# more")
    terminal.keys("C-z")
    away(terminal)
    terminal.see("# more", after="said: shell")
    assert is_kept(terminal.screen())
    terminal.keys("Enter")
    terminal.see(ASKS)


def test_what_the_shell_printed_stays_when_the_question_comes_back(terminal: Terminal) -> None:
    terminal.start_in_shell()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("C-z")
    away(terminal)
    terminal.see(ASKS, after="said: shell")
    assert is_kept(terminal.screen())
    assert not (terminal.folder / "made").exists()
    terminal.keys("y")
    terminal.see("model calls", after="said: shell")
    assert (terminal.folder / "made").exists()


@pytest.mark.parametrize("how", ["key", "key in a script", "signal"])
def test_what_the_shell_printed_stays_when_a_run_goes_on(terminal: Terminal, how: str) -> None:
    terminal.start_in_shell("-m demo -y", is_wrapped=how == "key in a script")
    terminal.see("yolo ❯")
    terminal.type("run until test -e go; do sleep 0.1; done")
    terminal.see("shell until")
    if how == "signal":
        os.kill(terminal.pid(), signal.SIGSTOP)
    else:
        terminal.keys("C-z")
    away(terminal)
    terminal.see("shell until", after="said: shell")
    terminal.keys("-l", "my draft")
    time.sleep(0.3)
    (terminal.folder / "go").touch()
    screen = terminal.see("yolo ❯ my draft", after="model calls")
    assert is_kept(screen)
    assert screen.count("my draft") == 1


def test_a_prompt_that_was_stopped_from_outside_comes_back(terminal: Terminal) -> None:
    terminal.start_in_shell()
    terminal.see("interactive · demo")
    terminal.keys("-l", "one")
    terminal.keys("Escape", "Enter")
    terminal.keys("-l", "two")
    terminal.see("two")
    os.kill(terminal.pid(), signal.SIGSTOP)
    away(terminal)
    terminal.see("two", after="said: shell")
    assert is_kept(terminal.screen())
    terminal.keys("-l", "three")
    terminal.see("twothree", after="said: shell")


def test_ctrl_z_without_a_shell_does_nothing(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.keys("C-z")
    terminal.type("run echo $((7000000+42))")
    terminal.see(ASKS)
