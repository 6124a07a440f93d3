"""Files of `--attach` go with the first message of a chat, and with no other."""

import json

from support.commands.command import Command
from support.models.files import base64_of, png
from support.models.server import ModelServer, say
from support.screens.tmux_window import Terminal


def test_a_file_goes_with_the_first_message_that_is_typed(terminal: Terminal, command: Command) -> None:
    (command.folder / "a.png").write_bytes(png(30, 30))
    with ModelServer([say("a square"), say("no more")]) as server:
        keys = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.base_url}
        terminal.start("--attach a.png -m openai/gpt-x", **keys)
        terminal.see("❯")
        terminal.type("What is this?")
        terminal.see("a square")
        terminal.see("❯", after="a square")
        terminal.type("And now?")
        terminal.see("no more")
        terminal.see("❯", after="no more")
        first, second = (json.loads(request.raw)["messages"] for request in server.requests)
    assert [part["type"] for part in first[-1]["content"]] == ["image_url", "text"]
    assert base64_of(png(30, 30)).decode() in first[-1]["content"][0]["image_url"]["url"]
    assert second[-1]["content"] == "And now?"
    assert second[: len(first)] == first
