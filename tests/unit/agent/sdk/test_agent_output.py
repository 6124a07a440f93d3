"""`Agent(output=...)`: what a run comes to is a value of the type; a run that has to end by a tool does."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from sandbur import Agent, SandburError, tool
from sandbur.testing import ScriptedModel, ToolCall


class Review(BaseModel):
    verdict: str
    score: int = 5

    @field_validator("verdict")
    @classmethod
    def _known(cls, verdict: str) -> str:
        if verdict not in ("good", "bad"):
            raise ValueError("neither good nor bad")
        return verdict


GOOD = '{"verdict": "good", "score": null}'
FINE = '{"verdict": "fine", "score": 1}'


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


@tool(effect="read", done=True)
def hand_in(grade: int) -> str:
    """Hand the work in."""
    return f"grade {grade}"


@tool(effect="read")
def look() -> str:
    """Look."""
    return "seen"


async def test_the_output_is_a_value_of_the_type(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("look"), GOOD]), tools=[look], output=Review, env=env)
    result = await agent.run("review it")
    assert (result.status, result.output) == ("done", Review(verdict="good"))
    assert result.text == '{"verdict": "good"}'


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(list[int], "[1, 2]", [1, 2]), (int | str, '{"value": "x"}', "x"), (bool, "true", True)],
)
async def test_any_type_with_a_schema_will_do(env: dict[str, str], kind: Any, text: str, value: Any) -> None:
    assert (await Agent(ScriptedModel([text]), output=kind, env=env).run("go")).output == value


async def test_validators_of_the_type_count_and_the_model_is_told(env: dict[str, str]) -> None:
    model = ScriptedModel([FINE, GOOD])
    result = await Agent(model, output=Review, env=env).run("review it")
    assert result.output == Review(verdict="good")
    told = "".join(message.text for message in model.requests[1].messages)
    assert "neither good nor bad" in told


async def test_what_never_fits_is_an_error_and_a_resume_tries_again(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([FINE, FINE, GOOD]), output=Review, env=env)
    failed = await agent.run("review it")
    assert (failed.status, failed.output) == ("error", None)
    assert failed.error is not None
    assert failed.error.code == "output_invalid"
    async with agent, agent.session(failed.session_id) as session:
        assert (await session.run()).output == Review(verdict="good")


async def test_a_session_goes_on_with_the_form_that_it_began_with(env: dict[str, str]) -> None:
    class Other(BaseModel):
        title: str

    first = await Agent(ScriptedModel([GOOD]), output=Review, env=env).run("review it")
    other = Agent(ScriptedModel([GOOD]), output=Other, env=env)
    async with other, other.session(first.session_id) as session:
        assert any("output type of the agent has changed" in notice for notice in session.notices)
        result = await session.run("again")
    assert (result.status, result.text, result.output) == ("done", '{"verdict": "good"}', None)


async def test_a_run_has_to_end_by_its_done_tool(env: dict[str, str]) -> None:
    model = ScriptedModel(["I am through.", ToolCall("hand_in", grade=1)])
    result = await Agent(model, tools=[hand_in], require_done=True, env=env).run("go")
    assert (result.status, result.output) == ("done", "grade 1")


@tool(done=True)
def give_up() -> str:
    """Give up."""
    return "gave up"


@pytest.mark.parametrize("tools", [[look], [hand_in, give_up]])
def test_a_run_can_be_required_to_end_by_one_tool_only(tools: list[Any]) -> None:
    with pytest.raises(SandburError, match=r"require_done (needs|takes) one tool that ends the run"):
        Agent("demo", tools=tools, require_done=True)
