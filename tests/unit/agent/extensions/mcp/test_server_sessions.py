"""Sessions with tool servers: who is asked, what is journaled, and what a killed one finds later."""

import asyncio
import json
import subprocess
import sys
import time
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.models.server import ModelServer, call, say
from support.places import ROOT
from support.tool_servers.configured import HOSTILE
from support.tools.processes import alive

from sandbur.agent.config.trust import trust_place

pytestmark = pytest.mark.slow

ACT = "mcp__it__act"


def configure(command: Command, behaviour: str, **more: Any) -> None:
    """Write the person's own configuration with one server, whose calls leave lines in `calls`."""
    given = {
        "command": sys.executable,
        "args": [HOSTILE, behaviour, str(command.folder / "calls")],
        "protocol": "legacy",
        **more,
    }
    path = command.folder / ".config/sandbur/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items() if key != "env"]
    environment = [f"{key} = {json.dumps(value)}" for key, value in given.get("env", {}).items()]
    path.write_text("\n".join(["[mcp_servers.it]", *lines, "[mcp_servers.it.env]", *environment]) + "\n")


def effects(command: Command) -> int:
    file = command.folder / "calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


async def run(command: Command, server: ModelServer, *words: str, **env: str) -> Ended:
    asked = ("-m", "openai-chat/scripted", "--output-format", "json", *words)
    key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"} | env
    return await asyncio.to_thread(lambda: command.run(*asked, **key))


async def decide(command: Command, server: ModelServer, *words: str) -> Ended:
    key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
    return await asyncio.to_thread(lambda: command.run(*words, "--output-format", "json", **key))


def shown(server: ModelServer) -> str:
    """Return the last tool result that the model was sent."""
    messages = server.requests[-1].body["messages"]
    return [message for message in messages if message["role"] == "tool"][-1]["content"]


async def test_a_call_asks_first_and_is_journaled(command: Command) -> None:
    configure(command, "good")
    async with ModelServer([call(ACT, n=3), say("done")]) as server:
        asked = await run(command, server, "-p", "go")
        assert (asked.code, asked.result["status"]) == (3, "needs_approval"), asked.err
        (pending,) = asked.result["pending"]
        assert pending["reason"].startswith(
            f"may change something: {ACT}, a tool of the server it (definition "
        )
        assert effects(command) == 0
        session = asked.result["session_id"]
        ended = await decide(command, server, "approve", session, "--all")
        assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
        assert shown(server) == "done 3"
    assert effects(command) == 1
    exported = command.run("sessions", "export", session)
    moves = [json.loads(line)["move"] for line in exported.out.splitlines() if '"move"' in line]
    assert moves == ["proposed", "decided", "started", "finished"]
    replayed = command.run("replay", session)
    assert replayed.code == 0, replayed.out + replayed.err
    assert effects(command) == 1
    assert not alive(str(command.folder))


async def test_a_rule_for_the_server_is_a_rule_for_its_tools(command: Command) -> None:
    configure(command, "good")
    for rule in ("mcp__it", "mcp__it__*", ACT, f'{ACT}(*"n": 3*)'):
        async with ModelServer([call(ACT, n=3), say("done")]) as server:
            ended = await run(command, server, "-p", "go", "--allow", rule)
            assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
    async with ModelServer([call(ACT, n=3), say("done")]) as server:
        denied = await run(command, server, "-p", "go", "-y", "--deny", "mcp__it")
        assert (denied.code, denied.result["status"]) == (3, "denied")
    assert effects(command) == 4


async def test_plan_mode_runs_nothing_of_a_server_that_is_not_believed(command: Command) -> None:
    configure(command, "good")
    async with ModelServer([call(ACT), say("done")]) as server:
        await run(command, server, "-p", "go", "--mode", "plan")
        assert "plan mode only looks: may change something" in shown(server)
    assert effects(command) == 0


