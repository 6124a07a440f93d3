"""An editor works with sessions by the Agent Client Protocol: the library's own client, the real command."""

import asyncio
import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from acp import embedded_text_resource, image_block, resource_block, resource_link_block
from acp.schema import EnvVariable, McpServerStdio
from support.commands.command import Command
from support.models.server import ModelServer, Turn, call, fail, say
from support.models.turns import ToolCall
from support.places import SUPPORT
from support.screens.editor import Asked, catch_refusal, editing, editing_from_cold
from support.tools.processes import alive

WRITE = "run echo x >> effects"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def of(server: ModelServer) -> dict[str, str]:
    return {
        "SANDBUR_MODEL": "openai/gpt-test", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.base_url,
    }  # fmt: skip


def effects(command: Command) -> int:
    file = command.folder / "effects"
    return len(file.read_text().split()) if file.exists() else 0


def until_kept(command: Command) -> None:
    """Wait until something said to a run is on disk."""
    with closing(sqlite3.connect(command.folder / "data" / "sandbur.db")) as database:
        end = time.monotonic() + 60
        while not database.execute("SELECT COUNT(*) FROM inbox").fetchone()[0]:
            assert time.monotonic() < end
            time.sleep(0.02)


async def new(editor: Any, folder: Path, **more: Any) -> str:
    made = await editor.agent.new_session(cwd=str(folder), mcp_servers=more.pop("servers", []), **more)
    return made.session_id


async def load(editor: Any, session_id: str, folder: Path) -> Any:
    return await editor.agent.load_session(session_id=session_id, cwd=str(folder), mcp_servers=[])


async def test_words_thoughts_plans_and_calls_come_as_they_happen(command: Command) -> None:
    (command.folder / "a.txt").write_text("found it\n")
    script = [
        call("start_plan", goal="look"),
        call("submit_plan", steps=[{"description": "read a.txt"}]),
        Turn(reasoning="Where could it be?", calls=(ToolCall("read_file", '{"path": "a.txt"}'),)),
        call("finish_step", status="completed", summary="it is there"),
        say("It says: found it"),
    ]
    with ModelServer(script) as server:
        async with editing_from_cold(command, **of(server)) as editor:
            session_id = await new(editor, command.folder)
            answer = await editor.prompt(session_id, "where is it?")
    assert answer.stop_reason == "end_turn"
    assert editor.text().endswith("It says: found it")
    assert "Where could it be?" in editor.text("agent_thought_chunk")
    plans = [[entry.status for entry in plan.entries] for plan in editor.of("plan")]
    assert plans[0] in (["pending"], ["in_progress"])
    assert plans[-1] == ["completed"]
    (begun,) = (one for one in editor.of("tool_call") if one.kind == "read")
    assert [place.path for place in begun.locations] == [str(command.folder / "a.txt")]
    told = [one.status for one in editor.of("tool_call_update") if one.tool_call_id == begun.tool_call_id]
    assert told == ["in_progress", "completed"]
    assert editor.of("session_info_update")[-1].title == "where is it?"
    assert editor.asked == []


async def test_always_names_the_rule_and_asks_no_second_time(command: Command) -> None:
    async with editing(command, SANDBUR_MODEL="demo", answer=lambda asked: "always-1") as editor:
        session_id = await new(editor, command.folder)
        await editor.prompt(session_id, WRITE)
        (asked,) = editor.asked
        assert asked.options[1].name.endswith("run_shell_command(echo x >> effects)")
        assert "$ echo x >> effects" in asked.words
        await editor.prompt(session_id, WRITE)
    assert (len(editor.asked), effects(command)) == (1, 2)


async def test_a_call_that_is_rejected_does_not_run(command: Command) -> None:
    async with editing(command, SANDBUR_MODEL="demo", answer=lambda asked: "reject") as editor:
        answer = await editor.prompt(await new(editor, command.folder), WRITE)
    assert (answer.stop_reason, effects(command)) == ("end_turn", 0)
    assert editor.of("tool_call_update")[-1].status == "failed"


async def test_a_change_is_shown_as_a_difference_and_a_mode_lets_it_pass(command: Command) -> None:
    (command.folder / "a.txt").write_text("old\n")
    script = [call("write_file", path="a.txt", content="new\n"), say("done")] * 2
    with ModelServer(script) as server:
        async with editing(command, **of(server)) as editor:
            session_id = await new(editor, command.folder)
            await editor.prompt(session_id, "write")
            (asked,) = editor.asked
            (difference,) = (part for part in asked.call.content if part.type == "diff")
            assert (difference.old_text, difference.new_text) == ("old\n", "new\n")
            assert difference.path == str(command.folder / "a.txt")
            await editor.agent.set_session_mode(session_id=session_id, mode_id="auto-edit")
            await editor.prompt(session_id, "write again")
            assert "mode 'yolo'" in str(
                await catch_refusal(editor.agent.set_session_mode(session_id=session_id, mode_id="yolo"))
            )
            assert len(editor.asked) == 1
            await editor.prompt(session_id, "/mode plan")
            assert editor.of("current_mode_update")[-1].current_mode_id == "plan"
            assert "Mode: plan" in editor.text()
    assert (command.folder / "a.txt").read_text() == "new\n"


