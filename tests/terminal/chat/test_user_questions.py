"""A tool and a tool server ask the person in the chat: keys, a line, a form; and the ways not to answer."""

import json
import os
import signal
import time

import pytest
from support.screens.tmux_window import DEAF_S, Terminal
from support.tools.asking import copy_asking_bot

FORM = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer", "title": "Guests"},
        "smokes": {"type": "boolean", "default": False},
        "room": {
            "type": "string",
            "oneOf": [{"const": "a", "title": "Alpha"}, {"const": "b", "title": "Beta"}],
        },
        "note": {"type": "string"},
    },
    "required": ["guests", "room"],
}


@pytest.fixture
def bot(terminal: Terminal) -> Terminal:
    """Lend a chat with an agent whose tools and tool server ask."""
    form = terminal.folder / "form.json"
    form.write_text(json.dumps(FORM))
    words = ("asks", str(terminal.folder / "calls"), str(form))
    copy_asking_bot(terminal.folder, "hostile.py", *words, protocol="legacy")
    terminal.start("--agent asking_bot:agent")
    terminal.see("❯")
    return terminal


def press(terminal: Terminal, *keys: str) -> None:
    time.sleep(DEAF_S)
    terminal.keys(*keys)


def test_a_tool_asks_with_keys_and_gets_the_choice(bot: Terminal) -> None:
    bot.type("table")
    screen = bot.see("[1/2]")
    assert "Question  table" in screen
    assert "Which table?" in screen
    press(bot, "2")
    bot.see("Result: door")
    bot.see("❯", after="Result: door")


def test_a_tool_asks_for_a_line_and_its_control_characters_are_removed(bot: Terminal) -> None:
    bot.type("table name")
    bot.see("[1/2]")
    press(bot, "1")
    screen = bot.see("Answer", after="Which name?")
    assert "[2J" not in screen
    time.sleep(DEAF_S)
    bot.type("Ada Lovelace")
    bot.see("Result: window | Ada Lovelace")


@pytest.mark.parametrize("key", ["C-c", "Escape"])
def test_a_question_that_is_left_open_has_no_answer_and_the_run_goes_on(bot: Terminal, key: str) -> None:
    bot.type("name")
    bot.see("Answer", after="Which name?")
    press(bot, key)
    bot.see("Result: The user did not answer the question")
    bot.type("table")
    bot.see("[1/2]")
    press(bot, "1")
    bot.see("Result: window")


def test_a_tool_server_asks_with_a_form(bot: Terminal) -> None:
    bot.type("mcp__shop__act")
    bot.see("Guests (a whole number)")
    time.sleep(DEAF_S)
    bot.type("many")
    bot.see("Type a whole number.")
    time.sleep(DEAF_S)
    bot.type("4")
    bot.see("smokes (yes or no, default false)")
    press(bot, "Enter")
    bot.see("[2] Beta")
    press(bot, "2")
    bot.see("note (optional)")
    press(bot, "Enter")
    bot.see("Send this?")
    press(bot, "y")
    screen = bot.see("Result: ")
    content = json.loads(screen.rpartition("Result: ")[2].partition("\n\n")[0].replace("\n", " "))["content"]
    assert content == {"guests": 4, "smokes": False, "room": "b"}


def test_a_signal_at_a_question_ends_the_chat(bot: Terminal) -> None:
    bot.type("table")
    bot.see("[1/2]")
    os.kill(bot.pid(), signal.SIGTERM)
    bot.see("exit=143")
    bot.see("Resume with: sandbur -r")


def test_a_tool_that_a_server_adds_is_there_in_a_later_run_of_the_chat(terminal: Terminal) -> None:
    copy_asking_bot(terminal.folder, "growing.py")
    terminal.start("--agent asking_bot:agent --mode auto-edit")
    terminal.see("❯")
    terminal.type("mcp__shop__grow")
    terminal.see("Result: grown")
    for _ in range(20):  # the server's notification may come after the result of its call
        terminal.type("mcp__shop__bark")
        screen = terminal.see("Result: ", after="❯ mcp__shop__bark")
        if "Result: woof" in screen:
            break
        terminal.see("❯", after="Result: ")
    assert "Result: woof" in screen
    terminal.see("auto-edit · scripted/model")
