"""`recall` finds what a session no longer has in view: its old messages, results and sub-agents."""

import asyncio
from pathlib import Path

import pytest
from support.stores.databases import DATABASES, UrlOf

from sandbur import Agent, Memory, tool
from sandbur.testing import ScriptedModel, ToolCall

FILLER = "Nothing of interest. " * 200


@tool(effect="read")
def read_log(name: str) -> str:
    """Read a log."""
    return f"{FILLER}The valve of boiler 17 was replaced by Quentin in Marseille. {FILLER}"


def find_results(model: ScriptedModel) -> list[str]:
    return [one.content for message in model.requests[-1].messages for one in message.tool_results]


async def test_old_messages_and_results_are_found_after_a_compression(tmp_path: Path) -> None:
    turns = [ToolCall("read_log", name="a"), "I read it."]
    model = ScriptedModel(
        [*turns, "ok", "ok", ToolCall("memory", command="recall", query="boiler valve"), "x"]
    )
    agent = Agent(model, memory="agent", tools=[read_log], cwd=tmp_path, store=f"sqlite:///{tmp_path}/m.db")
    async with agent.session() as session:
        await session.run("Read the log. My favourite bird is the bittern.")
        for _ in range(2):
            await session.run(FILLER)
        await session.run("Who replaced the valve?")
    found = find_results(model)[-1]
    assert "From this session:" in found
    assert "[result of read_log, handle " in found
    assert "boiler 17 was replaced by Quentin" in found
    assert len(found) < 8000


async def test_what_a_sub_agent_said_is_found_with_its_name(tmp_path: Path) -> None:
    helper = Agent(ScriptedModel(["The bittern nests in reeds."]), name="birds", description="knows birds")
    task = ToolCall("task", description="nests", prompt="Where does it nest?", agent="birds")
    model = ScriptedModel([task, ToolCall("memory", command="recall", query="reeds nests"), "x"])
    agent = Agent(model, memory="agent", agents=[helper], cwd=tmp_path, store=f"sqlite:///{tmp_path}/m.db")
    await agent.run("Find out about birds.")
    found = find_results(model)[-1]
    assert "From this session:\n[sub-agent birds " in found
    assert "] The bittern nests in reeds.\n  (asked: Where does it nest?" in found


async def test_facts_come_before_messages_and_nothing_is_found_for_other_words(tmp_path: Path) -> None:
    calls = [ToolCall("memory", command="recall", query=query) for query in ("port shop", "zzqq", "?!")]
    model = ScriptedModel([*calls, "x"])
    agent = Agent(model, memory="agent", cwd=tmp_path, store=f"sqlite:///{tmp_path}/m.db")
    await Memory.of_agent(agent).add("The port of the shop is 9090", path="port.md")
    await agent.run("I asked about the port of the shop")
    first, second, third = find_results(model)
    assert first.startswith("From memory:\n/memories/project/port.md (written on ")
    assert "From this session:\n[user, step 0, " in first
    assert ", in view] I asked about the port" in first
    assert second.startswith("Nothing matches.")
    assert third.startswith("The query has no words.")


async def test_a_session_that_extracted_facts_shows_no_message_twice(tmp_path: Path) -> None:
    recall = ToolCall("memory", command="recall", query="bittern reeds")
    model = ScriptedModel(["Fine.", '{"facts": []}', recall, "x"])
    store = f"sqlite:///{tmp_path}/m.db"
    agent = Agent(model, memory="agent", memory_extraction="propose", cwd=tmp_path, store=store)
    async with agent:
        await agent.run("The bittern nests in reeds.", session_id="s1")
        assert (await agent.memory.extract()).problems == ()
        await agent.run("Where does it nest?", session_id="s1")
    found = find_results(model)[-1]
    assert found.count("The bittern nests in reeds.") == 1
    assert "sub-agent" not in found


@tool(effect="read")
def read_long_log() -> str:
    """Read a log that is too long for one result."""
    before, after = ("".join(f"{name} line {n} is dull. " for n in range(3000)) for name in ("Early", "Late"))
    return f"{before}The valve of boiler 17 was replaced by Quentin in Marseille. {after}"


@pytest.mark.parametrize("kind", DATABASES)
async def test_what_a_shortened_result_left_out_is_found_and_read_on(
    kind: str, url_of: UrlOf, tmp_path: Path
) -> None:
    store = await asyncio.to_thread(url_of, kind, tmp_path)

    async def run(message: str, *turns: ToolCall | str) -> list[str]:
        model = ScriptedModel([*turns, "x"])
        agent = Agent(model, memory="agent", tools=[read_long_log], cwd=tmp_path, store=store)
        await agent.run(message, session_id="long-log")
        return find_results(model)

    (shortened,) = await run("Read the log.", ToolCall("read_long_log"))
    assert "Quentin" not in shortened
    found = (await run("Who?", ToolCall("memory", command="recall", query="boiler valve")))[-1]
    assert "boiler 17 was replaced by Quentin" in found
    head = found.partition("[result of read_long_log, handle ")[2].partition("]")[0]
    assert head
    assert "in view" not in head
    reference = found.partition("(goes on: ")[2].partition(" ")[0]
    rest = (await run("Go on.", ToolCall("memory", command="recall", query=reference)))[-1]
    assert "Late line 20 is dull." in rest


@tool(effect="read", ephemeral=1)
def read_meter(name: str) -> str:
    """Read a meter."""
    return f"Meter {name} shows {name * 3} and was sealed by Quentin{name}."


async def test_a_result_that_was_evicted_is_found(tmp_path: Path) -> None:
    reads = [ToolCall("read_meter", name=name) for name in "abcdefgh"]
    model = ScriptedModel([*reads, ToolCall("memory", command="recall", query="meter aaa sealed"), "x"])
    agent = Agent(model, memory="agent", tools=[read_meter], cwd=tmp_path, store=f"sqlite:///{tmp_path}/m.db")
    await agent.run("Read the meters.")
    results = find_results(model)
    assert "This result was put away" in results[0]
    assert "Meter a shows aaa and was sealed by Quentina." in results[-1]
