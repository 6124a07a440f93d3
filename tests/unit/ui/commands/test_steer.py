"""`sandbur steer`: what is said to a session from another process is heard once, and grants nothing."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, Request, call, say
from support.models.turns import Turn


def of(command: Command, server: ModelServer) -> None:
    command.env |= {
        "SANDBUR_MODEL": "openai/gpt-test", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url,
    }  # fmt: skip


def begun(command: Command, *words: str) -> str:
    """Return the id of a session of the demo that has ended its turn."""
    return str(command.run("-p", *words, "-m", "demo", "--output-format", "json").result["session_id"])


def persons(request: Request) -> list[str]:
    return [str(one["content"]) for one in request.body["messages"] if one["role"] == "user"]


def session_of(command: Command) -> str:
    (listed,) = command.run("sessions", "list", "--json").lines
    return str(listed["id"])


async def test_a_run_hears_it_before_its_next_call(command: Command) -> None:
    fifo = command.folder / "fifo"
    os.mkfifo(fifo)
    with ModelServer([call("run_shell_command", command="cat fifo"), say("heard"), say("more")]) as server:
        of(command, server)
        running = command.start("-p", "begin", "-y")
        opened = await asyncio.to_thread(lambda: fifo.open("w"))
        try:
            session_id = await asyncio.to_thread(session_of, command)
            steered = command.run("steer", session_id[:8], "use tabs")
            queued = command.run("steer", session_id, "--queue", "-", stdin="then test\n")
        finally:
            opened.close()
        told, said = await asyncio.to_thread(running.communicate)
    assert (steered.code, queued.code, running.returncode, told) == (0, 0, 0, b"heard\n"), said
    assert f"is running in process {running.pid}" in steered.err
    assert "reads the message before its next call" in steered.err
    assert "sent when the run has ended" in queued.err
    assert [persons(one)[-1] for one in server.requests] == ["begin", "use tabs"]
    assert f"1 message waits. Send it with: sandbur -p -r {session_id}" in said.decode()


def test_what_waits_is_sent_with_the_next_resume_in_its_order(command: Command) -> None:
    session_id = begun(command, "hello")
    for words in (("--queue", "run echo third"), ("run echo first",), ("run echo second",)):
        kept = command.run("steer", session_id, *words)
        assert kept.code == 0
        assert "does not run" in kept.err
    with ModelServer([say("one"), say("two")]) as server:
        of(command, server)
        command.env["SANDBUR_MODEL"] = ""
        for answer in ("one", "two"):
            resumed = command.run("-p", "-r", session_id, "-m", "openai/gpt-test")
            assert (resumed.code, resumed.out) == (0, f"{answer}\n"), resumed.err
        sent = [persons(request)[-1] for request in server.requests]
        assert sent == ["run echo first\n\nrun echo second", "run echo third"]
        # Nothing is left: the answer is shown again, and nothing is asked.
        assert command.run("-p", "-r", session_id, "-m", "openai/gpt-test").code == 0
        assert len(server.requests) == 2


def test_an_interrupted_turn_goes_on_and_hears_it_there(command: Command) -> None:
    session_id = begun(command, "run touch made")
    kept = command.run("steer", session_id, "and be quick", "--json")
    assert (kept.result["session"], kept.result["kind"], kept.result["number"]) == ("waiting", "steer", 1)
    assert "waits for a decision" in kept.result["message"]
    with ModelServer([say("done")]) as server:
        of(command, server)
        assert command.run("approve", session_id, "--all", "--record-only").code == 0
        kept = command.run("steer", session_id, "--queue", "then rest", "--json")
        assert kept.result["session"] == "interrupted"
        assert command.run("-p", "-r", session_id, "-m", "openai/gpt-test").out == "done\n"
        messages = server.requests[0].body["messages"]
    assert (messages[-2]["role"], messages[-1]["content"]) == ("tool", "and be quick")
    assert (command.folder / "made").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("", "  \n"), "The message is empty"),
        (("", "/mode yolo"), "/mode is a command"),
        (("--queue", "/permissions allow run_shell_command"), "/permissions is a command"),
        (("--queue", "!rm -rf ."), "!rm is a command"),
        (("", "x" * 300_000), "262,144 characters"),
    ],
)
def test_nothing_and_commands_are_refused(command: Command, words: tuple[str, str], reason: str) -> None:
    session_id = begun(command, "hello")
    refused = command.run("steer", session_id, *filter(None, words[:1]), "-", stdin=words[1])
    assert (refused.code, reason in refused.err) == (2, True), refused.err
    assert json.loads(command.run("sessions", "show", session_id, "--json").out)["waiting"] == []


def test_no_session_is_no_place_for_a_message(command: Command) -> None:
    begun(command, "hello")
    missing = command.run("steer", "nowhere", "hello")
    assert (missing.code, "There is no session" in missing.err) == (2, True)


def test_no_secret_in_it_reaches_the_store(command: Command) -> None:
    session_id = begun(command, "hello")
    command.env["DEPLOY_TOKEN"] = "correct-horse-battery-19"
    (command.folder / ".env").write_text("DB_PASSWORD=staple-77-mercury\n")
    words = "log in with correct-horse-battery-19 and staple-77-mercury"
    assert command.run("steer", session_id, words).code == 0
    files = Path(command.folder, "data").glob("sandbur.db*")
    stored = b"".join(file.read_bytes() for file in files if file.is_file())
    assert b"log in with" in stored
    assert b"correct-horse" not in stored
    assert b"staple-77" not in stored


def test_a_hook_of_whoever_runs_the_session_has_its_say(command: Command) -> None:
    home = command.folder / ".config" / "sandbur"
    home.mkdir(parents=True)
    script = command.folder / "look.sh"
    script.write_text(
        'words=$(cat)\ncase "$words" in *secrets*) echo not here >&2; exit 2;; *tabs*) echo are wide;; esac\n'
    )
    (home / "config.toml").write_text(
        f'[[hooks.UserPromptSubmit]]\nhooks = [{{type = "command", command = "sh {script}"}}]\n'
    )

    def respond(request: Request) -> Turn:
        told = [one for one in request.body["messages"] if one["role"] == "tool"]
        return say("done") if told else call("list_directory", path=".")

    session_id = begun(command, "run touch made")
    command.run("approve", session_id, "--all", "--record-only")
    for words in ("tell secrets", "use tabs"):
        assert command.run("steer", session_id, words).code == 0
    with ModelServer(respond) as server:
        of(command, server)
        ended = command.run("-p", "-r", session_id, "-m", "openai/gpt-test")
        assert ended.out == "done\n", ended.err
        said: list[Any] = persons(server.requests[0])
    assert "A hook refused the message: not here" in ended.err
    assert not any("tell secrets" in one for one in said)
    assert "use tabs" in said
    assert "are wide" in said[-1]
