"""Coming back in a real terminal: to a call whose outcome nobody knows, and to an earlier step."""

import json
import re
import time
import uuid

from support.commands.command import Command
from support.commands.killed import effects, kill_in_command
from support.screens.tmux_window import ASKS, DEAF_S, Terminal, wait

SETTLES = "What was the outcome? ["
BACK = "Bring back what? ["


def press(terminal: Terminal, key: str) -> None:
    time.sleep(DEAF_S)
    terminal.keys(key)


def answered(terminal: Terminal, times: int = 1) -> None:
    """Wait until so many turns are over and the next message can be typed."""
    wait(lambda: terminal.screen().count("model call") == times, 8, terminal.screen)
    terminal.see("❯", after="model call")


def go_back(terminal: Terminal, how: str, key: str) -> tuple[str, str]:
    """Rewind; return the ids of the new session and of the one before."""
    terminal.type(how)
    terminal.see(BACK)
    press(terminal, key)
    terminal.see("The chat continues in")
    screen = terminal.see("The chat continues in")
    ids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", screen.replace("\n", " "))
    return ids[-2], ids[-1]


def test_a_call_that_was_running_at_the_crash_is_settled_in_the_chat(
    terminal: Terminal, command: Command
) -> None:
    session_id = kill_in_command(command)
    terminal.start(f"-r {session_id}")
    screen = terminal.see(SETTLES)
    assert "still runs:    nothing of it" in screen
    assert "effects" in screen.partition("changed since:")[2]
    assert "was running when the process died; its outcome is unknown" in screen
    assert "half" in screen
    assert "started: 2" in screen
    press(terminal, "i")
    terminal.see(SETTLES, after="❯ inspect: all output")
    press(terminal, "d")
    terminal.see("What the model should know")
    terminal.type("I looked: xyzzy")
    terminal.see("model call")
    assert "xyzzy" in terminal.screen()
    assert effects(command) == 1


def test_a_session_entered_from_the_chat_asks_or_says_what_enter_does(
    terminal: Terminal, command: Command
) -> None:
    ended = command.run("-p", "run touch made; sleep 1", "-m", "demo", "--output-format", "json")
    dead = kill_in_command(command)
    stopped = str(uuid.uuid4())
    command.run("-p", "hello", "-m", "demo", "--session-id", stopped, SANDBUR_CRASH_AT="store_after_commit:1")
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type(f"/resume {stopped} ")
    screen = terminal.see("A message starts a new turn")
    assert "It stopped while the model was answering." in screen
    assert "Enter continues from there" in screen
    assert "model call" not in screen
    terminal.keys("Enter")
    answered(terminal)
    terminal.type(f"/resume {dead} ")
    terminal.see(SETTLES)
    press(terminal, "C-c")
    terminal.see("Nothing is lost")
    terminal.type(f"/resume {ended.result['session_id']} ")
    terminal.see(ASKS)
    press(terminal, "n")
    answered(terminal, 2)
    assert not (terminal.folder / "made").exists()


def test_ctrl_c_leaves_the_outcome_open_and_enter_asks_again(terminal: Terminal, command: Command) -> None:
    session_id = kill_in_command(command)
    terminal.start(f"-r {session_id}")
    terminal.see(SETTLES)
    press(terminal, "C-c")
    terminal.see("Nothing is lost")
    terminal.keys("Enter")
    terminal.see(SETTLES, after="Nothing is lost")
    assert effects(command) == 1


def test_rewind_goes_on_in_front_of_a_message_with_the_message_as_a_draft(
    terminal: Terminal, command: Command
) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("hello first")
    answered(terminal)
    terminal.type("hello second")
    answered(terminal, 2)
    terminal.type("/rewind")
    screen = terminal.see("2 of 2; type to filter")
    assert "hello first" in screen.partition("Go back to before which message?")[2]
    assert "I am the demo" not in screen.partition("Go back to before which message?")[2]
    terminal.keys("-l", "second")
    terminal.see("1 of 2; type to filter")
    terminal.see("you: hello second")
    terminal.see("No file was changed since.")
    terminal.keys("Enter")
    terminal.see(BACK)
    press(terminal, "c")
    terminal.see("The chat continues in")
    terminal.see("❯ hello second", after="The chat continues in")
    terminal.keys("-l", " and third")
    terminal.keys("Enter")
    answered(terminal, 3)
    listed = command.run("sessions", "list", "--json").lines
    new, old = (json.loads(command.run("sessions", "show", s["id"], "--json").out) for s in listed)
    assert [m["blocks"][0]["text"] for m in new["messages"] if m["origin"] == "person"] == [
        "hello first", "hello second and third",
    ]  # fmt: skip
    assert [m["blocks"][0]["text"] for m in old["messages"] if m["origin"] == "person"] == [
        "hello first", "hello second",
    ]  # fmt: skip
    assert new["parent_id"] == old["id"]


def test_rewind_brings_the_files_back_when_asked_to(terminal: Terminal) -> None:
    file = terminal.folder / "a.txt"
    file.write_text("before\n")
    terminal.start("-m demo --yolo")
    terminal.see("YOLO")
    terminal.type("replace before with after in a.txt")
    answered(terminal)
    assert file.read_text() == "after\n"
    new, old = go_back(terminal, "/rewind 0", "f")
    assert new != old
    screen = "".join(terminal.screen().split())  # a long path is wrapped anywhere
    assert f"restored:{file}" in screen
    assert file.read_text() == "before\n"
    terminal.see("❯ replace before", after="The chat continues in")


def test_rewind_to_a_step_goes_on_after_it(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("run touch made")
    terminal.see(ASKS)
    press(terminal, "n")
    answered(terminal)
    go_back(terminal, "/rewind 1", "c")
    terminal.keys("Enter")
    terminal.see(ASKS, after="The chat continues in")
    press(terminal, "y")
    terminal.see("exit 0", after="The chat continues in")
    assert (terminal.folder / "made").exists()


def test_a_rewind_can_be_left(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("/rewind")
    terminal.see("There are no messages yet.")
    terminal.type("hello first")
    answered(terminal)
    terminal.type("/rewind 99")
    terminal.see("There is no step 99.")
    terminal.type("/rewind")
    terminal.see("type to filter")
    terminal.keys("C-c")
    terminal.type("/rewind 0")
    terminal.see(BACK)
    press(terminal, "C-c")
    terminal.see("left open")
    terminal.type("hello again")
    answered(terminal, 2)


def test_help_lists_rewind(terminal: Terminal) -> None:
    terminal.start()
    terminal.see("interactive · demo")
    terminal.type("/help")
    terminal.see("go back to an earlier step")
