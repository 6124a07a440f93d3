"""The doctor names what keeps Sandbur from working here, the line that mends it, and what models answer."""

import json
import time
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, fail, html, say, stall
from support.screens.tmux_window import Terminal

KEY = "sk-proj-0123456789abcdefghijABCDEFGHIJ"


def findings(ended: Ended) -> list[dict[str, Any]]:
    return json.loads(ended.out)["findings"]


def named(ended: Ended, name: str) -> list[dict[str, Any]]:
    return [one for one in findings(ended) if one["name"] == name]


def test_every_finding_that_is_not_fine_has_one_line_that_mends_it(command: Command) -> None:
    config = command.folder / ".config" / "sandbur" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'mode = "yolo"\n[mcp_servers.gone]\ncommand = "no-such-program"\n'
        '[mcp_servers.keyless]\nurl = "https://example.com/mcp"\n'
        'headers = { Authorization = "Bearer ${NO_SUCH_TOKEN}" }\n'
        '[mcp_servers.there]\ncommand = "true"\n'
    )
    ended = command.run("doctor", "--json", PATH="/usr/bin:/bin", OLLAMA_HOST="http://127.0.0.1:9")
    assert ended.code == 1
    assert json.loads(ended.out)["ok"] is False
    for one in findings(ended):
        assert bool(one["fix"]) == (one["verdict"] != "good"), one
        assert "\n" not in one["fix"]
    assert [one["fix"] for one in named(ended, "keys") + named(ended, "model")] == [
        "export ANTHROPIC_API_KEY=..."
    ] * 2
    gone, keyless, there = named(ended, "tool servers")
    assert (gone["verdict"], gone["fix"]) == ("bad", "sandbur mcp remove gone")
    assert "there is no program no-such-program" in gone["detail"]
    assert (keyless["verdict"], keyless["fix"]) == ("note", "export NO_SUCH_TOKEN=...")
    assert there["detail"] == "there; `sandbur mcp test` starts them"


def test_a_model_without_its_key_is_told_with_the_line_that_sets_it(command: Command) -> None:
    ended = command.run("doctor", "--json", SANDBUR_MODEL="openai/some-model")
    assert ended.code == 1
    assert named(ended, "model") == [
        {
            "verdict": "bad",
            "name": "model",
            "detail": "openai/some-model: No key for openai: OPENAI_API_KEY is not set.",
            "fix": "export OPENAI_API_KEY=...",
        }
    ]


def online(command: Command, server: ModelServer, *words: str) -> Ended:
    where = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
    return command.run("doctor", "--online", *words, SANDBUR_MODEL="openai/gpt-4o-mini", **where)


def test_online_asks_each_model_one_small_thing_and_tells_what_it_took(command: Command) -> None:
    with ModelServer([say("yes")]) as server:
        ended = online(command, server, "--json")
        assert len(server.requests) == 1
        assert len(server.requests[0].raw) < 400
        assert server.requests[0].body["max_tokens"] <= 64
    assert ended.code == 0
    (found,) = named(ended, "online")
    assert found["verdict"] == "good"
    assert found["detail"].startswith("openai/gpt-4o-mini answered in ")
    assert " tokens in, " in found["detail"]
    assert "$0.0000" in found["detail"]


def test_without_online_nobody_is_asked(command: Command) -> None:
    with ModelServer([say("yes")]) as server:
        ended = command.run("doctor", "--json", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
        assert server.requests == []
    assert named(ended, "online") == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fail(401, f"Incorrect API key provided: {KEY}"), "OPENAI_API_KEY"),
        (fail(404, "The model `gpt-4o-mini` does not exist"), "does not exist"),
        (fail(429, "slow down"), "openai"),
        (html(), "openai"),
    ],
)
def test_a_refusal_is_told_in_our_words_without_the_key(command: Command, answer: Any, says: str) -> None:
    with ModelServer([answer] * 9) as server:
        ended = online(command, server, "--json")
        assert len(server.requests) == 1
    assert ended.code == 1
    (found,) = named(ended, "online")
    assert found["verdict"] == "bad"
    assert says in found["detail"] + found["fix"]
    assert found["fix"]
    assert KEY not in ended.out + ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("answer", [stall(say("yes")), say("yes", delay_s=60)])
def test_a_server_that_hangs_is_waited_for_no_longer_than_asked(command: Command, answer: Any) -> None:
    with ModelServer([answer] * 9) as server:
        began = time.monotonic()
        ended = online(command, server, "--timeout", "1", "--json")
        took = time.monotonic() - began
    assert took < 30
    (found,) = named(ended, "online")
    assert found["verdict"] != "good"


def test_the_doctor_tells_what_a_terminal_cannot_do(terminal: Terminal) -> None:
    terminal.start("doctor", TERM="dumb")
    screen = terminal.see("exit=")
    assert "dumb, 100 columns, utf-8; no line is updated in place" in screen
    assert "\n                  export TERM=xterm-256color\n" in screen