async def test_what_is_asked_in_one_process_is_asked_again_in_the_next(command: Command) -> None:
    async with editing(command, SANDBUR_MODEL="demo", answer=lambda asked: None) as editor:
        session_id = await new(editor, command.folder)
        asking = asyncio.ensure_future(editor.prompt(session_id, WRITE))
        await editor.until(lambda: editor.asked)
        editor.process.kill()
        await asyncio.gather(asking, return_exceptions=True)
    async with editing(command, SANDBUR_MODEL="demo") as editor:
        await load(editor, session_id, command.folder)
        assert editor.kinds()[:2] == ["user_message_chunk", "tool_call"]
        await editor.until(lambda: "session_info_update" in editor.kinds())
    assert (len(editor.asked), effects(command)) == (1, 1)


async def test_a_decision_made_elsewhere_goes_on_in_the_editor(command: Command) -> None:
    async with editing(command, SANDBUR_MODEL="demo", answer=lambda asked: None) as editor:
        session_id = await new(editor, command.folder)
        asking = asyncio.ensure_future(editor.prompt(session_id, WRITE))
        await editor.until(lambda: editor.asked)
        words = ("approve", session_id, "--all", "--record-only")
        said = await asyncio.to_thread(lambda: command.run(*words))
        assert said.code == 0, said.err
        assert (await asking).stop_reason == "end_turn"
    assert effects(command) == 1


@pytest.mark.parametrize(("picked", "runs"), [("done", 1), ("failed", 1), ("rerun", 2)])
async def test_a_command_whose_editor_was_killed_is_asked_about(
    command: Command, picked: str, runs: int
) -> None:
    line = "run echo x >> effects; echo begun; sleep 60"
    quick = "#!/bin/sh\nexit 0\n"
    async with editing(command, "-y", SANDBUR_MODEL="demo") as editor:
        session_id = await new(editor, command.folder)
        asking = asyncio.ensure_future(editor.prompt(session_id, line))
        await editor.until(lambda: "begun" in editor.output)
        os.kill(editor.process.pid, signal.SIGKILL)
        await asyncio.gather(asking, return_exceptions=True)
    (command.folder / "bin").mkdir()
    sleep = command.folder / "bin" / "sleep"
    sleep.write_text(quick)
    sleep.chmod(0o755)
    path = f"{command.folder / 'bin'}:{os.environ['PATH']}"
    async with editing(command, SANDBUR_MODEL="demo", answer=lambda asked: picked, PATH=path) as editor:
        await load(editor, session_id, command.folder)
        await editor.until(lambda: "session_info_update" in editor.kinds())
    (asked,) = editor.asked
    assert asked.ids == ["check", "done", "failed", "rerun"]
    assert "nobody knows what came of it" in asked.words
    assert effects(command) == runs


async def test_cancelling_stops_what_runs_and_leaves_no_process(command: Command) -> None:
    async with editing(command, "-y", SANDBUR_MODEL="demo") as editor:
        session_id = await new(editor, command.folder)
        marker = f"98.{os.getpid()}"
        asking = asyncio.ensure_future(editor.prompt(session_id, f"run echo begun; sleep {marker}"))
        await editor.until(lambda: "begun" in editor.output)
        assert "answering a message" in str(await catch_refusal(editor.prompt(session_id, "/mode plan")))
        await editor.agent.cancel(session_id=session_id)
        assert (await asking).stop_reason == "cancelled"
        assert alive(marker) == []
        again = await editor.prompt(session_id, "run echo back")
        assert (again.stop_reason, "back" in editor.text()) == ("end_turn", True)


