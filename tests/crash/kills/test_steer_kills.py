"""A message from another process is in the history once, wherever either of the two processes dies."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, Request, call, say
from support.models.turns import Turn
from support.stores.databases import DATABASES, fresh_url

pytestmark = pytest.mark.slow

LEAVES = ("inbox_before_commit", "inbox_after_commit")
RUNS = (
    # The model is asked with it; its answer is here, and not recorded; it is recorded.
    "inbox_taken",
    "request_before_send",
    "reply_before_commit",
    *(f"store_{when}_commit:{number}" for number in range(1, 5) for when in ("before", "after")),
)


def respond(request: Request) -> Turn:
    told = [one for one in request.body["messages"] if one["role"] == "tool"]
    return say("done") if told else call("list_directory", path=".")


def persons(command: Command, session_id: str) -> list[str]:
    shown = json.loads(command.run("sessions", "show", session_id, "--json").out)
    assert shown["waiting"] == []
    return [
        "".join(block.get("text", "") for block in message["blocks"])
        for message in shown["messages"]
        if message["origin"] == "person"
    ]


@pytest.mark.parametrize("kind", DATABASES)
@pytest.mark.parametrize("point", LEAVES)
def test_whoever_leaves_it_dies(tmp_path: Path, kind: str, point: str) -> None:
    command = Command(tmp_path)
    with fresh_url(kind, tmp_path) as url:
        command.env |= {"SANDBUR_STORE": url, "SANDBUR_MODEL": "demo"}
        session_id = command.run("-p", "hello", "--output-format", "json").result["session_id"]
        died = command.run("steer", session_id, "use tabs", SANDBUR_CRASH_AT=point)
        assert died.code == -9
        assert command.run("-p", "-r", session_id).code == 0
        # Nobody was told that it is kept: it is there whole, or not at all.
        assert persons(command, session_id) == ["hello", "use tabs"][: 1 + (point == LEAVES[1])]


@pytest.mark.parametrize("point", RUNS)
def test_whoever_runs_the_session_dies(tmp_path: Path, point: str) -> None:
    command = Command(tmp_path)
    with ModelServer(respond) as server:
        command.env |= {
            "SANDBUR_MODEL": "openai/gpt-test", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url,
        }  # fmt: skip
        first = command.run(
            "-p", "begin", "--output-format", "json", SANDBUR_CRASH_AT="request_before_send:2"
        )
        assert first.code == -9
        (listed,) = command.run("sessions", "list", "--json").lines
        session_id = listed["id"]
        for words in (("steered",), ("--queue", "queued"), ("steered too",)):
            assert command.run("steer", session_id, *words).code == 0
        died = command.run("-p", "-r", session_id, SANDBUR_CRASH_AT=point)
        assert died.code in (-9, 0), died.err
        for _ in range(3):
            ended = command.run("-p", "-r", session_id)
            assert ended.code == 0, ended.err
    assert sorted(persons(command, session_id)) == ["begin", "queued", "steered", "steered too"]
    assert command.run("sessions", "verify", session_id).code == 0
