"""What a program passes by mistake is one sentence that says what to write; what is meant is accepted."""

import copy
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from sandbur import Agent, KnowledgeBase
from sandbur.state.errors import UsageError, WrongType
from sandbur.testing import ScriptedModel, ToolCall, temporary_store

ID = uuid.UUID(int=7)


def pay(euros: int) -> str:
    """Pay."""
    return "paid"


async def enter(agent: Agent[Any], given: Any) -> Any:
    async with agent, agent.session(given) as session:
        return session.id


USES: Sequence[Callable[[Agent[Any], Any], Awaitable[Any]]] = [
    lambda agent, given: agent.run("go", session_id=given),
    lambda agent, given: anext(agent.stream("go", session_id=given)),
    enter,
    lambda agent, given: agent.history(given),
    lambda agent, given: agent.observe(given, "It rains."),
    lambda agent, given: agent.steer(given, "Stop."),
    lambda agent, given: agent.approve(given),
    lambda agent, given: agent.deny(given),
    lambda agent, given: agent.settle(given, "c1", "done"),
    lambda agent, given: agent.delete(given),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("given", [5, 5.0, b"chat", ["chat"]])
async def test_what_is_no_id_of_a_session_is_refused(use: Any, given: Any) -> None:
    with pytest.raises(WrongType, match=r"`session_id` takes a text or a uuid\.UUID, not"):
        await use(Agent(ScriptedModel(["x"]), store="memory:"), given)


async def test_a_uuid_is_an_id_of_a_session_like_its_text() -> None:
    with temporary_store() as store:
        agent = Agent(ScriptedModel(["One.", "Two."]), store=store.url)
        assert (await agent.run("go", session_id=ID)).session_id == str(ID)
        assert (await agent.run("go", session_id=str(ID))).output == "Two."
        assert await enter(agent, ID) == str(ID)
        assert await agent.history(ID) == await agent.history(str(ID))
        await agent.observe(ID, "It rains.")
        await agent.delete(ID)


async def test_a_plain_function_that_waits_says_how_to_go_on() -> None:
    result = await Agent(ScriptedModel([ToolCall("pay", euros=1)]), tools=[pay], store="memory:").run("go")
    assert (result.status, result.error) == ("needs_approval", None)
    for way in ("session.approve()", "on_approval=", 'allow=["pay"]', '@tool(effect="read")'):
        assert way in result.hint


def test_a_deep_copy_is_refused_with_the_way_to_copy() -> None:
    with pytest.raises(UsageError, match=r"agent\.clone"):
        copy.deepcopy(Agent(ScriptedModel(["x"]), store="memory:"))


@pytest.mark.parametrize("url", ["memory:a+b", "memory:a b", "memory:a/b", "memory://x"])
async def test_a_store_in_memory_with_a_wrong_name_says_which_names_there_are(url: str) -> None:
    with pytest.raises(UsageError, match=r"the name of a store in memory .* memory:NAME, with letters"):
        await Agent(ScriptedModel(["x"]), store=url).run("go")


class Sized:
    name = "own/sized"

    def __init__(self, stated: int, *lengths: int) -> None:
        self.dimensions = stated
        self._lengths = iter(lengths)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[0.5] * next(self._lengths) for _ in texts]


@pytest.mark.parametrize(("stated", "lengths"), [(3, (2,)), (3, (4,)), (0, (3, 2)), (3, (3, 0))])
async def test_an_embedder_of_a_wrong_size_is_named(stated: int, lengths: tuple[int, ...]) -> None:
    name = f"memory:{stated}-{'-'.join(map(str, lengths))}"

    async def use(base: KnowledgeBase) -> None:
        await base.add(text="hello", name="a.md")
        await base.search("hello")

    async with KnowledgeBase("docs", store=name, embeddings=Sized(stated, *lengths)) as base:
        with pytest.raises(UsageError, match="own/sized"):
            await use(base)
