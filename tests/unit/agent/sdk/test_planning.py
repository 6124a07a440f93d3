"""An agent has the tools that it is given, and no others; it plans where it has any."""

import os
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, Middleware, tool
from sandbur.testing import ScriptedModel, ToolCall

DECISIONS = ["start_plan", "submit_plan", "finish_step"]
WORDS = ("plan", "step")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def test_an_agent_without_tools_is_told_its_instructions_alone(env: dict[str, str]) -> None:
    model = ScriptedModel(["Yes.", "No."])
    await Agent(model, instructions="You are kind.", env=env).run("Hi")
    await Agent(model, env=env).run("Hi")
    assert [(request.system, request.tools) for request in model.requests] == [
        ("You are kind.", ()),
        ("", ()),
    ]


async def test_an_agent_with_tools_may_plan_unless_that_is_off(env: dict[str, str]) -> None:
    model = ScriptedModel(["Yes.", "No."])
    await Agent(model, tools=[look], env=env).run("Hi")
    await Agent(model, tools=[look], planning="off", env=env).run("Hi")
    planning, plain = model.requests
    assert [spec.name for spec in planning.tools] == ["look", "read_result", *DECISIONS]
    assert "start_plan" in planning.system
    assert [spec.name for spec in plain.tools] == ["look", "read_result"]
    assert not any(word in plain.system for word in WORDS)
    assert "denied" in plain.system


async def test_tools_of_a_middleware_count_as_tools(env: dict[str, str]) -> None:
    class Brings(Middleware):
        tools = (look,)

    model = ScriptedModel(["Yes."])
    await Agent(model, middleware=[Brings()], env=env).run("Hi")
    assert "start_plan" in [spec.name for spec in model.requests[0].tools]


@pytest.mark.parametrize("name", DECISIONS)
async def test_with_planning_off_a_tool_of_plans_is_one_that_is_not_there(
    env: dict[str, str], name: str
) -> None:
    model = ScriptedModel([ToolCall(name, goal="x", steps=[], status="completed", summary="x"), "Well."])
    async with Agent(model, tools=[look], planning="off", env=env).session() as session:
        result = await session.run("Hi")
        (answer,) = [one.content for message in session.history for one in message.tool_results]
    assert (result.status, result.output, result.steps) == ("done", "Well.", ())
    assert f"There is no tool named '{name}'" in answer


@pytest.mark.parametrize(("first", "later"), [("auto", "off"), ("off", "auto")])
async def test_what_a_model_is_told_stays_the_same_over_a_resume(
    env: dict[str, str], first: Any, later: Any
) -> None:
    model = ScriptedModel(["One.", "Two."])
    await Agent(model, tools=[look], planning=first, env=env).run("Hi", session_id="s")
    await Agent(model, tools=[look], planning=later, env=env).run("And?", session_id="s")
    before, after = model.requests
    assert (before.system, before.tools) == (after.system, after.tools)


async def test_a_form_of_answers_speaks_of_no_plan_where_there_is_none(env: dict[str, str]) -> None:
    model = ScriptedModel(['{"value": 5}'])
    await Agent(model, output=int, env=env).run("Hi")
    (spec,) = model.requests[0].tools
    assert spec.name == "final_answer"
    assert not any(word in spec.description for word in WORDS)
