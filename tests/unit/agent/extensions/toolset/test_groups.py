"""Groups of tools: which are offered, how the model makes one active, and what is kept of it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sandbur
from sandbur import Agent, events, tool
from sandbur.agent.extensions.active_tools.equip_tools import EquipTools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.runtime.runtime import Runtime
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

STEERING = ["start_plan", "submit_plan", "finish_step"]


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(effect="read", needs="billing")
def invoice() -> str:
    """Show an invoice."""
    return "42 euros"


@tool(effect="read", needs=("billing", "admin"))
def audit() -> str:
    """Look through all invoices."""
    return "all in order"


TOOLS = [look, invoice, audit]
EQUIP = ToolCall("equip_tools", group="billing")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


def store_of(env: dict[str, str]) -> Store:
    return Store.open(f"sqlite:///{env['SANDBUR_HOME']}/sandbur.db")


def names(model: ScriptedModel, number: int = -1) -> list[str]:
    return [spec.name for spec in model.requests[number].tools]


def told(model: ScriptedModel) -> list[str]:
    return [result.content for message in model.requests[-1].messages for result in message.tool_results]


async def run(env: dict[str, str], *replies: Any, **options: Any) -> ScriptedModel:
    model = ScriptedModel([*replies, "done"])
    await Agent(model, tools=TOOLS, env=env, **options).run("go", session_id="s1")
    return model


async def test_a_tool_is_offered_once_all_its_groups_are_active(env: dict[str, str]) -> None:
    for groups, offered in {
        (): [],
        ("billing",): ["invoice"],
        ("admin", "billing"): ["invoice", "audit"],
    }.items():
        data = {**env, "SANDBUR_HOME": f"{env['SANDBUR_HOME']}{len(groups)}"}
        model = await run(data, groups=groups)
        assert names(model) == ["look", *offered, "read_result", *STEERING]


async def test_the_model_makes_a_group_active_that_is_available(env: dict[str, str]) -> None:
    model = await run(env, EQUIP, ToolCall("invoice"), available_groups=["billing"])
    first = ["look", "equip_tools", "read_result", *STEERING]
    assert names(model, 0) == first
    # What comes stands behind what was there, and everything else stays as it was.
    assert names(model, 1) == names(model, 2) == [*first, "invoice"]
    assert model.requests[1].tools is model.requests[2].tools
    assert model.requests[0].tools == model.requests[1].tools[: len(first)]
    assert told(model) == ["The group billing is active now: invoice.", "42 euros"]


async def test_a_group_that_is_not_available_cannot_be_had(env: dict[str, str]) -> None:
    asked = ToolCall("equip_tools", group="admin"), ToolCall("audit")
    model = await run(env, *asked, available_groups=["billing"])
    assert told(model)[0] == "There is no group 'admin'. The groups are: billing."
    assert told(model)[1].startswith("There is no tool named 'audit'.")


async def test_a_call_before_its_group_is_active_does_not_run(env: dict[str, str]) -> None:
    model = await run(env, ToolCall("invoice"), available_groups=["billing"])
    assert told(model) == ["invoice is not active yet. Call equip_tools first, with the group billing."]


async def test_a_change_is_an_event(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([EQUIP, EQUIP, "done"]), tools=TOOLS, env=env, available_groups=["billing"])
    seen = [event async for event in agent.stream("go") if isinstance(event, events.ToolsChanged)]
    assert seen == [events.ToolsChanged(added=("invoice",), groups=("billing",))]


async def test_a_resume_and_a_fork_keep_what_is_active(env: dict[str, str]) -> None:
    await run(env, EQUIP, available_groups=["billing"])
    model = await run(env, available_groups=["billing"])
    assert names(model)[-1] == "invoice"
    model = ScriptedModel(["yes"])
    definition = Agent(model, tools=TOOLS, env=env, available_groups=["billing"]).definition
    runtime = Runtime.open({}, env, definition=definition)
    try:
        session = await runtime.resume(await runtime.fork("s1"))
        async for _ in session.send("and?"):
            pass
    finally:
        await runtime.aclose()
    assert names(model)[-1] == "invoice"


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_replay_follows_what_was_active(env: dict[str, str], is_here: bool) -> None:
    await run(env, ToolCall("invoice"), EQUIP, ToolCall("invoice"), available_groups=["billing"])
    store = store_of(env)
    own = {each.spec.name: each for each in TOOLS} if is_here else {}
    replayed = await replay(store, "s1", today=Today(own=own))
    assert (replayed.divergence, replayed.steps) == (None, 8)
    shapes = [json.loads(body) for (body,) in store.database.query("SELECT body FROM traces ORDER BY n")]
    assert len({one["request"]["fixed_sha256"] for one in shapes if "request" in one}) == 2
    store.close()


async def test_without_groups_nothing_of_them_is_stored(env: dict[str, str]) -> None:
    model = ScriptedModel([ToolCall("look"), "done"])
    await Agent(model, tools=[look], env=env).run("go", session_id="s1")
    store = store_of(env)
    ((stored,),) = store.database.query("SELECT settings FROM sessions")
    assert json.loads(stored)["tool_choice"] == {"most_listed": 40}
    results = [body for (body,) in store.database.query("SELECT body FROM messages") if "tool_result" in body]
    assert not any("equip" in body for body in results)
    store.close()


async def test_a_group_out_of_reach_is_told_once_at_the_start(env: dict[str, str]) -> None:
    async with Agent(ScriptedModel([]), tools=TOOLS, env=env, groups=["billing"]).session() as session:
        (said,) = [notice for notice in session.notices if "group" in notice]
    assert said.startswith(
        "The group admin of tools is neither active nor available, so these are not offered: audit."
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"groups": ["biling"]},
            "`groups` names `biling`, but no tool is in such a group. Did you mean `billing`?",
        ),
        ({"available_groups": ["x"]}, "`available_groups` names `x`, but no tool is in such a group."),
    ],
)
async def test_a_group_that_there_is_not_is_refused_with_a_sentence(
    env: dict[str, str], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        await run(env, **settings)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("said", "offered"),
    [
        ({"tools": ("look",)}, ["look"]),
        ({"tools": ("billing",)}, ["invoice"]),
        ({"tools": ("audit",)}, ["audit"]),
        ({"tools": ("l*", "invoice")}, ["look", "invoice"]),
        ({"disallowed_tools": ("look",)}, []),
    ],
)
async def test_only_what_is_named_is_there(
    env: dict[str, str], said: dict[str, Any], offered: list[str]
) -> None:
    model = ScriptedModel([ToolCall("look"), "done"])
    runtime = Runtime.open(said, env, definition=Agent(model, tools=TOOLS, env=env).definition)
    session = await runtime.create("s1")
    async for _ in session.send("go"):
        pass
    await runtime.aclose()
    reader = ["read_result"] if offered else []
    assert names(model) == [*offered, *reader, *STEERING]
    assert (
        told(model)[0] == "seen" if "look" in offered else told(model)[0].startswith("There is no tool named")
    )


async def test_what_ships_is_chosen_by_its_names_and_by_those_of_other_agents(env: dict[str, str]) -> None:
    for given, offered in {("read_file", "glob"): ["read_file", "glob"], ("Read",): ["read_file"]}.items():
        model = ScriptedModel(["done"])
        definition = Agent(model, tools=sandbur.workspace_tools(), env=env).definition
        runtime = Runtime.open({"tools": given}, env, definition=definition)
        async for _ in (await runtime.create()).send("go"):
            pass
        await runtime.aclose()
        assert names(model) == [*offered, "read_result", *STEERING]


DIES = """
import asyncio, os, sys
from sandbur import Agent
from sandbur.testing import ScriptedModel
from test_groups import EQUIP, TOOLS

