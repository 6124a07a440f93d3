"""What stands on the screen of a chat, at three widths, and read aloud."""

import time

import pytest
from support.screens.tmux_window import ASKS, DEAF_S, Terminal


def last_row(screen: str) -> str:
    return screen.rstrip().splitlines()[-1]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_status_line_the_plan_and_folded_output_fit_the_window(terminal: Terminal, width: int) -> None:
    terminal.start("-y demo", width=width, height=50)
    screen = terminal.see("/help", after="model calls")
    assert last_row(screen).startswith("YOLO")
    assert ("no sandbox" in last_row(screen)) == (width > 80)
    assert screen.count("\nPlan") == 1
    assert all(f"✓ {number}." in screen for number in (1, 2, 3))
    assert "lines, Ctrl-O or /expand" in screen
    assert "running" not in last_row(screen)
    terminal.keys("C-t")
    assert terminal.see("3. Check", after="model calls").count("\nPlan") == 2
    terminal.keys("C-o")
    terminal.see("Filesystem", after="model calls")
    terminal.see("/help", after="Output is shown whole.")


def test_at_a_question_ctrl_o_and_ctrl_t_answer_nothing(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("C-o", "C-t", "y")
    terminal.see("exit 0")


def test_for_a_screen_reader_nothing_moves_and_words_stand_for_signs(terminal: Terminal) -> None:
    terminal.start("--plain -y demo", width=80, height=50)
    screen = terminal.see("YOLO", after="model calls")
    assert screen.isascii()
    assert "to do: 3. Check" in screen
    assert "done: shell" in screen
