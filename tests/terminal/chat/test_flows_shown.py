"""Flows in a terminal: their answers, their list, and the question about what they call."""

import time

from support.screens.tmux_window import DEAF_S, Terminal

CONFIG = """
[flows.hours]
exact = "opening hours"
reply = "Nine to five, every day."
description = "when we are open"

[flows.work]
prefix = "please make"
tool = "run_shell_command"
arguments = { command = "printf 'made %s\\\\n' it | tee made.txt" }
answer = "It is there: {result}"
failure = "It was not made."
"""


def begin(terminal: Terminal) -> None:
    place = terminal.folder / ".config" / "sandbur"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(CONFIG)
    terminal.start("-m demo")
    terminal.see("❯")


def test_an_answer_says_which_flow_gave_it(terminal: Terminal) -> None:
    begin(terminal)
    terminal.type("Opening hours?")
    terminal.see("Nine to five, every day.", after='Flow hours: the text "opening hours".')
    terminal.type("/flow")
    terminal.see("when we are open")
    terminal.type("/flow nope")
    terminal.see("There is no flow 'nope'")


def test_what_a_flow_would_run_is_asked_about(terminal: Terminal) -> None:
    begin(terminal)
    terminal.type("please make it")
    terminal.see("Run it? [")
    assert not (terminal.folder / "made.txt").exists()
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see("It is there: made it")
    assert (terminal.folder / "made.txt").read_text() == "made it\n"