agent = Agent(ScriptedModel([EQUIP, "no"]), tools=TOOLS, available_groups=["billing"])
asyncio.run(agent.run("go", session_id="s1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["tool_ran", "store_after_commit:2", "store_after_commit:3", "request_before_send:2"]
)
async def test_a_kill_after_the_activation_loses_nothing_of_it(env: dict[str, str], point: str) -> None:
    paths = os.pathsep.join((str(Path(__file__).parent), *sys.path))
    dying = {**env, "PYTHONPATH": paths, "SANDBUR_CRASH_AT": point}
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", DIES], env=dying, check=False)
    assert ended.returncode == -signal.SIGKILL
    model = ScriptedModel(lambda request: "done" if "invoice" in str(request.tools) else EQUIP)
    agent = Agent(model, tools=TOOLS, env=env, available_groups=["billing"])
    async with agent.session("s1") as session:
        result = await session.run()
        assert result.status == "done"
        groups = [
            one.equips.groups for message in session.history for one in message.tool_results if one.equips
        ]
    assert groups == [("billing",)]
    assert names(model)[-1] == "invoice"
    store = store_of(env)
    own = {each.spec.name: each for each in TOOLS}
    assert (await replay(store, "s1", today=Today(own=own))).divergence is None
    store.close()


RESET = ToolCall("equip_tools", group="billing", reset=True)
TEXTS = {"billing": "Invoices and refunds."}


async def test_the_model_reads_what_a_group_is_for(env: dict[str, str]) -> None:
    model = await run(env, available_groups=TEXTS)
    [equip] = [spec for spec in model.requests[0].tools if spec.name == "equip_tools"]
    assert "- billing: Invoices and refunds. Tools: invoice" in equip.description


async def test_the_model_takes_a_group_back(env: dict[str, str]) -> None:
    model = await run(env, EQUIP, RESET, ToolCall("invoice"), EQUIP, available_groups=["billing"])
    assert names(model, 1)[-1] == names(model, 4)[-1] == "invoice"
    assert "invoice" not in names(model, 2)
    assert told(model)[1:3] == [
        "The group billing is no longer active: invoice.",
        "invoice is not active yet. Call equip_tools first, with the group billing.",
    ]
    store = store_of(env)
    replayed = await replay(store, "s1", today=Today(own={each.spec.name: each for each in TOOLS}))
    store.close()
    assert replayed.divergence is None


async def test_a_program_activates_groups_and_takes_them_back(env: dict[str, str]) -> None:
    model = ScriptedModel([ToolCall("invoice"), "done", "done", "done"])
    agent = Agent(model, tools=TOOLS, env=env, groups=["billing"], available_groups={"admin": "For admins."})
    async with agent, agent.session("s1") as session:
        assert session.groups.descriptions == {"billing": "", "admin": "For admins."}
        assert session.groups.active == ("billing",)
        session.groups.reset()
        await session.run("go")
        assert told(model) == ["invoice is not active: the group billing was taken back."]
        session.groups.activate("billing", "admin")
        with pytest.raises(UsageError, match="Did you mean `admin`"):
            session.groups.activate("admins")
    async with agent, agent.session("s1") as session:
        assert session.groups.active == ()
        session.groups.activate("billing", "admin")
        await session.run("go")
    assert {"invoice", "audit"} <= set(names(model))
    async with agent, agent.session("s1") as session:
        assert session.groups.active == ("billing", "admin")
        await session.run("go")
    assert {"invoice", "audit"} <= set(names(model))


async def test_groups_do_not_change_during_a_run(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel(["done"]), tools=TOOLS, env=env, available_groups=["billing"])
    async with agent, agent.session() as session, session.stream("go") as stream:
        async for _ in stream:
            with pytest.raises(UsageError, match="during a run"):
                session.groups.activate("billing")
            break


async def test_a_session_of_an_older_version_keeps_its_tool(env: dict[str, str]) -> None:
    model = await run(env, available_groups=["billing"])
    store = store_of(env)
    [(text,)] = store.database.query("SELECT settings FROM sessions")
    assert json.loads(text)["tool_choice"]["can_reset"] is True
    store.close()
    [equip] = [spec for spec in model.requests[0].tools if spec.name == "equip_tools"]
    assert EquipTools({}, ()).spec.parameters["required"] == ["group"]
    assert list(EquipTools({}, ()).spec.parameters["properties"]) == ["group"]
    assert list(equip.parameters["properties"]) == ["group", "reset"]