async def test_a_message_while_it_works_steers_and_files_are_commands(command: Command) -> None:
    home = command.folder / ".sandbur" / "commands"
    home.mkdir(parents=True)
    (home / "look.md").write_text("---\ndescription: look somewhere\n---\nLook at $ARGUMENTS closely.\n")
    fifo = command.folder / "fifo"
    os.mkfifo(fifo)
    script = [call("run_shell_command", command="echo begun; cat fifo"), say("steered"), say("looked")]
    with ModelServer(script) as server:
        async with editing(command, "-y", **of(server)) as editor:
            session_id = await new(editor, command.folder)
            first = asyncio.ensure_future(editor.prompt(session_id, "wait"))
            await editor.until(lambda: "begun" in editor.output)
            second = asyncio.ensure_future(editor.prompt(session_id, "and hurry up"))
            await asyncio.to_thread(until_kept, command)
            await asyncio.to_thread(fifo.write_text, "go")
            assert (await first).stop_reason == (await second).stop_reason == "end_turn"
            await editor.prompt(session_id, "/look README")
            offered = editor.of("available_commands_update")[-1].available_commands
    sent = [json.dumps(request.body["messages"]) for request in server.requests]
    assert "and hurry up" in sent[1]
    assert "Look at README closely." in sent[2]
    assert {"look", "skill", "compact"} <= {one.name for one in offered}


async def test_a_question_that_is_cancelled_stays_open_and_a_message_starts_something_else(
    command: Command,
) -> None:
    def answer(asked: Asked) -> str | None:
        return None if len(editor.asked) == 1 else "once"

    async with editing(command, SANDBUR_MODEL="demo", answer=answer) as editor:
        session_id = await new(editor, command.folder)
        asking = asyncio.ensure_future(editor.prompt(session_id, WRITE))
        await editor.until(lambda: editor.asked)
        await editor.agent.cancel(session_id=session_id)
        assert (await asking).stop_reason == "cancelled"
        assert len(command.run("sessions", "list", "--json").lines) == 1
        answered = await editor.prompt(session_id, "run pwd")
        assert answered.stop_reason == "end_turn"
    assert effects(command) == 0


async def test_without_a_key_an_editor_is_told_to_sign_in(command: Command) -> None:
    async with editing(command, OLLAMA_HOST="127.0.0.1:1") as editor:
        error = await catch_refusal(editor.agent.new_session(cwd=str(command.folder), mcp_servers=[]))
        assert (error.code, "API_KEY" in str(error)) == (-32000, True)
        assert (await catch_refusal(editor.agent.authenticate(method_id="environment"))).code == -32000


async def test_what_goes_wrong_is_an_error_of_the_protocol(command: Command) -> None:
    with ModelServer([fail(401, "no such key"), fail(400, "bad thing"), say("fine")]) as server:
        async with editing(command, **of(server)) as editor:
            session_id = await new(editor, command.folder)
            assert (await catch_refusal(editor.prompt(session_id, "a"))).code == -32000
            broken = await catch_refusal(editor.prompt(session_id, "b"))
            assert (broken.code, "bad thing" in str(broken)) == (-32603, True)
            assert (await editor.prompt(session_id, "c")).stop_reason == "end_turn"
            agent = editor.agent
            assert (await catch_refusal(agent.new_session(cwd="relative", mcp_servers=[]))).code == -32602
            assert (
                await catch_refusal(agent.new_session(cwd="/nowhere/at/all", mcp_servers=[]))
            ).code == -32602
            assert (await catch_refusal(editor.prompt("unknown", "a"))).code == -32002
            assert (await catch_refusal(load(editor, "unknown", command.folder))).code == -32002


async def test_tool_servers_of_the_editor_are_the_session_s(command: Command) -> None:
    asking = str(SUPPORT / "tool_servers/asking.py")
    env = [EnvVariable(name="ASKS", value="yes")]
    servers = [McpServerStdio(name="My asking!", command=sys.executable, args=[asking, "calls"], env=env)]
    with ModelServer([say("hi")]) as server:
        await _with_servers(command, servers, server)
    offered = json.dumps(server.requests[0].body)
    assert '"mcp__My-asking__book"' in offered
    assert "Say hello to Ada in Rome." in offered


async def _with_servers(command: Command, servers: list[McpServerStdio], server: ModelServer) -> None:
    async with editing(command, **of(server)) as editor:
        session_id = await new(editor, command.folder, servers=servers)
        await editor.until(lambda: editor.of("available_commands_update"))
        names = {one.name for one in editor.of("available_commands_update")[-1].available_commands}
        assert {"mode", "continue", "help", "mcp__My-asking__greet"} <= names
        await editor.prompt(session_id, "/mcp__My-asking__greet name=Ada")
        await editor.prompt(session_id, "/help")
        assert "- `/mcp__My-asking__greet`" in editor.text()


async def test_pictures_and_resources_reach_the_model(command: Command) -> None:
    with ModelServer([say("seen")]) as server:
        async with editing(command, **of(server)) as editor:
            await editor.prompt(
                await new(editor, command.folder),
                "compare ",
                resource_link_block("b.py", (command.folder / "b.py").as_uri()),
                resource_block(embedded_text_resource("file:///w/a.py", "print(1)")),
                image_block(base64.b64encode(PIXEL).decode(), "image/png"),
            )
        sent = json.dumps(server.requests[0].body["messages"][-1])
    assert f"compare {command.folder}/b.py" in sent
    assert "print(1)" in sent
    assert "/w/a.py" in sent
    assert base64.b64encode(PIXEL).decode() in sent


