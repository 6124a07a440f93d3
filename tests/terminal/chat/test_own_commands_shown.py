"""A command behind a `!`, typed in a terminal: its output, its question, and what a kill leaves of it."""

import time

from support.screens.tmux_window import DEAF_S, Terminal, wait

COMMAND = "!printf 'made by %s\\n' me | tee made.txt"


def test_its_output_is_shown_and_the_model_is_not_asked(terminal: Terminal) -> None:
    terminal.start("-m demo")
    terminal.see("❯")
    terminal.type(COMMAND)
    terminal.see("made by me", after="exit 0")
    terminal.see("❯", after="exit 0")
    assert (terminal.folder / "made.txt").read_text() == "made by me\n"
    assert "Run it?" not in terminal.screen()
    terminal.type("!")
    terminal.see("There is no command behind the `!`.")
    terminal.type("hello")
    terminal.see("I am the demo", after="❯ hello")


def test_a_long_output_is_folded_and_comes_back(terminal: Terminal) -> None:
    terminal.start("-m demo")
    terminal.see("❯")
    terminal.type("!seq 1 60")
    terminal.see("Ctrl-O", after="shell")
    assert "41" not in [row.strip(" │") for row in terminal.screen().splitlines()]
    terminal.keys("C-o")
    terminal.see("Output is shown whole.")
    rows = [row.strip(" │") for row in terminal.screen().splitlines()]
    assert [row for row in rows if row in ("40", "41", "42")] == ["40", "41", "42"]


def test_a_rule_asks_about_it_and_no_ends_it(terminal: Terminal) -> None:
    terminal.start("-m demo --deny 'run_shell_command(sudo *)' ")
    terminal.see("❯")
    terminal.type("!sudo true")
    terminal.see("denied by rule run_shell_command(sudo *)")
    terminal.type("!rm -rf ~")
    terminal.see("it cannot be undone")
    terminal.see("Run it? [")
    time.sleep(DEAF_S)
    terminal.type("!ls")
    terminal.see("waits until the question is answered")
    terminal.see("Run it? [", after="waits until the question is answered")
    time.sleep(DEAF_S)
    terminal.keys("n")
    terminal.see("Denied by the user")


def test_it_waits_for_the_end_of_a_run(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type("run until test -e go; do sleep 0.1; done; echo gone")
    terminal.see("Enter steers")
    terminal.type("!echo after $((40 + 2))")
    terminal.see("queued: !echo after")
    (terminal.folder / "go").touch()
    terminal.see("after 42", after="shell echo after")


def test_after_a_kill_in_the_middle_a_person_says_what_came_of_it(terminal: Terminal) -> None:
    terminal.start("-m demo")
    terminal.see("❯")
    terminal.type("!echo begun; echo once >> made.txt; sleep 9872")
    terminal.see("begun", after="shell")
    wait((terminal.folder / "made.txt").exists, 60, terminal.screen)
    terminal.kill()
    terminal.see("exit=137")
    terminal.close()
    terminal.start("-c")
    terminal.see("What was the outcome? [")
    time.sleep(DEAF_S)
    terminal.keys("d")
    terminal.see("What the model should know")
    terminal.type("")
    terminal.see("❯", after="What the model should know")
    assert (terminal.folder / "made.txt").read_text() == "once\n"
    terminal.type("hello")
    terminal.see("I am the demo", after="❯ hello")


def test_what_a_markdown_command_wants_to_know_first_goes_through_the_gate(terminal: Terminal) -> None:
    commands = terminal.folder / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "look.md").write_text("hello !`echo found $1` !`touch made`")
    terminal.start("-m demo")
    terminal.see("❯")
    terminal.type("/look there")
    terminal.see("│ found there")
    terminal.see("Run it? [", after="found there")
    assert "$ touch made" in terminal.screen()
    time.sleep(DEAF_S)
    terminal.keys("n")
    terminal.see("is not sent: a shell command of its file did not run")
    terminal.type("/look again")
    terminal.see("Run it? [", after="found again")
    time.sleep(DEAF_S)
    terminal.keys("y")
    terminal.see("I am the demo", after="this command ran just now")
    assert (terminal.folder / "made").exists()
