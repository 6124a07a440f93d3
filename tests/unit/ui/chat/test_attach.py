"""`--attach`: files go with the message, survive a kill, and are shown as a line wherever there are words."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands.command import Command
from support.models.files import PDF, base64_of, png
from support.models.server import ModelServer, ToolCall, calls, fail, say

pytestmark = pytest.mark.slow

PICTURE = png(30, 30)
JSON = ("--output-format", "json")
CHAT = "openai-chat/gpt-x"
MODELS = {"chat": CHAT, "responses": "openai-responses/gpt-x", "messages": "anthropic/claude-x"}
BLIND = "openai-chat/gpt-3.5-turbo"


@pytest.fixture
def at(command: Command) -> Command:
    """Return the command in a folder with files, and keys for a server that comes."""
    (command.folder / "a.png").write_bytes(PICTURE)
    (command.folder / "b.png").write_bytes(png(31, 31))
    (command.folder / "c.pdf").write_bytes(PDF)
    (command.folder / "d.zip").write_bytes(b"PK\x03\x04\x00\xff")
    command.env |= {"OPENAI_API_KEY": "sk-test", "ANTHROPIC_API_KEY": "sk-test"}
    return command


def served(command: Command, *script: Any) -> Iterator[ModelServer]:
    with ModelServer(list(script)) as server:
        command.env |= {"OPENAI_BASE_URL": server.base_url, "ANTHROPIC_BASE_URL": server.url}
        yield server
        assert server.rejections == []


@pytest.mark.parametrize("wire", MODELS)
def test_files_go_with_the_message_and_stay_in_the_session(at: Command, wire: str) -> None:
    for server in served(at, say("a square"), say("still")):
        words = ("--attach", "a.png", "--attach", "c.pdf", "-m", MODELS[wire], *JSON)
        first = at.run("-p", "What is this?", *words)
        assert (first.code, first.result["result"]) == (0, "a square"), first.err
        second = at.run("-p", "And now?", "-r", first.result["session_id"], *JSON)
        assert second.result["result"] == "still"
        for request in server.requests:
            assert request.raw.count(base64_of(PICTURE)) == 1
            assert request.raw.count(base64_of(PDF)) == 1
    shown = at.run("sessions", "show", first.result["session_id"])
    assert "[image/png, " in shown.out
    assert "[c.pdf, application/pdf, " in shown.out
    for form in ("html", "md"):
        report = at.run("sessions", "export", first.result["session_id"], "--format", form)
        assert "[image/png, " in report.out
    stored = (at.folder / "data" / "sandbur.db").read_bytes()
    assert base64_of(PICTURE) not in stored


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--attach", "d.zip"), "d.zip cannot be attached: models take PNG, JPEG, GIF and WebP; WAV, MP3"),
        (("--attach", "none.png"), "none.png cannot be read: No such file or directory."),
        (("--attach", "a.png", "-m", BLIND), "openai-chat/gpt-3.5-turbo takes no pictures."),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_and_nothing_is_begun(
    at: Command, words: tuple[str, ...], problem: str
) -> None:
    ended = at.run("-p", "look", "-m", CHAT, *words)
    assert ended.code == 2
    assert problem in ended.err
    assert at.run("sessions", "list", "--json").lines == []


def test_a_server_that_takes_no_pictures_leaves_a_session_that_goes_on(at: Command) -> None:
    refused = fail(400, "this model does not support image input")
    for _ in served(at, refused, say("I cannot see it."), refused, say("no")):
        first = at.run("-p", "look", "--attach", "a.png", "-m", CHAT)
        assert (first.code, first.out) == (0, "I cannot see it.\n")
        assert "did not accept the pictures (this model does not support image input)" in first.err
        again = at.run("-p", "really?", "-c", *JSON)
        assert (again.code, again.result["result"]) == (0, "no")


@pytest.mark.parametrize("point", ["store_in_transaction:1", "store_after_commit:1", "request_before_send:1"])
def test_a_kill_around_the_message_loses_its_picture_with_it_or_not_at_all(at: Command, point: str) -> None:
    for server in served(at, say("seen"), say("seen")):
        words = ("-p", "look", "--attach", "a.png", "-m", CHAT)
        killed = at.run(*words, SANDBUR_CRASH_AT=point)
        assert killed.code == -signal.SIGKILL
        found = at.run("sessions", "list", "--json").lines
        if point.startswith("store_in"):
            assert found == []
            continue
        ended = at.run("-p", "-r", found[0]["id"], *JSON)
        assert (ended.code, ended.result["result"]) == (0, "seen"), ended.err
        assert base64_of(PICTURE) in server.requests[-1].raw


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("point", ["finished_after_commit:1", "tool_ran:2"])
def test_a_kill_between_results_keeps_the_picture_of_the_one_that_ended(
    at: Command, wire: str, point: str
) -> None:
    reads = [ToolCall("read_file", json.dumps({"path": name})) for name in ("a.png", "b.png")]
    for server in served(at, calls(*reads), say("two squares")):
        killed = at.run("-p", "look", "-m", MODELS[wire], "-y", SANDBUR_CRASH_AT=point)
        assert killed.code == -signal.SIGKILL, killed.err
        [found] = at.run("sessions", "list", "--json").lines
        ended = at.run("-p", "-r", found["id"], *JSON)
        assert (ended.code, ended.result["result"]) == (0, "two squares"), ended.err
        raw = server.requests[-1].raw
        assert (raw.count(base64_of(PICTURE)), raw.count(base64_of(png(31, 31)))) == (1, 1)
        verified = at.run("sessions", "verify", found["id"])
        assert verified.code == 0, verified.out
        replayed = at.run("replay", found["id"])
        assert replayed.code == 0, replayed.out + replayed.err


def test_stream_json_names_the_files_and_never_their_bytes(at: Command) -> None:
    read = ToolCall("read_file", json.dumps({"path": "b.png"}))
    for _ in served(at, calls(read), say("done")):
        words = ("-p", "look", "--attach", "a.png", "-m", CHAT, "-y")
        ended = at.run(*words, "--output-format", "stream-json")
    assert ended.code == 0
    lines = {line["type"]: line for line in ended.lines}
    assert "\n[image/png, " in lines["tool_result"]["content"]
    said = next(line for line in ended.lines if line["type"] == "message" and line["role"] == "user")
    assert said["content"].startswith("look\n[image/png, ")
    assert base64_of(PICTURE).decode()[:60] not in ended.out
