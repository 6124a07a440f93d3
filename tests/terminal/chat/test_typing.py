"""What is typed while a run goes on, in a real terminal of three widths."""

import time

import pytest
from support.screens.tmux_window import ASKS, DEAF_S, Terminal, wait

from sandbur.ui.chat.input.keys import KEYS

ASKED = {"COLUMNS": "", "LINES": ""}
"""The terminal is asked for its size; what starts it may have set these."""
WAITS = "run until test -e go; do sleep 0.1; done; echo gone"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_typing_is_seen_at_once_steers_queues_and_comes_back(terminal: Terminal, width: int) -> None:
    terminal.start("-m demo -y", width=width, height=30, **ASKED)
    terminal.see("yolo ❯")
    terminal.type(WAITS)
    terminal.see("Enter steers")
    terminal.keys("-l", "a line that is longer than forty columns and is cut")
    wait(lambda: "columnsandiscut" in shown(terminal), 60, terminal.screen)
    assert all(len(row) <= width for row in terminal.screen().splitlines())
    terminal.keys("C-c")
    terminal.see("Enter steers")
    for text, key, shows in (
        ("hello one", "Enter", "steering: hello one"),
        ("hello two", "Tab", "queued: hello two"),
        ("hello three", "Tab", "queued: hello three"),
    ):
        terminal.keys("-l", text)
        terminal.keys(key)
        terminal.see(shows)
    terminal.keys("Up")
    terminal.see("❯ hello three", after="queued: hello two")
    terminal.keys("-l", "!")
    (terminal.folder / "go").touch()
    terminal.see("❯ hello one", after="exit 0")
    terminal.see("❯ hello two", after="❯ hello one")
    terminal.see("yolo ❯ hello three!", after="❯ hello two")
    assert "queued: " not in terminal.screen()


def shown(terminal: Terminal) -> str:
    """Return the screen without blanks: a line is cut anywhere."""
    return "".join(terminal.screen().split())


def test_escape_stops_the_run_and_what_waits_is_a_draft(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type(WAITS)
    terminal.see("Enter steers")
    terminal.keys("-l", "for later")
    terminal.keys("Tab")
    terminal.see("queued: for later")
    terminal.keys("-l", "half a")
    terminal.see("❯ half a", after="queued")
    terminal.keys("Escape")
    terminal.see("yolo ❯ for later", after="Interrupted.")
    terminal.see("half a", after="yolo ❯ for later")
    terminal.keys("C-c", "C-d")
    terminal.see("exit=0")


def test_what_was_queued_is_sent_after_a_crash(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type("run nice sleep 9871")
    terminal.see("Enter steers", after="shell nice sleep 9871")
    terminal.keys("-l", "hello after the crash")
    terminal.keys("Tab")
    terminal.see("queued: hello after the crash")
    terminal.kill()
    terminal.see("exit=137")
    terminal.close()
    terminal.start("-c -y")
    terminal.see("❯ hello after the crash")
    terminal.see("I am the demo", after="❯ hello after the crash")


def test_shift_tab_changes_the_mode_and_escape_twice_opens_rewind(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("hello first")
    terminal.see("❯", after="model call")
    _change_modes(terminal, "plan", "auto-edit", "interactive")
    terminal.type("/mode yolo")
    terminal.see("YOLO")
    _change_modes(terminal, "interactive", "plan", "auto-edit", "yolo", "interactive")
    terminal.keys("?")
    terminal.see("Ctrl-J")
    terminal.keys("Escape", "Escape")
    terminal.see("type to filter")
    terminal.keys("C-c")


def _change_modes(terminal: Terminal, *modes: str) -> None:
    for mode in modes:
        terminal.keys("BTab")
        terminal.see("YOLO" if mode == "yolo" else f"{mode} · demo")


def test_a_line_sent_before_the_prompt_is_up_is_sent_and_ctrl_j_begins_one(terminal: Terminal) -> None:
    terminal.start("-m demo", SANDBUR_MODE="interactive")
    terminal.type("run echo $((7000000+42))")
    terminal.see(ASKS)
    time.sleep(DEAF_S)
    terminal.keys("C-c")
    terminal.see("❯", after="Nothing is lost")
    terminal.keys("-l", "hello")
    terminal.keys("C-j")
    terminal.keys("-l", "world")
    terminal.see("world", after="❯ hello")
    assert "model call" not in terminal.screen().rpartition("❯ hello")[2]


def test_the_menu_and_the_list_of_keys_are_whole_at_the_foot_of_the_screen(terminal: Terminal) -> None:
    terminal.start(height=32, **ASKED)
    terminal.see("interactive · demo")
    for _ in range(2):
        terminal.keys("-l", "?")
        terminal.see("/          begins a command")
    terminal.keys("-l", "/")
    terminal.see("/permissions   list the rules")
    rows = terminal.screen().rstrip().splitlines()[-32:]
    assert all(any(row.startswith(key.label) for row in rows) for key in KEYS if key.at_prompt)
    menu = rows[rows.index("❯ /") + 1 : -1]
    assert len(menu) == 10
    assert all(row.lstrip().startswith("/") for row in menu)


def test_alt_t_shows_thinking_or_one_line_of_it_at_the_prompt_and_in_a_run(terminal: Terminal) -> None:
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.keys("M-t")
    terminal.see("Thinking is shown.")
    terminal.type(WAITS)
    terminal.see("Enter steers")
    terminal.keys("M-t")
    terminal.see("Thinking is summed up in one line.")
    terminal.see("Enter steers", after="Thinking is summed up in one line.")
    (terminal.folder / "go").touch()
    terminal.see("yolo ❯", after="exit 0")


HOLDS_THE_FIRST = "case $(cat) in *'message 1'*) until test -e seen; do sleep 0.05; done; esac"


def test_messages_that_are_sent_fast_are_read_in_their_order(terminal: Terminal) -> None:
    config = terminal.folder / ".config/sandbur/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[[hooks.UserPromptSubmit]]\nhooks = [{{type = "command", command = "{HOLDS_THE_FIRST}"}}]\n'
    )
    terminal.start("-m demo -y")
    terminal.see("yolo ❯")
    terminal.type(f"run touch begun; {WAITS.removeprefix('run ')}")
    wait((terminal.folder / "begun").exists, 60, terminal.screen)
    for number in (1, 2, 3):
        terminal.keys("-l", f"message {number}")
        terminal.keys("Enter")
    terminal.see("sending: message 3")
    (terminal.folder / "seen").touch()
    terminal.see("steering: message 3")
    (terminal.folder / "go").touch()
    screen = terminal.see("❯ message 3", after="exit 0")
    read = [screen.rindex(f"❯ message {number}") for number in (1, 2, 3)]
    assert read == sorted(read)
