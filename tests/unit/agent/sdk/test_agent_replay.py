"""Runs of somebody's own tools are replayed: by those tools where they are here, else by the record."""

import os
from pathlib import Path

import pytest

from sandbur import Agent, tool
from sandbur.agent.history.replay.replay import Replayed, replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall

EFFECTS: list[str] = []


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
def ship(order: str) -> str:
    """Ship an order."""
    EFFECTS.append(order)
    return f"shipped {order}"


@pytest.fixture
async def store(tmp_path: Path) -> str:
    """Return the URL of a store with a run in which calls passed, were asked about and failed."""
    url = f"sqlite:///{tmp_path}/runs.db"
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}
    script = [
        ToolCall("double", number=2),
        ToolCall("double", number="x"),
        ToolCall("ship", order="7"),
        "Done.",
    ]
    agent = Agent(ScriptedModel(script), tools=[double, ship], store=url, env=env)
    EFFECTS.clear()
    async with agent.session("s") as session:
        await session.run("Ship it")
        result = await session.approve()
    assert (result.output, EFFECTS) == ("Done.", ["7"])
    return url


async def replayed(url: str, today: Today | None = None) -> Replayed:
    store = Store.open(url)
    try:
        return await replay(store, "s", today=today)
    finally:
        store.close()


async def test_a_run_is_replayed_by_the_record_where_its_tools_are_gone(store: str) -> None:
    found = await replayed(store)
    assert found.divergence is None
    assert found.steps > 5
    assert EFFECTS == ["7"]


async def test_a_run_is_replayed_with_the_tools_it_had_and_none_of_them_runs(store: str) -> None:
    found = await replayed(store, Today(own={"double": double, "ship": ship}))
    assert found.divergence is None
    assert EFFECTS == ["7"]


async def test_a_tool_that_was_changed_since_is_the_difference(store: str) -> None:
    @tool(name="double", effect="read")
    def other(number: int, twice: bool = True) -> int:
        """Double a number, perhaps."""
        return number

    found = await replayed(store, Today(own={"double": other, "ship": ship}))
    assert found.divergence is not None
    assert "tool double" in found.divergence.summary
