"""Tools that call tools: what is recorded is returned when they run again, and no effect happens twice."""

from pathlib import Path

import pytest
from support.tools.errands import ASK, SEND, SEND_MORE, Errands, NoArguments, Step, Town

from sandbur import Agent
from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.builtin import BuiltinTool
from sandbur.agent.history.reports.stats import stats_of
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall


async def run_with_two_plans(town: Town, *later: Step) -> tuple[str, str]:
    """Run the errands until they ask, with other steps after the approval; return what the model got."""
    async with town.agent(ToolCall("errands"), "fine").session("s1") as session:
        assert (await session.run("go")).status == "needs_approval"
        town.errands.steps = later
        assert (await session.approve()).status == "done"
        (found,) = [one for message in session.history for one in message.tool_results]
    return found.outcome, found.content


async def test_the_same_calls_go_on_where_they_stopped(tmp_path: Path) -> None:
    town = Town(tmp_path, ASK, SEND)
    outcome, content = await run_with_two_plans(town, ASK, SEND)
    assert (outcome, content) == ("ok", '1. ask {"whom": "Ann"}: ok\n2. send {"what": "a"}: ok')
    assert town.done == ["ask Ann", "send a"]


@pytest.mark.parametrize("later", [(ASK,), ()])
async def test_fewer_calls_than_before_end_with_what_was_done(
    tmp_path: Path, later: tuple[Step, ...]
) -> None:
    town = Town(tmp_path, ASK, SEND)
    outcome, content = await run_with_two_plans(town, *later)
    assert outcome == "error"
    assert f"now made only {len(later)} of its calls. Nothing ran twice." in content
    assert '1. ask {"whom": "Ann"}: ok\n2. send {"what": "a"}: ok' in content
    assert town.done == ["ask Ann", "send a"]


@pytest.mark.parametrize("later", [(ASK, SEND_MORE), (ASK, ASK), (SEND, ASK)])
async def test_another_call_than_before_ends_with_what_was_done(
    tmp_path: Path, later: tuple[Step, ...]
) -> None:
    town = Town(tmp_path, ASK, SEND)
    outcome, content = await run_with_two_plans(town, *later)
    assert outcome == "error"
    assert "is another one than before" in content
    assert '2. send {"what": "a"}: ok' in content
    assert town.done == ["ask Ann", "send a"]


async def test_more_calls_than_before_are_calls_like_any_other(tmp_path: Path) -> None:
    town = Town(tmp_path, ASK, SEND)
    async with town.agent(ToolCall("errands"), "fine").session("s1") as session:
        await session.run("go")
        town.errands.steps = (ASK, SEND, SEND_MORE)
        assert (await session.approve()).status == "needs_approval"
        assert session.pending[0].call_id == "call_1_0/3"
        await session.approve()
    assert town.done == ["ask Ann", "send a", "send b"]


async def test_nested_calls_stand_in_no_history(tmp_path: Path) -> None:
    town = Town(tmp_path, ASK, SEND)
    async with town.agent(ToolCall("errands"), "fine").session("s1") as session:
        await session.run("go")
        await session.approve()
        found = [one.call_id for message in session.history for one in message.tool_results]
    assert found == ["call_1_0"]


async def test_a_nested_tool_makes_no_calls_of_its_own(tmp_path: Path) -> None:
    seen: list[bool] = []

    class Inner(Errands):
        async def run(self, arguments: NoArguments, context: ToolContext) -> ToolOutcome:
            seen.append(context.calls is None)
            return ToolOutcome("ok", "inner")

    town = Town(tmp_path, ("inner", "{}"))
    inner = Inner(())
    inner.spec = BuiltinTool("inner", "Inner.", NoArguments).spec
    agent = town.agent(ToolCall("errands"), "fine")
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home")}
    agent = Agent(
        ScriptedModel([ToolCall("errands"), "fine"]),
        tools=[town.errands, inner],
        store=f"sqlite:///{tmp_path}/runs.db",
        cwd=tmp_path,
        env=env,
    )
    await agent.run("go")
    assert seen == [True]


async def test_the_time_of_nested_calls_is_counted_once(tmp_path: Path) -> None:
    town = Town(tmp_path, ASK, SEND)
    async with town.agent(ToolCall("errands"), "fine").session("s1") as session:
        await session.run("go")
        await session.approve()
    store = Store.open(f"sqlite:///{tmp_path}/runs.db")
    found = stats_of(store)
    store.close()
    assert {name: tally.calls for name, tally in found.tools.items()} == {"errands": 1, "ask": 1, "send": 1}
    assert found.total.tool_ms == found.tools["errands"].duration_ms
