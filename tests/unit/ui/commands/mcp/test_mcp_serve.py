"""Another agent drives runs over MCP: through the gate, and never with more than their person allows."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from support.commands.command import Command
from support.commands.warm_process import WarmProcess, streams_of
from support.commands.warm_start import can_be_warm
from support.tools.processes import alive

WRITE = "run echo x >> effects"
DECISIONS = {"approve_call", "settle_call"}


@asynccontextmanager
async def served(command: Command, *words: str, **env: str) -> AsyncGenerator[Client]:
    """Yield a client of `sandbur mcp serve` whose model is the demo's; it is warm if that can be."""
    full = {**command.env, "SANDBUR_MODEL": "demo", **env}
    if not can_be_warm(full):
        async with served_from_cold(command, *words, **env) as client:
            yield client
        return
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = WarmProcess(("mcp", "serve", *words), command.folder, full, **streams)
    async with Client(messages_of(process), read_timeout_seconds=60, cache=None) as client:
        yield client


@asynccontextmanager
async def messages_of(process: WarmProcess) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield what a client reads messages from and writes them to, as its library's own transports do."""
    incoming, read_from = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_to, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with incoming:
            async for line in reader:
                await incoming.send(
                    SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                )

    async def send() -> None:
        async with outgoing:
            async for sent in outgoing:
                writer.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()

    async with (
        streams_of(process) as (reader, writer),
        read_from,
        write_to,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(receive)
        tasks.start_soon(send)
        yield read_from, write_to
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def served_from_cold(command: Command, *words: str, **env: str) -> AsyncGenerator[Client]:
    """Yield a client whose library starts the server itself, as any other agent's does."""
    line = command.line("mcp", "serve", *words)
    parameters = StdioServerParameters(
        command=line[0],
        args=line[1:],
        cwd=command.folder,
        env={**command.env, "SANDBUR_MODEL": "demo", **env},
    )
    with Path(os.devnull).open("w") as errors:  # noqa: ASYNC230 -- never blocks
        async with Client(stdio_client(parameters, errors), read_timeout_seconds=60, cache=None) as client:
            yield client


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return getattr(result.content[0], "text", "")


async def ended(client: Client, run: str) -> tuple[list[Any], Any]:
    """Watch a run until it stops; return its lines and its result."""
    lines: list[Any] = []
    after = 0
    async with asyncio.timeout(100):
        while True:
            answer = await ask(client, "watch_run", run=run, after=after, wait_s=10)
            lines += answer["lines"]
            after = answer["next"]
            if answer["result"] is not None:
                return lines, answer["result"]


def effects(command: Command) -> int:
    file = command.folder / "effects"
    return len(file.read_text().split()) if file.exists() else 0


async def test_a_run_is_started_watched_and_listed(command: Command) -> None:
    async with served_from_cold(command) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"start_run", "watch_run", "list_runs", "resume_run", "deny_call"}
        begun = await ask(client, "start_run", prompt="run echo hello")
        lines, result = await ended(client, begun["run"])
        assert result["status"] == "done"
        assert {"init", "tool_use", "tool_result", "message"} <= {line["type"] for line in lines}
        listed = (await ask(client, "list_runs"))["runs"]
        assert [(one["run"], one["status"]) for one in listed] == [(begun["run"], "done")]


async def test_nobody_but_a_person_approves_unless_that_was_said(command: Command) -> None:
    async with served(command) as client:
        begun = await ask(client, "start_run", prompt=WRITE)
        _, result = await ended(client, begun["run"])
        assert result["status"] == "needs_approval"
        (pending,) = result["pending"]
        assert "Unknown tool" in await refused(
            client, "approve_call", run=begun["run"], call=pending["call_id"]
        )
        assert effects(command) == 0
        approved = await asyncio.to_thread(
            lambda: command.run("approve", begun["run"], "--all", SANDBUR_MODEL="demo")
        )
        assert (approved.code, effects(command)) == (0, 1), approved.err
        answer = await ask(client, "watch_run", run=begun["run"])
        assert answer["status"] in ("done", "needs_approval")


