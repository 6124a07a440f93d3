"""A chat whose session other processes go on with: it notices, shows what happened, loses no word."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, say, stall
from support.screens.tmux_window import ASKS, DEAF_S, Terminal, open_terminal, wait
from support.stores.databases import DATABASES, fresh_url

from sandbur.ui.chat.input.composer import UNREAD_S


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Terminal]:
    """A second terminal in the same folder."""
    with open_terminal(tmp_path) as window:
        yield window


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with fresh_url(request.param, tmp_path) as fresh:
        yield fresh


def the_session(command: Command) -> str:
    (listed,) = command.run("sessions", "list", "--json").lines
    return str(listed["id"])


def asked(terminal: Terminal, what: str, **env: str) -> None:
    terminal.start(f"-m demo {what!r}", **env)
    terminal.see(ASKS)


def in_order(terminal: Terminal) -> None:
    """The chat goes on, and nothing went wrong in it."""
    terminal.see("/help")
    time.sleep(2 * UNREAD_S)  # what is typed before anybody can have read the news is kept
    terminal.type("run echo $((7000000+42))")
    terminal.see(ASKS, after="run echo")
    screen = terminal.screen()
    assert "exit=" not in screen
    assert "rror" not in screen


def test_an_approval_from_elsewhere_ends_the_question_and_is_shown(
    terminal: Terminal, command: Command, url: str
) -> None:
    env = {"SANDBUR_STORE": url, "SANDBUR_USER": "ann"}
    command.env |= env
    asked(terminal, "run touch made; echo $((7000000+42))", **env)
    assert command.run("approve", the_session(command), "--all", SANDBUR_USER="bob").code == 0
    screen = terminal.see("7000042")
    assert "approved by bob: shell touch made" in screen
    terminal.see("❯", after="7000042")
    assert screen.count("wants to run") == 1
    in_order(terminal)


def test_a_denial_from_elsewhere_is_shown_with_its_reason(terminal: Terminal, command: Command) -> None:
    asked(terminal, "run touch made")
    assert command.run("deny", the_session(command), "--all", "--reason", "not now").code == 3
    screen = terminal.see("denied by ")
    assert "not now" in screen
    in_order(terminal)
    assert not (terminal.folder / "made").exists()


def test_a_decision_that_was_only_recorded_is_carried_out(terminal: Terminal, command: Command) -> None:
    asked(terminal, "run touch made; echo $((7000000+42))")
    command.run("approve", the_session(command), "--all", "--record-only")
    screen = terminal.see("exit 0")
    assert "approved by" in screen
    assert (terminal.folder / "made").exists()
    in_order(terminal)


def test_a_question_that_somebody_else_reads_too_stays(
    terminal: Terminal, other: Terminal, command: Command
) -> None:
    asked(terminal, "run touch made; echo $((7000000+42))")
    other.start("-c")
    other.see(ASKS)
    terminal.see(ASKS)
    time.sleep(DEAF_S + 3)
    terminal.see(ASKS)
    terminal.keys("y")
    terminal.see("exit 0")
    other.see("approved by")
    other.see("7000042")
    in_order(other)


def test_a_message_to_a_session_that_went_on_stays_on_the_line(
    terminal: Terminal, other: Terminal, command: Command
) -> None:
    terminal.start("-m demo hello")
    terminal.see("model call")
    other.start("-c")
    other.see("Resumed: hello")
    other.see("/help")
    os.kill(terminal.pid(), signal.SIGSTOP)  # it does not see what happens meanwhile
    other.type("hello there")
    other.see("model call", after="hello there")
    terminal.type("my own words")
    os.kill(terminal.pid(), signal.SIGCONT)
    screen = terminal.see("❯ my own words", after="hello there")
    assert "exit=" not in screen
    time.sleep(2 * UNREAD_S)
    terminal.keys("Enter")
    terminal.see("model call", after="❯ my own words")
    in_order(terminal)
    assert "Error" not in terminal.screen()


def test_what_is_typed_stays_while_another_chat_goes_on(
    terminal: Terminal, other: Terminal, command: Command
) -> None:
    terminal.start("-m demo hello")
    terminal.see("model call")
    terminal.see("/help")
    terminal.keys("-l", "half a sen")
    terminal.see("half a sen")
    other.start("-c")
    other.see("/help")
    other.type("hello there")
    terminal.see("❯ hello there")
    terminal.see("❯ half a sen", after="hello there")
    terminal.keys("-l", "tence")
    terminal.see("❯ half a sentence", after="hello there")


def test_a_session_that_runs_elsewhere_keeps_the_message_until_it_ends(
    terminal: Terminal, command: Command
) -> None:
    terminal.start("-m demo -y hello")
    terminal.see("model call")
    terminal.see("/help")
    process = command.start(
        "-p", "run touch begun; while [ ! -e go ]; do sleep 0.1; done; echo $((7000000+42))", "-y",
        "-r", the_session(command),
    )  # fmt: skip
    try:
        wait((terminal.folder / "begun").exists, 60, lambda: "the run has not begun")
        terminal.see(f"is running in process {process.pid}")
        terminal.type("my own words")
        terminal.see("❯ my own words", after="kept on the line")
        (terminal.folder / "go").touch()
        process.communicate(timeout=120)
        terminal.see("❯ my own words", after="7000042")
        time.sleep(2 * UNREAD_S)
        terminal.keys("Enter")
        terminal.see("model call", after="❯ my own words")
        assert "exit=" not in terminal.screen()
    finally:
        process.kill()
        process.communicate(timeout=120)


def test_a_message_is_put_back_when_its_answer_is_interrupted(tmp_path: Path, terminal: Terminal) -> None:
    halts = stall(say("Half of an answer\n\n" * 12, pieces=12))
    with ModelServer([halts, halts, say("whole"), halts, say("yes")]) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        terminal.start("-m openai-chat/some", **env)
        terminal.see("/help")
        terminal.type("tell me a tale")
        for times in (1, 2):
            wait(lambda n=times: server.served == n, 120, terminal.screen)
            terminal.see("Half of an answer", after="tell me a tale")
            terminal.keys("C-c")
            wait(lambda n=times: terminal.screen().count("Interrupted.") == n, 120, terminal.screen)
            terminal.see("❯ tell me a tale", after="Nothing is lost")
            if times == 1:
                terminal.keys("Enter")
        terminal.keys("C-u")
        terminal.type("something else")
        terminal.see("whole", after="something else")
        terminal.see("/help")
        terminal.type("once more")
        terminal.see("Half of an answer", after="once more")
        terminal.keys("C-c")
        wait(lambda: terminal.screen().count("Interrupted.") == 3, 120, terminal.screen)
        terminal.see("❯ once more", after="Nothing is lost")
        terminal.close()
        terminal.start("-c", **env)
        terminal.see("Enter continues from there: the model is asked again")
        terminal.keys("Enter")
        screen = terminal.see("yes", after="Resumed: tell me a tale")
        recap = screen.rpartition("Resumed: ")[2]
        assert "Half of an answer" in recap
        assert "(interrupted)" in recap
        assert not server.rejections
        bodies = [request.raw.decode() for request in server.requests]
    # Enter on what was put back asks again and says nothing twice.
    said = ("tell me a tale", "[Interrupted by the user")
    assert [bodies[1].count(text) for text in said] == [1, 1]
    assert bodies[1].index("Half of an answer") < bodies[1].index("[Interrupted by the user")
    assert "something else" in bodies[2]


def test_a_draft_is_not_mixed_with_a_message_that_was_interrupted(terminal: Terminal) -> None:
    with ModelServer([stall(say("Half of an answer\n\n" * 12, pieces=12))]) as server:
        env = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
        terminal.start("-m openai-chat/some", **env)
        terminal.see("/help")
        terminal.type("tell me a tale")
        terminal.see("Half of an answer", after="tell me a tale")
        terminal.keys("-l", "my draft")
        terminal.see("❯ my draft", after="Half of an answer")
        terminal.keys("Escape")
        terminal.see("❯ my draft", after="Nothing is lost")


def test_a_message_from_elsewhere_is_sent_while_nobody_types(terminal: Terminal, command: Command) -> None:
    terminal.start("-m demo hello")
    terminal.see("model call")
    terminal.see("/help")
    assert command.run("steer", the_session(command), "run pwd").code == 0
    terminal.see("❯ run pwd")
    terminal.see("gave:", after="❯ run pwd")
    terminal.see("/help", after="gave:")
    terminal.keys("-l", "half a sen")
    terminal.see("half a sen")
    assert command.run("steer", the_session(command), "--queue", "run uname").code == 0
    time.sleep(3)
    assert "❯ run uname" not in terminal.screen()
    terminal.keys("-l", "tence")
    terminal.keys("Enter")
    terminal.see("❯ run uname", after="❯ half a sentence")
    terminal.see("gave:", after="❯ run uname")
