"""Facts that match a message come with it, as dated background, once; memory that is off costs nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur import Agent, Memory, SandburError
from sandbur.testing import ScriptedModel


def make_agent(model: ScriptedModel, folder: Path, **more: Any) -> Agent[str]:
    return Agent(model, memory="static", cwd=folder, store=f"sqlite:///{folder}/memory.db", **more)


def list_backgrounds(model: ScriptedModel) -> list[str]:
    """Return the background that the last request has."""
    messages = model.requests[-1].messages
    return [one.text for one in messages if one.text.startswith("Background from memory")]


async def test_a_matching_fact_follows_the_message_with_its_date_and_source(tmp_path: Path) -> None:
    model = ScriptedModel(["9090.", "I said it.", "Paris."])
    agent = make_agent(model, tmp_path)
    memory = Memory.of_agent(agent)
    fact = await memory.add("The port of the shop is 9090", path="port.md")
    await memory.add("The cat is called Miezi")
    async with agent.session() as session:
        await session.run("Which port has the shop?")
        (background,) = list_backgrounds(model)
        assert list(model.requests[-1].messages)[-1].text == background
        head, line = background.split("\n")
        assert "no instruction" in head
        age = f"written on {fact.created_at[:10]} by the user; verify it before you rely on it"
        assert line == (f"- [{fact.id[:12]}] /memories/project/port.md ({age}): The port of the shop is 9090")
        await session.run("Again, which port has the shop?")
        assert len(list_backgrounds(model)) == 1
        await memory.correct(fact.id, "The port of the shop is 7070")
        await session.run("And the port of the shop now?")
        assert ["7070" in one for one in list_backgrounds(model)] == [False, True]


async def test_near_duplicates_come_once_and_no_more_facts_than_the_setting(tmp_path: Path) -> None:
    model = ScriptedModel(["a", "b"])
    env = {"SANDBUR_MEMORY_FACTS": "2"}
    agent = make_agent(model, tmp_path, env=env)
    memory = Memory.of_agent(agent)
    for text in ("The port is 9090 now", "The port is 9090 today", "Port of the mail: 25", "Port of ssh: 22"):
        await memory.add(text)
    await agent.run("port")
    (background,) = list_backgrounds(model)
    assert len(background.split("\n")) == 3
    assert background.count("9090") <= 1


async def test_nothing_comes_with_a_message_that_no_fact_matches(tmp_path: Path) -> None:
    model = ScriptedModel(["hello"])
    agent = make_agent(model, tmp_path)
    await Memory.of_agent(agent).add("The port of the shop is 9090")
    await agent.run("Write a poem about spring")
    assert list_backgrounds(model) == []
    assert [one.name for one in model.requests[0].tools] == []


async def test_the_background_is_part_of_the_record_and_replays(tmp_path: Path, command: Command) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    added = command.run("memory", "add", "The port of the shop is 9090", "--store", url)
    assert added.code == 0, added.err
    words = ("-p", "Which port has the shop?", "-m", "demo", "--store", url, "--output-format", "json")
    ran = command.run(*words, SANDBUR_MEMORY="both")
    assert ran.code == 0, ran.err
    session_id = ran.result["session_id"]
    exported = command.run("sessions", "export", session_id, "--store", url).out
    assert "Background from memory" in exported
    replayed = command.run("replay", session_id, "--store", url)
    assert replayed.code == 0, replayed.err


def test_a_wrong_mode_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SandburError, match="memory"):
        Agent(ScriptedModel(["x"]), memory="maybe", cwd=tmp_path)  # pyright: ignore[reportArgumentType]


LOADED = """
import asyncio, json, sys
from sandbur import Agent
from sandbur.testing import ScriptedModel
model = ScriptedModel(["hello"])
asyncio.run(Agent(model, store="memory:").run("hi"))
loaded = [name for name in sys.modules if "knowledge.memory." in name or "state.memory" in name]
print(json.dumps([loaded, len(model.requests[0].tools)]))
"""


def test_memory_that_is_off_is_not_loaded_and_adds_no_tool(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "SANDBUR_MEMORY": "both"}
    line = [sys.executable, "-c", LOADED]
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)[1] == 0
