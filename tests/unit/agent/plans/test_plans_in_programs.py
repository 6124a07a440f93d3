"""Agents of programs propose plans where the program asks for it, with the tools of the program."""

from pathlib import Path

import pytest

from sandbur import Agent, SandburError, tool
from sandbur.testing import ScriptedModel, ToolCall

PLAN = "# Refund\n## Refund order 17\n- tools: refund\n"
PROPOSAL = ToolCall("propose_plan", plan=PLAN)
END = ToolCall("finish_step", status="completed", summary="done")


@tool(effect="effect")
def refund(order: str) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


@tool(effect="effect")
def close_account(customer: str) -> str:
    """Close the account of a customer."""
    return f"the account of {customer} is closed"


async def test_a_plan_binds_the_tools_of_a_program(tmp_path: Path) -> None:
    turns = [PROPOSAL, ToolCall("refund", order="17"), ToolCall("close_account", customer="a"), END, "Done."]
    tools = [refund, close_account]
    agent = Agent(ScriptedModel(turns), tools=tools, plans=True, cwd=tmp_path, store="memory:")
    async with agent.session() as session:
        waiting = await session.run("go")
        assert waiting.pending[0].arguments["plan"] == PLAN
        waiting = await session.approve()
        assert waiting.pending[0].reason.startswith("outside the plan: ")
        result = await session.deny()
    assert result.output == "Done."


async def test_a_program_approves_another_plan_in_place_of_the_proposed_one(tmp_path: Path) -> None:
    turns = [PROPOSAL, ToolCall("close_account", customer="a"), END, "Done."]
    tools = [refund, close_account]
    agent = Agent(ScriptedModel(turns), tools=tools, plans=True, cwd=tmp_path, store="memory:")
    async with agent.session() as session:
        await session.run("go")
        result = await session.approve(arguments={"plan": PLAN.replace("refund", "close_account")})
    assert result.output == "Done."


@pytest.mark.parametrize("plans", [True, False])
async def test_an_agent_has_the_tool_only_if_the_program_asks_for_it(tmp_path: Path, plans: bool) -> None:
    model = ScriptedModel(["hello"])
    env = {"SANDBUR_PLAN_PROPOSALS": "1"}
    agent = Agent(model, tools=[refund], plans=plans, cwd=tmp_path, store="memory:", env=env)
    await agent.run("hello")
    assert any(one.name == "propose_plan" for one in model.requests[0].tools) is plans


def test_plans_need_planning() -> None:
    with pytest.raises(SandburError, match="plans=True needs planning"):
        Agent(ScriptedModel([]), tools=[refund], plans=True, planning="off")