async def test_yolo_is_there_only_if_the_command_was_started_with_it(command: Command) -> None:
    first = command.run("-p", "run echo hi", "-y", "-m", "demo", "--output-format", "json")
    async with editing(command, SANDBUR_MODEL="demo") as editor:
        loaded = await load(editor, first.result["session_id"], command.folder)
        assert loaded.modes.current_mode_id == "interactive"
        assert [mode.id for mode in loaded.modes.available_modes] == ["interactive", "plan", "auto-edit"]
        assert "not offered" in str(
            await catch_refusal(editor.prompt(first.result["session_id"], "/mode yolo"))
        )
        await editor.prompt(first.result["session_id"], WRITE)
        assert len(editor.asked) == 1
    async with editing(command, "-y", SANDBUR_MODEL="demo") as editor:
        made = await editor.agent.new_session(cwd=str(command.folder), mcp_servers=[])
        assert made.modes.current_mode_id == "yolo"


SHOP = """\
from sandbur import Agent
from sandbur.testing import ScriptedModel

agent = Agent(ScriptedModel(["Hello."]), mode="yolo")
"""


async def test_a_session_keeps_its_mode_when_an_editor_loads_it_with_its_agent(command: Command) -> None:
    (command.folder / "shop.py").write_text(SHOP)
    words = ("-p", "/mode plan", "--agent", "shop:agent", "--output-format", "json")
    planned = command.run(*words).result["session_id"]
    begun = command.run(*words[:1], "hello", *words[2:]).result["session_id"]
    async with editing(command, "--agent", "shop:agent") as editor:
        assert (await load(editor, planned, command.folder)).modes.current_mode_id == "plan"
        assert (await load(editor, begun, command.folder)).modes.current_mode_id == "yolo"
        resumed = await editor.agent.resume_session(session_id=planned, cwd=str(command.folder))
        assert resumed.modes.current_mode_id == "plan"
        assert (await editor.agent.new_session(cwd=str(command.folder))).modes.current_mode_id == "yolo"


async def test_sessions_of_two_folders_run_side_by_side_and_are_listed_by_folder(command: Command) -> None:
    other = command.folder / "other"
    other.mkdir()
    async with editing(command, "-y", SANDBUR_MODEL="demo") as editor:
        ids = [await new(editor, command.folder), await new(editor, other)]
        await asyncio.gather(*(editor.prompt(one, "run pwd > here") for one in ids))
        listed = await editor.agent.list_sessions(cwd=str(other))
        assert [one.session_id for one in listed.sessions] == [ids[1]]
        assert {one.session_id for one in (await editor.agent.list_sessions()).sessions} == set(ids)
    assert (command.folder / "here").read_text() == f"{command.folder}\n"
    assert (other / "here").read_text() == f"{other}\n"


def test_stdout_holds_the_protocol_alone_and_its_end_of_stdin_ends_everything(command: Command) -> None:
    marker = f"97.{os.getpid()}"

    def line(number: int, method: str, **params: Any) -> bytes:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return json.dumps(message).encode() + b"\n"

    command.env |= {"SANDBUR_MODEL": "demo"}
    process = command.start("acp", "-y", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    said: list[Any] = []

    def until(number: int) -> Any:
        while not said or said[-1].get("id") != number:
            said.append(json.loads(process.stdout.readline()))
        return said[-1]

    process.stdin.write(b"no JSON\n\n[]\n" + line(1, "initialize", protocolVersion=1) + line(2, "nonsense"))
    process.stdin.flush()
    assert until(2)["error"]["code"] == -32601
    process.stdin.write(line(3, "session/new", cwd=str(command.folder), mcpServers=[]))
    process.stdin.flush()
    session_id = until(3)["result"]["sessionId"]
    words = [{"type": "text", "text": f"run sleep {marker}"}]
    process.stdin.write(line(4, "session/prompt", sessionId=session_id, prompt=words))
    process.stdin.flush()
    while not any(one.get("params", {}).get("update", {}).get("status") == "in_progress" for one in said):
        said.append(json.loads(process.stdout.readline()))
    process.stdin.close()
    rest = process.stdout.read().splitlines()
    assert all(json.loads(one)["jsonrpc"] == "2.0" for one in rest)
    assert (process.wait(60), alive(marker)) == (0, [])
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    (listed,) = command.run("sessions", "list", "--json").lines
    assert listed["status"] == "interrupted"
