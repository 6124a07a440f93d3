"""Tests of an own agent: graph, store, gate and tools are real, only the model is scripted.

Needs pytest: `pytest examples/scripted_test.py`, or `python examples/scripted_test.py`. No key, no network.
"""

import subprocess
import sys
from collections.abc import Generator, Mapping
from typing import Annotated

import pytest

from sandbur import Agent, Depends, Model, tool
from sandbur.testing import (
    ScriptedModel,
    TemporaryStore,
    ToolCall,
    assert_replays,
    overrides,
    temporary_store,
)


# The agent, which would be in its own module.
class Shop:
    def stock(self, item: str) -> int:
        raise ConnectionError("the real shop is not for tests")


def get_shop() -> Shop:
    return Shop()


@tool(effect="read")
def stock(item: str, shop: Annotated[Shop, Depends(get_shop)]) -> int:
    """Say how many there are of an item."""
    return shop.stock(item)


@tool(subject="item")
def order(item: str, count: int) -> str:
    """Order something."""
    return f"ordered {count} {item}"


def shop_agent(model: str | Model, store: str | None = None, env: Mapping[str, str] | None = None) -> Agent:
    return Agent(
        model,
        instructions="You keep a shop.",
        tools=[stock, order],
        deny=["order(dynamite*)"],
        store=store,
        env=env,
    )


# Its tests.
class SmallShop(Shop):
    def stock(self, item: str) -> int:
        return 3


@pytest.fixture
def store() -> Generator[TemporaryStore]:
    with temporary_store() as lent, overrides({get_shop: SmallShop}):
        yield lent


def test_the_answer_rests_on_the_stock(store: TemporaryStore) -> None:
    model = ScriptedModel([ToolCall("stock", item="anvil"), "There are three."])
    result = shop_agent(model, store.url, store.env).run_sync("How many anvils?")
    assert result.output == "There are three."
    assert list(model.requests[-1].messages)[-1].tool_results[0].content == "3"
    model.assert_done()


def test_an_order_waits_for_a_person(store: TemporaryStore) -> None:
    model = ScriptedModel([ToolCall("order", item="anvil", count=2)])
    result = shop_agent(model, store.url, store.env).run_sync("Two more!")
    assert (result.status, [call.tool for call in result.pending]) == ("needs_approval", ["order"])


def test_dynamite_is_never_ordered(store: TemporaryStore) -> None:
    model = ScriptedModel([ToolCall("order", item="dynamite", count=1), "I must not."])
    assert shop_agent(model, store.url, store.env).run_sync("Dynamite!").status == "denied"


def test_what_was_recorded_still_happens(store: TemporaryStore) -> None:
    model = ScriptedModel([ToolCall("stock", item="rope"), "Three."])
    agent = shop_agent(model, store.url, store.env)
    run = agent.run_sync("How many ropes?")
    assert_replays(run.session_id, store=store.url, agent=agent)


if __name__ == "__main__":
    raise SystemExit(subprocess.call([sys.executable, "-m", "pytest", "-q", __file__]))