async def test_a_call_that_was_running_is_asked_about_and_never_runs_by_itself_again(
    command: Command,
) -> None:
    configure(command, "daemon", timeout_s=300)
    session = str(uuid.uuid4())
    async with ModelServer([call(ACT, n=1), say("done")]) as server:
        key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
        words = ("-m", "openai-chat/scripted", "-p", "go", "--allow", "mcp__it", "--session-id", session)
        process = await asyncio.create_subprocess_exec(
            *command.line(*words),
            cwd=command.folder,
            env=command.env | key,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(100):
            while not effects(command):  # noqa: ASYNC110 -- another process writes it
                await asyncio.sleep(0.02)
        # The keeper, the server, and what the server started in a session of its own.
        assert len(alive(str(command.folder / "calls"))) == 3
        process.kill()
        await process.communicate()
        killed = time.monotonic()
        while alive(str(command.folder)):
            assert time.monotonic() - killed < 5, alive(str(command.folder))
            await asyncio.sleep(0.01)
        assert time.monotonic() - killed < 1.5

        resumed = await run(command, server, "-p", "-r", session)
        assert (resumed.code, resumed.result["status"]) == (3, "needs_decision"), resumed.err
        (pending,) = resumed.result["pending"]
        assert (pending["tool"], pending["kind"]) == (ACT, "outcome_unknown")
        assert effects(command) == 1
        settled = await decide(command, server, "settle", session, pending["call_id"], "--as", "done")
        assert (settled.code, settled.result["status"]) == (0, "done"), settled.err
        assert "The user says that it was done" in shown(server)
    assert effects(command) == 1
    assert not alive(str(command.folder))


@pytest.mark.parametrize("point", ["mcp_call", "tool_ran"])
async def test_a_kill_around_a_call_leaves_at_most_one_effect(point: str, command: Command) -> None:
    configure(command, "good")
    session = str(uuid.uuid4())
    async with ModelServer([call(ACT, n=1), say("done")]) as server:
        words = ("-p", "go", "--allow", "mcp__it", "--session-id", session)
        killed = await run(command, server, *words, SANDBUR_CRASH_AT=point)
        assert killed.code == -9
        resumed = await run(command, server, "-p", "-r", session)
        assert resumed.result["status"] == "needs_decision", resumed.err
        assert effects(command) == (0 if point == "mcp_call" else 1)
        (pending,) = resumed.result["pending"]
        again = await decide(command, server, "settle", session, pending["call_id"], "--as", "rerun")
        assert (again.code, again.result["status"]) == (0, "done"), again.err
    assert effects(command) == (1 if point == "mcp_call" else 2)


async def test_a_session_opens_without_its_server_and_says_so(command: Command) -> None:
    configure(command, "good")
    async with ModelServer([call(ACT, n=1), say("done")]) as server:
        asked = await run(command, server, "-p", "go")
        configure(command, "dies_at_start")
        resumed = await run(command, server, "-p", "-r", asked.result["session_id"])
    assert (
        "The tool server it is left out: it ended; it wrote: there is no licence on this machine."
        in resumed.err
    )
    assert f"This session had tools that are missing now: {ACT}." in resumed.err
    assert effects(command) == 0


async def test_what_a_server_is_given_is_masked_wherever_it_comes_back(command: Command) -> None:
    secret = "kX9vQ2mL8pR4tZ7w"
    configure(command, "dies_at_start", env={"SERVICE_TOKEN": "${OUTER_THING}"})
    async with ModelServer([call("run_shell_command", command=f"echo {secret}"), say("done")]) as server:
        ended = await run(command, server, "-p", "go", "-y", OUTER_THING=secret)
        assert ended.code == 0, ended.err
        assert secret not in shown(server)
        assert "[masked" in shown(server)


async def test_a_variable_that_is_not_set_is_named(command: Command) -> None:
    configure(command, "good", env={"SERVICE_TOKEN": "${NO_SUCH_VARIABLE}"})
    async with ModelServer([say("done")]) as server:
        ended = await run(command, server, "-p", "go")
    assert ended.code == 0
    assert (
        "is left out: its configuration names the variable NO_SUCH_VARIABLE, which is not set." in ended.err
    )


async def test_the_servers_of_a_project_count_only_as_they_were_trusted(
    command: Command, tmp_path: Path
) -> None:
    listed = {"mcpServers": {"it": {"command": sys.executable, "args": [HOSTILE, "good"]}}}
    path = command.folder / ".mcp.json"
    path.write_text(json.dumps(listed))

    async def offered() -> tuple[list[str], str]:
        async with ModelServer([say("done")]) as server:
            ended = await run(command, server, "-p", "go")
            tools = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
        return [name for name in tools if name.startswith("mcp__")], ended.err

    assert await offered() == ([], (await offered())[1])
    assert f"Ignored {path}: this version of the file is not trusted." in (await offered())[1]
    trust_place(path, path.read_bytes(), command.env)
    assert (await offered())[0] == [ACT]
    path.write_text(json.dumps({**listed, "more": 1}))
    assert (await offered())[0] == []


async def test_a_server_that_may_ask_the_model_gets_its_answer(command: Command) -> None:
    configure(command, "samples", sampling=True)
    async with ModelServer([call(ACT), say("an answer for the server"), say("done")]) as server:
        ended = await run(command, server, "-p", "go", "--allow", "mcp__it")
        assert ended.code == 0, ended.err
        assert "an answer for the server" in shown(server)
        (asked,) = server.requests[1].body["messages"][-1:]
        assert asked["content"] == "user: hi"
    async with ModelServer([call(ACT), say("done")]) as server:
        await run(command, server, "-p", "go", "--allow", "mcp__it", "--max-budget-usd", "1")
        assert "an answer" not in shown(server) if server.requests else True


def test_without_a_server_nothing_of_the_library_is_loaded(command: Command) -> None:
    program = (
        "import sys; from sandbur.ui.cli.main import main; main(['-p', 'hello', '-m', 'demo', '-q']);"
        "sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=command.env, cwd=command.folder, check=False)
    assert done.returncode == 0


async def test_a_server_that_dies_in_a_call_does_not_take_the_run_along(command: Command) -> None:
    configure(command, "dies")
    async with ModelServer([call(ACT), say("done")]) as server:
        words = ("-p", "go", "--allow", "mcp__it", "--output-format", "stream-json")
        key = {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": f"{server.base_url}/v1"}
        ended = await asyncio.to_thread(lambda: command.run("-m", "openai-chat/scripted", *words, **key))
        assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
        assert "It may or may not have taken effect." in shown(server)
    (told,) = [line for line in ended.lines if line["type"] == "tool_result"]
    assert told["outcome"] == "unknown"
    assert effects(command) == 1


def test_the_example_with_a_server_runs(command: Command) -> None:
    words = [sys.executable, str(ROOT / "examples" / "tool_server.py")]
    done = subprocess.run(
        words, cwd=command.folder, env=command.env, capture_output=True, text=True, timeout=200, check=True
    )
    assert done.stdout == "The Word for World Is Forest.\n"
    assert not alive(str(command.folder))
