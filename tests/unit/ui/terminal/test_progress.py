"""The line that says how far a long command is: where it is drawn, and that nothing of it stays."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT
from support.screens.screen import Screen
from support.screens.terminal_pair import Terminal

from sandbur.ui.terminal.live import ProgressLine

STEPS = """
import sys
from sandbur.ui.terminal.live import ProgressLine
{before}
with ProgressLine("Replaying step", 5000, delay_s={delay_s}) as progress:
    for number in range(1, 3001):
        progress.show(number)
print("That is all.")
"""
ENDLESS = """
import itertools
from sandbur.ui.terminal.live import ProgressLine
from sandbur.ui.terminal.standard_output import exit_on_signals
with exit_on_signals(), ProgressLine("Replaying step", 10**9, delay_s=0) as progress:
    for number in itertools.count(1):
        progress.show(number)
"""


@pytest.fixture
def terminal() -> Terminal:
    return Terminal(rows=20, columns=40)


def start(command: Command, script: str, terminal: Terminal, **more: Any) -> "subprocess.Popen[bytes]":
    streams = {**terminal.streams, **more}
    env = {**command.env, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=command.folder, env=env, start_new_session=True, **streams
    )


def shown_by(command: Command, script: str, terminal: Terminal, **more: Any) -> str:
    """Run a script at a terminal until it has ended; return all that it wrote there."""
    with terminal:
        process = start(command, script, terminal, **more)
        terminal.drain(process)
        terminal.rest(0.1)
    assert process.returncode == 0, terminal.output
    return terminal.output.decode()


def screen_of(shown: str) -> list[str]:
    screen = Screen(40, 20)
    screen.feed(shown)
    return screen.text


def steps(before: str = "", delay_s: float = 0) -> str:
    return STEPS.format(before=before, delay_s=delay_s)


def test_a_terminal_shows_how_far_it_is_and_nothing_stays(command: Command, terminal: Terminal) -> None:
    shown = shown_by(command, steps(), terminal)
    assert shown.startswith("\rReplaying step 1 of 5,000\x1b[K")
    assert screen_of(shown) == ["That is all."]


def test_the_line_is_as_long_as_the_terminal_has_room_for(command: Command) -> None:
    shown = shown_by(command, steps(), narrow := Terminal(rows=20, columns=20))
    assert shown.startswith("\rReplaying step 1 o…\x1b[K"), narrow.output


def test_what_takes_no_time_shows_nothing(command: Command, terminal: Terminal) -> None:
    assert shown_by(command, steps(delay_s=1e6), terminal) == "That is all.\r\n"


def test_plain_words_are_never_redrawn(command: Command, terminal: Terminal) -> None:
    plain = "from sandbur.ui.terminal.text.theme import appear; appear('dark', True)"
    assert shown_by(command, steps(plain), terminal) == "That is all.\r\n"


def test_a_program_that_reads_the_output_has_the_screen_for_itself(
    command: Command, terminal: Terminal
) -> None:
    near, far = os.pipe()
    with os.fdopen(near), os.fdopen(far, "wb") as pipe:
        assert shown_by(command, steps(), terminal, stdout=pipe) == ""


def test_an_output_that_goes_into_a_file_shows_how_far_it_is(
    command: Command, terminal: Terminal, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as out:
        shown = shown_by(command, steps(), terminal, stdout=out)
    assert "Replaying step 1 of 5,000" in shown
    assert screen_of(shown) == []
    assert (tmp_path / "out").read_text() == "That is all.\n"


def test_what_is_no_terminal_gets_nothing() -> None:
    out = StringIO()
    with ProgressLine("Checking session", 3, delay_s=0, file=out) as progress:
        for number in range(1, 4):
            progress.show(number)
    assert out.getvalue() == ""


def test_the_line_is_drawn_at_most_ten_times_a_second(command: Command, terminal: Terminal) -> None:
    timed = (
        "import time; began = time.monotonic()\n"
        "import atexit; atexit.register(lambda: print(f'took={time.monotonic() - began}'))"
    )
    shown = shown_by(command, steps(timed), terminal)
    seconds = float(shown.partition("took=")[2])
    assert 1 <= shown.count("Replaying step") <= 1 + seconds * 10


def test_ctrl_c_leaves_a_clean_line_and_its_exit_code(command: Command, terminal: Terminal) -> None:
    with terminal:
        process = start(command, ENDLESS, terminal)
        terminal.see("Replaying step 1 of 1,000,000,000")
        terminal.type("\x03")
        terminal.drain(process)
        terminal.rest(0.1)
    assert process.returncode == 130
    assert screen_of(terminal.output.decode().replace("^C", "")) == []
