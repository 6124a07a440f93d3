"""A program reads, begins, revises, ends and reopens the plans of a session."""

import os
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, PlanStep, plan_tools, tool
from sandbur.state.errors import UsageError
from sandbur.testing import ScriptedModel, ToolCall

DONE = [ToolCall("finish_step", status="completed", summary="it is done")]
TEXT = "# Write a note\n- expects: a note\n## Write it\n- writes: notes/\n## Read it\n"


@tool(effect="effect")
def act() -> str:
    """Act."""
    return "acted"


def agent_of(folder: Path, *turns: Any) -> Agent[str]:
    env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "data"), "PATH": os.environ["PATH"]}
    return Agent(ScriptedModel(turns), tools=[act, *plan_tools()], cwd=folder, env=env)


async def test_a_program_begins_a_plan_of_its_own_steps(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, DONE, DONE, "All done.")
    async with agent.session() as session:
        assert session.plan.current is None
        steps = ["Look", PlanStep("Write", expects="a file")]
        result = await session.plan.create("Do two things", steps, expects="two things")
        assert (result.status, result.output) == ("done", "All done.")
        plan = session.plan.current
        assert plan is not None
        assert (plan.goal, plan.expects, plan.status) == ("Do two things", "two things", "done")
        written = plan.steps[1]
        assert (written.expects, written.status, written.outcome) == ("a file", "completed", "it is done")
        assert [one.number for one in session.plan.history] == [1]


async def test_a_waiting_plan_is_revised_and_goes_on(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, [ToolCall("act")], DONE, DONE, "All done.")
    async with agent.session() as session:
        waits = await session.plan.create("Do it", ["Act", "Write"])
        assert waits.status == "needs_approval"
        session.plan.revise(["Clean up"], expects="it is clean")
        identity = session.id
    async with agent.session(identity) as session:
        session.plan.revise(["Clean up"], expects="it is clean")
        result = await session.approve()
        assert result.status == "done"
        assert [(one.description, one.status) for one in result.steps] == [
            ("Act", "completed"),
            ("Clean up", "completed"),
        ]


async def test_an_abandoned_plan_is_reopened_where_it_was_left(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, DONE, [ToolCall("act")], DONE, "All done.")
    async with agent.session() as session:
        await session.plan.create("Do it", ["Look", "Act"])
        await session.plan.abandon("not today")
        assert session.pending == ()
        (left,) = session.plan.history
        assert (left.status, left.outcome) == ("abandoned", "not today")
        identity = session.id
    async with agent.session(identity) as session:
        result = await session.plan.reopen(1)
        assert [one.status for one in result.steps] == ["completed", "completed"]
        assert "[The user abandoned the plan: not today]" in [one.text for one in session.history]


async def test_a_plan_with_permissions_needs_an_approval_each_time(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, DONE, DONE, "Done.", DONE, DONE, "Again.")
    async with agent.session() as session:
        with pytest.raises(UsageError, match="approve=True"):
            await session.plan.create_from(TEXT)
        assert (await session.plan.create_from(TEXT, approve=True)).status == "done"
        assert session.plan.history[0].was_approved
        with pytest.raises(UsageError, match="approve=True"):
            await session.plan.reopen(1)
        assert (await session.plan.reopen(1, approve=True)).output == "Again."


async def test_a_change_that_is_not_possible_raises_one_sentence(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, DONE, "Done.")
    async with agent.session() as session:
        with pytest.raises(UsageError, match="There is no plan"):
            await session.plan.finish("nothing")
        with pytest.raises(UsageError, match="no earlier plan 7"):
            await session.plan.reopen(7)
        with pytest.raises(UsageError, match="Line 3: there is no key"):
            await session.plan.create_from("# g\n## s\n- reads: x\n")
        await session.plan.create("Do it", ["Act"])
        with pytest.raises(UsageError, match="No plan is open"):
            session.plan.revise(["More"])