async def test_who_may_decide_approves_the_very_call(command: Command) -> None:
    async with served(command, "--allow-decisions") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= DECISIONS
        run = (await ask(client, "start_run", prompt=WRITE))["run"]
        _, result = await ended(client, run)
        (pending,) = result["pending"]
        assert "No call nonsense waits for a decision" in await refused(
            client, "approve_call", run=run, call="nonsense"
        )
        assert "has to be approved or denied" in await refused(
            client, "settle_call", run=run, call=pending["call_id"], outcome="done"
        )
        await ask(client, "approve_call", run=run, call=pending["call_id"])
        _, result = await ended(client, run)
        assert (result["status"], effects(command)) == ("done", 1)
    exported = command.run("sessions", "export", run)
    assert "(through MCP)" in exported.out


async def test_a_call_can_always_be_denied(command: Command) -> None:
    async with served(command) as client:
        run = (await ask(client, "start_run", prompt=WRITE))["run"]
        _, result = await ended(client, run)
        await ask(client, "deny_call", run=run, call=result["pending"][0]["call_id"], reason="not here")
        _, result = await ended(client, run)
        assert (result["status"], effects(command)) == ("denied", 0)


@pytest.mark.parametrize("prompt", ["/mode yolo", " /mode auto-edit\n", "/exit"])
async def test_no_prompt_changes_how_a_run_is_judged(command: Command, prompt: str) -> None:
    async with served(command) as client:
        assert "is a command of the chat" in await refused(client, "start_run", prompt=prompt)
        run = (await ask(client, "start_run", prompt="run echo hi"))["run"]
        await ended(client, run)
        assert "is a command of the chat" in await refused(client, "resume_run", run=run, message=prompt)


async def test_a_session_of_a_looser_mode_is_gone_on_with_in_that_of_the_server(command: Command) -> None:
    first = command.run("-p", "run echo hi", "-y", "-m", "demo", "--output-format", "json")
    async with served(command) as client:
        run = first.result["session_id"]
        await ask(client, "resume_run", run=run, message=WRITE)
        _, result = await ended(client, run)
        assert (result["status"], effects(command)) == ("needs_approval", 0)


async def test_a_run_of_another_folder_is_left_alone(command: Command) -> None:
    elsewhere = command.folder / "elsewhere"
    elsewhere.mkdir()
    first = command.run("-p", "hello", "-m", "demo", "-C", str(elsewhere), "--output-format", "json")
    async with served(command) as client:
        said = await refused(client, "resume_run", run=first.result["session_id"], message="more")
        assert "belongs to another folder" in said
        assert (await ask(client, "list_runs"))["runs"] == []


async def test_a_run_that_its_server_left_is_gone_on_with(command: Command) -> None:
    async with served(command, "--allow", "run_shell_command(*)") as client:
        run = (await ask(client, "start_run", prompt="run sleep 30; echo x >> effects"))["run"]
        while "tool_use" not in {line["type"] for line in (await ask(client, "watch_run", run=run))["lines"]}:
            pass
    assert not alive("sleep 30; echo x")
    async with served(command) as client:
        (one,) = (await ask(client, "list_runs"))["runs"]
        assert (one["run"], one["status"]) == (run, "interrupted")
        await ask(client, "resume_run", run=run)
        _, result = await ended(client, run)
        assert result["status"] in ("done", "needs_approval", "needs_decision")
    assert effects(command) == 0


def test_nothing_but_messages_is_on_standard_output(command: Command) -> None:
    """Whatever is asked, and however wrong."""
    told = (
        "this is no message\n" + json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}) + "\n"
    )
    done = command.run("mcp", "serve", stdin=told, SANDBUR_MODEL="demo")
    assert done.code == 0
    for line in done.out.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
