"""Tool servers from a program: its own calls, prompts, resources, answers, and tools that come later."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.models.scripted import ScriptedModel
from support.places import ROOT
from support.waiting import LIMIT_S

from sandbur import Agent, Elicitation, Text, ToolServers, events
from sandbur.state.errors import UsageError

pytestmark = pytest.mark.slow

SERVERS = ROOT / "tests/support/tool_servers"


def agent_of(folder: Path, *turns: Any, **options: Any) -> Agent[str]:
    tables = {
        name: {"command": sys.executable, "args": [str(SERVERS / f"{name}.py"), str(folder / "calls")]}
        for name in ("asking", "growing")
    }
    for table in tables.values():
        table["startup_timeout_s"] = 120.0
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home")}
    return Agent(
        ScriptedModel(*turns), store=f"sqlite:///{folder}/runs.db", cwd=folder, env=env, mode="yolo",
        mcp_servers=tables, **options,
    )  # fmt: skip


async def test_a_program_calls_tools_and_reads_prompts_and_resources(tmp_path: Path) -> None:
    async with agent_of(tmp_path).session() as session:
        servers = session.servers
        tools = {(tool.server, tool.name) for tool in await servers.list_tools()}
        assert tools == {("asking", "book"), ("growing", "grow")}
        assert (await servers.call_tool("growing", "grow")).content == "grown"
        [greet] = [one for one in await servers.list_prompts() if one.name == "greet"]
        assert {one.name: one.is_required for one in greet.arguments} == {"name": True, "city": False}
        assert await servers.get_prompt("asking", "greet", {"name": "Ada"}) == "Say hello to Ada in Rome."
        found = {one.uri: one for one in await servers.list_resources("growing")}
        assert found["notes://today"].media_type == "text/plain"
        assert [found[uri].is_template for uri in ("notes://today", "notes://{day}")] == [False, True]
        assert await servers.read_resource("growing", "notes://May") == [Text(text="On May it rained.")]


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda servers: servers.call_tool("none", "x"), r"no tool server 'none'.*asking, growing"),
        (lambda servers: servers.call_tool("growing", "x"), r"no tool 'x'. It has: grow"),
        (lambda servers: servers.call_tool("asking", "book", {"city": 5}), "city"),
        (lambda servers: servers.get_prompt("asking", "x"), "no prompt 'x'"),
        (lambda servers: servers.get_prompt("asking", "greet"), "needs name"),
        (lambda servers: servers.read_resource("growing", "other://x"), "The tool server growing: "),
    ],
)
async def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path, ask: Any, problem: str) -> None:
    async with agent_of(tmp_path).session() as session:
        with pytest.raises(UsageError, match=f"(?s){problem}"):
            await ask(session.servers)


async def test_without_servers_there_are_none(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}
    async with Agent(ScriptedModel(), env=env).session() as session:
        with pytest.raises(UsageError, match="no tool servers"):
            _ = session.servers


async def test_a_program_answers_the_questions_of_servers(tmp_path: Path) -> None:
    asked: list[Elicitation] = []

    async def answer(question: Elicitation) -> Mapping[str, Any] | None:
        asked.append(question)
        return {"name": "Ada"} if "Rome" in question.message else None

    turns = [("mcp__asking__book", {"city": "Rome"})], [("mcp__asking__book", {"city": "Oslo"})], "done"
    agent = agent_of(tmp_path, *turns, on_elicitation=answer)
    seen = [event async for event in agent.stream("go")]
    results = [event.content for event in seen if isinstance(event, events.ToolFinished)]
    assert results[0] == "booked in Rome for Ada"
    assert (tmp_path / "calls").read_text() == "Rome: Ada\n"
    assert [one.message for one in asked] == ["Under which name in Rome?", "Under which name in Oslo?"]
    assert (asked[0].server, list(asked[0].schema["properties"])) == ("asking", ["name"])


async def _wait_for_tool(servers: ToolServers, name: str) -> None:
    """Wait until a server's notification has arrived: it may come after the result of the call."""
    while name not in {tool.name for tool in await servers.list_tools()}:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_tool_that_a_server_adds_is_there_in_the_next_run(tmp_path: Path) -> None:
    turns = [("mcp__growing__grow", {})], "grown", [("mcp__growing__bark", {"times": 2})], "barked"
    agent = agent_of(tmp_path, *turns)
    async with agent, agent.session("s1") as session:
        await session.run("grow")
        await asyncio.wait_for(_wait_for_tool(session.servers, "bark"), LIMIT_S)
        result = await session.run("bark")
        contents = [one.content for message in session.history for one in message.tool_results]
    assert result.output == "barked"
    assert contents == ["grown", "woof woof "]
