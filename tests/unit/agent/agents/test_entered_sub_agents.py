"""The session of a sub-agent can be opened like any other: it is the agent that it was, and its task stays
that of its parent."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from support.commands.command import Command

from sandbur import Agent, ModelRequest, ModelRetry, tool
from sandbur.state.errors import SessionHeld, UsageError
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall


class Count(BaseModel):
    number: int


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


def ask(prompt: str, agent: str = "worker", **more: str) -> ToolCall:
    return ToolCall("task", description="count", prompt=prompt, agent=agent, **more)


def start_once(prompt: str, agent: str = "worker") -> Any:
    def reply(request: ModelRequest) -> Any:
        found = results_of(request)
        return found[-1].splitlines()[0] if found else ask(prompt, agent)

    return reply


@tool(effect="read")
def measure() -> str:
    """Measure it."""
    return "3 m"


def child_that_measures(request: ModelRequest) -> Any:
    asked = [message.text for message in request.messages if message.role == "user"]
    return ToolCall("measure") if len(results_of(request)) < len(asked) else results_of(request)[-1]


def make_worker(store: TemporaryStore, reply: Any, **options: Any) -> Agent[Any]:
    options = {"name": "worker", "description": "Works.", **options}
    return Agent(ScriptedModel(reply), store=store.url, env=store.env, **options)


def make_parent(store: TemporaryStore, reply: Any, *agents: Agent[Any], **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel(reply), agents=agents, store=store.url, env=store.env, **options)


async def child_of(family: Agent[Any], session_id: str = "s") -> str:
    (info,) = [one async for one in family.sessions(parent=session_id)]
    return info.id


def test_a_sub_agent_that_its_parent_opens_has_its_own_tools_and_model(store: TemporaryStore) -> None:
    async def run() -> str:
        worker = make_worker(store, child_that_measures, tools=[measure])
        family = make_parent(store, start_once("how long?"), worker)
        await family.run("go", session_id="s")
        return (await family.run("and now?", session_id=await child_of(family))).output

    assert asyncio.run(run()) == "3 m"


def test_the_answer_of_a_sub_agent_that_its_parent_opens_has_the_sub_agents_type(
    store: TemporaryStore,
) -> None:
    refused: list[int] = []

    async def run() -> tuple[Any, Any]:
        worker = make_worker(store, ['{"number": 1}', '{"number": 2}', '{"number": 3}'], output=Count)

        @worker.output_validator
        def require_three(count: Count) -> None:
            if count.number == 2:
                refused.append(count.number)
                raise ModelRetry("More.")

        family = make_parent(store, start_once("count"), worker)
        first = await family.run("go", session_id="s")
        return first.output, (await family.run("again", session_id=await child_of(family))).output

    assert asyncio.run(run()) == ('{"number": 1}', Count(number=3))
    assert refused == [2]


def test_a_sub_agent_of_a_sub_agent_and_one_behind_a_tool_are_found(store: TemporaryStore) -> None:
    async def run() -> list[str]:
        leaf = make_worker(store, child_that_measures, name="leaf", tools=[measure])
        middle = make_worker(store, start_once("how long?", "leaf"), agents=[leaf])
        tailor = make_worker(store, child_that_measures, name="tailor", tools=[measure])

        def reply(request: ModelRequest) -> Any:
            found = results_of(request)
            calls = [ask("measure"), ToolCall("fit", input="measure")]
            return calls[len(found)] if len(found) < len(calls) else "done"

        family = make_parent(store, reply, middle, tools=[tailor.as_tool("fit", "Fits it.")])
        await family.run("go", session_id="s")
        below = [one.id async for one in family.sessions(children=True) if one.parent is not None]
        return [(await family.run("again", session_id=child)).output for child in below]

    assert asyncio.run(run()) == ["3 m"] * 3


def test_an_agent_of_another_family_does_not_open_a_sub_agent(store: TemporaryStore) -> None:
    async def run() -> None:
        family = make_parent(store, start_once("x"), make_worker(store, ["ok"]))
        await family.run("go", session_id="s")
        stranger = make_worker(store, ["no"], name="stranger")
        with pytest.raises(UsageError, match="the sub-agent worker, which this agent does not start"):
            await stranger.run("hello", session_id=await child_of(family))

    asyncio.run(run())


def test_what_a_sub_agent_answers_to_a_person_is_what_its_parent_gets(store: TemporaryStore) -> None:
    is_slow = asyncio.Event()
    asked: list[str] = []

    async def child(request: ModelRequest) -> str:
        asked.append(list(request.messages)[-1].text)
        if not is_slow.is_set():
            is_slow.set()
            await asyncio.sleep(60)
        return f"answer to {asked[-1]}"

    async def run() -> str:
        family = make_parent(store, start_once("count all"), make_worker(store, child))
        async with family.session("s") as session:
            running = asyncio.ensure_future(session.run("go"))
            await is_slow.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            corrected = await family.run("count only the red ones", session_id=await child_of(family))
            assert corrected.output == "answer to count only the red ones"
            await family.run("and the blue ones", session_id=await child_of(family))
            result = await session.run()
            # The two answers of the sub-agent to the person, and the two replies of the parent.
            assert result.usage.llm_calls == 4
            assert [child.output for child in result.children] == ["answer to and the blue ones"]
            return result.text

    assert asyncio.run(run()) == "answer to and the blue ones"
    assert asked == ["count all", "count only the red ones", "and the blue ones"]


def test_a_sub_agent_that_works_is_steered_and_not_entered(store: TemporaryStore) -> None:
    is_slow, may_end = asyncio.Event(), asyncio.Event()

    async def child(request: ModelRequest) -> Any:
        if not results_of(request):
            return ToolCall("measure")
        if not is_slow.is_set():
            is_slow.set()
            await may_end.wait()
            return ToolCall("measure")
        return list(request.messages)[-1].text

    async def run() -> str:
        family = make_parent(store, start_once("x"), make_worker(store, child, tools=[measure]))
        async with family.session("s") as session:
            running = asyncio.ensure_future(session.run("go"))
            await is_slow.wait()
            child_id = await child_of(family)
            with pytest.raises(SessionHeld, match=r"is running .*sandbur steer"):
                await family.run("hello", session_id=child_id)
            await family.steer(child_id, "only the red ones")
            may_end.set()
            return (await running).text

    assert asyncio.run(run()) == "only the red ones"


PROGRAM = '''
from sandbur import Agent, tool
from sandbur.testing import ScriptedModel, ToolCall

@tool(effect="read")
def measure() -> str:
    """Measure it."""
    return "3 m"

def child(request):
    asked = [message.text for message in request.messages if message.role == "user"]
    found = [result.content for message in request.messages for result in message.tool_results]
    return ToolCall("measure") if len(found) < len(asked) else f"{found[-1]}, {asked[-1]}"

def parent(request):
    found = [result.content for message in request.messages for result in message.tool_results]
    return found[-1] if found else ToolCall("task", description="measure", prompt="now", agent="worker")

def make():
    return Agent(ScriptedModel(child), name="worker", description="Measures.", tools=[measure])

shop = Agent(ScriptedModel(parent), agents=[make()])
'''


def test_the_command_opens_a_sub_agent_with_the_agent_of_its_parent_and_says_whose_it_is(
    command: Command,
) -> None:
    (command.folder / "shop.py").write_text(PROGRAM)
    first = command.run("-p", "go", "--agent", "shop:shop", "--output-format", "json").result
    found = command.run("sessions", "--children", first["session_id"], "--json")
    (child,) = [one["id"] for one in found.lines]
    for words in (("--agent", "shop:shop"), ()):
        ended = command.run("-p", "-r", child, "again", *words)
        assert ended.out.strip() == "3 m, again"
        assert (
            f"This is the sub-agent worker of session {first['session_id']}: measure. /back in a chat, or "
            f"sandbur -r {first['session_id']}, goes to that session."
        ) in " ".join(ended.err.split())
