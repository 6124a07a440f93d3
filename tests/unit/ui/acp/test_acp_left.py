"""An editor is gone in the middle of something: nothing runs on, nothing is lost, another editor goes on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from acp.schema import HttpHeader, HttpMcpServer
from support.commands.command import Command
from support.models.server import ModelServer, call, say
from support.places import ROOT
from support.screens.editor import editing
from support.tool_servers.foreign import free_port, listens
from support.tools.processes import alive
from test_acp import effects, load, new, of


class LostEditor:
    """An editor whose process is killed: its pipes close both at once, without a word."""

    def __init__(self, command: Command, *flags: str) -> None:
        command.env["SANDBUR_MODEL"] = "demo"
        self.process = command.start("acp", *flags, stdin=subprocess.PIPE)
        self.folder = command.folder
        self.number = 0

    def ask(self, method: str, **params: Any) -> None:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, sign: str) -> Any:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if sign in line.decode():
                return json.loads(line)
        raise AssertionError(f"it ended without {sign}")

    def begin(self, words: str) -> str:
        self.ask("initialize", protocolVersion=1)
        self.ask("session/new", cwd=str(self.folder), mcpServers=[])
        session_id = self.until('"sessionId":"')["result"]["sessionId"]
        self.ask("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": words}])
        return str(session_id)

    def die(self) -> int:
        for pipe in (self.process.stdout, self.process.stdin, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return self.process.wait(60)


def shown(command: Command, session_id: str) -> Any:
    return json.loads(command.run("sessions", "show", session_id, "--json").out)


async def test_a_question_outlives_its_editor(command: Command) -> None:
    lost = LostEditor(command)
    session_id = lost.begin("run echo x >> effects")
    lost.until("session/request_permission")
    lost.die()
    left = shown(command, session_id)
    assert ([one["kind"] for one in left["pending"]], left["next_action"]) == (["approval"], "human_confirm")
    assert effects(command) == 0
    async with editing(command) as editor:
        listed = await editor.agent.list_sessions(cwd=str(command.folder))
        assert [one.session_id for one in listed.sessions] == [session_id]
        await load(editor, session_id, command.folder)
        await editor.until(lambda: "session_info_update" in editor.kinds())
    assert (len(editor.asked), effects(command)) == (1, 1)


async def test_what_ran_for_an_editor_that_is_gone_is_stopped_and_told(command: Command) -> None:
    marker = f"96.{os.getpid()}"
    lost = LostEditor(command, "-y")
    session_id = lost.begin(f"run echo begun; sleep {marker}")
    lost.until("```\\nbegun")
    lost.die()
    assert alive(marker) == []
    assert shown(command, session_id)["status"] == "interrupted"
    assert command.run("sessions", "verify", session_id).code == 0
    async with editing(command, "-y") as editor:
        await load(editor, session_id, command.folder)
        await editor.until(lambda: "/continue goes on from there" in editor.text())
        await editor.prompt(session_id, "/continue")
    assert editor.asked == []
    assert "I have not run it again" in editor.text()
    assert shown(command, session_id)["status"] == "done"


async def test_what_was_said_from_elsewhere_is_told_and_goes_along(command: Command) -> None:
    with ModelServer([say("one"), say("two"), say("three")]) as server:
        async with editing(command, **of(server)) as editor:
            session_id = await new(editor, command.folder)
            await editor.prompt(session_id, "begin")
        for words in (("use tabs",), ("--queue", "then test")):
            assert command.run("steer", session_id, *words).code == 0
        async with editing(command, **of(server)) as editor:
            await load(editor, session_id, command.folder)
            await editor.until(lambda: "- use tabs\n- then test" in editor.text())
            await editor.prompt(session_id, "go on")
    sent = [
        [one["content"] for one in each.body["messages"] if one["role"] == "user"] for each in server.requests
    ]
    assert [each[-2:] for each in sent[1:]] == [["use tabs", "go on"], ["go on", "then test"]]


@contextmanager
def over_http(command: Command) -> Iterator[int]:
    port = free_port()
    words = [
        sys.executable,
        str(ROOT / "tests/support/tool_servers/asking.py"),
        str(command.folder / "calls"),
        str(port),
    ]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, **streams) as server:
        try:
            yield port
        finally:
            server.kill()


@pytest.mark.slow
async def test_a_tool_server_over_http_is_the_session_s_too(command: Command) -> None:
    script = [call("mcp__web__book", city="Rome"), say("booked")]
    with over_http(command) as port, ModelServer(script) as server:
        listens(port)
        url, headers = f"http://127.0.0.1:{port}/mcp", [HttpHeader(name="X-Who", value="an-editor")]
        servers = [HttpMcpServer(type="http", name="web", url=url, headers=headers)]
        async with editing(command, **of(server)) as editor:
            session_id = await new(editor, command.folder, servers=servers)
            await editor.until(lambda: editor.of("available_commands_update"))
            answer = await editor.prompt(session_id, "book")
    assert answer.stop_reason == "end_turn"
    assert '"mcp__web__book"' in json.dumps(server.requests[0].body)
    assert [asked.call.title for asked in editor.asked][:1] == ['mcp__web__book {"city": "Rome"}']


def test_without_a_pipe_for_its_input_the_command_ends_with_one_sentence(command: Command) -> None:
    process = command.start("acp", "-m", "demo", stdin=subprocess.DEVNULL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.decode().splitlines()[0].endswith("with pipes for stdin and stdout.")
