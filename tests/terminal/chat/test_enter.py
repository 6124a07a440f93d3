"""Enter is never taken for Ctrl-J, however slowly the program changes the modes of its terminal.

strace lets every ioctl return late, and so every change of these modes: a moment in which Enter would be
translated lasts long enough to be hit.
"""

import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from support.commands.command import Command
from support.required import require
from support.screens.terminal_pair import Terminal as Pair

from sandbur.agent.config.data_folder import acknowledge

LATE = ("strace", "-f", "-qq", "-e", "trace=ioctl", "-e", "inject=ioctl:delay_exit=5000", "-o", "/dev/null")
"""In microseconds."""


@pytest.fixture
def slow(command: Command) -> Iterator[Pair]:
    """Lend a terminal with a chat at its prompt whose changes of the terminal's modes take long."""
    require("strace")
    env = {**command.env, "TERM": "xterm", "PYTHONUTF8": "1", "PROMPT_TOOLKIT_NO_CPR": "1"}
    with Pair() as pair:
        acknowledge(command.folder / "data")
        line = [*LATE, *command.line("-m", "demo", "-y")]
        chat = subprocess.Popen(line, cwd=command.folder, env=env, start_new_session=True, **pair.streams)
        try:
            pair.see("❯")
            yield pair
        finally:
            pair.close()
            chat.wait(timeout=120)


def press_enter_when_it_is_translated(pair: Pair, seconds: float = 1) -> None:
    """Type Enter as soon as the terminal makes Ctrl-J of it, at the latest after some time."""
    end = time.monotonic() + seconds
    while not pair.modes[0] & termios.ICRNL and time.monotonic() < end:
        time.sleep(0.0005)
    pair.type("\r")


@pytest.mark.parametrize("key", ["\x14", "\x1b[Z"], ids=["the plan is shown", "the mode is changed"])
def test_an_enter_that_is_typed_while_something_is_shown_above_the_prompt_sends_the_message(
    slow: Pair, key: str
) -> None:
    slow.type("hello there")
    slow.see("hello there")
    slow.type(key)
    press_enter_when_it_is_translated(slow)
    slow.see("I am the demo")


def test_an_enter_that_is_typed_before_the_run_reads_keys_sends_the_second_message(slow: Pair) -> None:
    slow.type("run sleep 2\rhello there")
    press_enter_when_it_is_translated(slow)
    slow.see("\x1b[1m❯ hello there")
