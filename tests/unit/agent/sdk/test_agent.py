"""`sandbur.Agent`: what a program that runs agents of its own relies on."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import ValidationError
from support.models.server import ModelServer, say

import sandbur
from sandbur import Agent, Depends, Limits, RunContext, SandburError, events, tool
from sandbur.agent.extensions.middleware.model_router import ModelRouter, Route
from sandbur.agent.fleet.messages import create_session
from sandbur.state.errors import UsageError
from sandbur.state.store.recording import list_traces
from sandbur.state.store.store import Store
from sandbur.state.trace import RunBegan
from sandbur.testing import ScriptedModel, ToolCall
from sandbur.ui.server.routes.forms import NewSessionForm

Opened = dict[str, list[str]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data"), "PATH": os.environ["PATH"]}


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
def ship(order: str) -> str:
    """Ship an order."""
    return f"shipped {order}"


async def test_a_run_ends_with_its_answer_and_its_usage(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("double", number=21), "It is 42."]), tools=[double], env=env)
    result = await agent.run("What is twice 21?")
    assert (result.status, result.output, result.text) == ("done", "It is 42.", "It is 42.")
    assert result.usage.llm_calls == 2
    assert result.raise_for_status() is result


def test_it_runs_without_an_event_loop(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel(["Hello."]), env=env)
    assert agent.run_sync("Hi").output == "Hello."


async def test_the_model_sees_the_instructions_and_only_the_agents_tools(env: dict[str, str]) -> None:
    model = ScriptedModel(["Yes."])
    agent = Agent(model, instructions=lambda place: f"You are {place.session_id}.", tools=[double], env=env)
    await agent.run("Hi", session_id="support-7")
    (request,) = model.requests
    assert request.system.startswith("You are support-7.")
    names = [spec.name for spec in request.tools]
    assert names == ["double", "read_result", "start_plan", "submit_plan", "finish_step"]


async def test_instructions_may_be_awaited(env: dict[str, str]) -> None:
    async def written(place: object) -> str:
        await asyncio.sleep(0)
        return "You wait."

    model = ScriptedModel(["Yes."])
    await Agent(model, instructions=written, env=env).run("Hi")
    assert model.requests[0].system.startswith("You wait.")


async def test_a_stream_ends_with_the_result(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("double", number=1), "Two."]), tools=[double], env=env)
    seen = [event async for event in agent.stream("Hi")]
    assert isinstance(seen[0], events.RunStarted)
    assert isinstance(seen[-1], events.RunFinished)
    assert [event.content for event in seen if isinstance(event, events.ToolFinished)] == ["2"]


async def test_a_call_that_changes_something_waits_and_is_approved_in_another_process_object(
    env: dict[str, str],
) -> None:
    first = Agent(ScriptedModel([ToolCall("ship", order="7")]), tools=[ship], env=env)
    result = await first.run("Ship 7", session_id="order-7")
    assert result.status == "needs_approval"
    assert result.output is None
    with pytest.raises(sandbur.RunFailed, match="ship"):
        result.raise_for_status()

    second = Agent(ScriptedModel(["It is on its way."]), tools=[ship], env=env)
    async with second.session("order-7") as session:
        (waiting,) = session.pending
        assert (waiting.tool, waiting.arguments) == ("ship", {"order": "7"})
        result = await session.approve(waiting.call_id)
        assert result.output == "It is on its way."
        assert [result.content for message in session.history for result in message.tool_results] == [
            "shipped 7"
        ]


async def test_a_denial_tells_the_model_why(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("ship", order="7"), "Then not."]), tools=[ship], env=env)
    async with agent.session() as session:
        await session.run("Ship 7")
        await session.deny(reason="out of stock")
        (said,) = [result.content for message in session.history for result in message.tool_results]
    assert "out of stock" in said


async def test_naming_a_call_that_does_not_wait_is_refused(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("ship", order="7")]), tools=[ship], env=env)
    async with agent.session() as session:
        await session.run("Ship 7")
        with pytest.raises(SandburError, match="No call nope waits"):
            await session.approve("nope")


async def test_a_session_that_is_open_is_not_opened_a_second_time(env: dict[str, str]) -> None:
    @tool(effect="read")
    async def pause() -> str:
        """Wait."""
        await asyncio.sleep(0.1)
        return "rested"

    agent = Agent(ScriptedModel([ToolCall("pause"), "First.", "Second."]), tools=[pause], env=env)
    async with agent:
        both = await asyncio.gather(
            agent.run("a", session_id="one"), agent.run("b", session_id="one"), return_exceptions=True
        )
        answered, refused = both
        assert isinstance(answered, sandbur.RunResult)
        assert answered.output == "First."
        assert isinstance(refused, sandbur.SessionHeld)
        assert "one is open already" in refused.message
        assert (await agent.run("c", session_id="one")).output == "Second."
        async with agent.session() as new:
            with pytest.raises(sandbur.SessionHeld):
                await agent.run("d", session_id=new.id)
        assert [message.text for message in await agent.history("one") if message.role == "user"] == [
            "a",
            "c",
        ]


async def test_rules_of_the_agent_count(env: dict[str, str]) -> None:
    model = ScriptedModel([ToolCall("ship", order="7"), "Done."])
    result = await Agent(model, tools=[ship], allow=["ship"], env=env).run("Ship 7")
    assert result.status == "done"
    model = ScriptedModel([ToolCall("ship", order="7"), "Not done."])
    result = await Agent(model, tools=[ship], deny=["ship"], mode="yolo", env=env).run("Ship 7")
    assert result.status == "denied"


async def test_a_tool_that_always_asks_asks_in_yolo_mode_too(env: dict[str, str]) -> None:
    @tool(ask="always")
    def refund(cents: int) -> str:
        """Refund."""
        return "refunded"

    agent = Agent(ScriptedModel([ToolCall("refund", cents=5)]), tools=[refund], mode="yolo", env=env)
    result = await agent.run("Refund it")
    assert result.status == "needs_approval"
    assert "ask every time" in result.pending[0].reason


async def test_a_tool_that_never_asks_runs_unasked(env: dict[str, str]) -> None:
    @tool(ask="never")
    def note(text: str) -> str:
        """Note."""
        return "noted"

    agent = Agent(ScriptedModel([ToolCall("note", text="x"), "Ok."]), tools=[note], env=env)
    assert (await agent.run("Note x")).status == "done"


async def test_what_is_injected_is_closed_at_the_end_of_the_run(env: dict[str, str]) -> None:
    log: list[str] = []

    async def database() -> AsyncGenerator[dict[str, str]]:
        log.append("open")
        yield {"a@b.c": "Ann"}
        log.append("closed")

    @tool(effect="read")
    async def find(email: str, db: Annotated[dict[str, str], Depends(database)], run: RunContext) -> str:
        """Find."""
        log.append(run.session_id)
        return db[email]

    agent = Agent(
        ScriptedModel([ToolCall("find", email="a@b.c"), ToolCall("find", email="a@b.c"), "Ann."]),
        tools=[find], env=env,
    )  # fmt: skip
    assert (await agent.run("Who?", session_id="s")).output == "Ann."
    assert log == ["open", "s", "s", "closed"]


async def test_a_limit_ends_the_run_and_the_session_goes_on(env: dict[str, str]) -> None:
    model = ScriptedModel([ToolCall("double", number=1), "Two."])
    agent = Agent(model, tools=[double], limits=Limits(max_turns=1), env=env)
    async with agent.session() as session:
        result = await session.run("Hi")
        assert (result.status, result.exit_code) == ("turn_limit", 53)
        assert (await session.run()).output == "Two."


async def test_an_agents_environment_says_who_decides_and_what_its_middleware_reads(
    env: dict[str, str], tmp_path: Path
) -> None:
    class Notes(sandbur.Middleware):
        def on_start(self, session: sandbur.MiddlewareSession) -> None:
            assert session.env is own

    own = {**env, "SANDBUR_USER": "the bot"}
    agent = Agent(ScriptedModel(["Yes."]), middleware=[Notes()], env=own)
    assert (await agent.run("Hi", session_id="s")).output == "Yes."
    store = Store.open(f"sqlite:///{tmp_path}/data/sandbur.db")
    assert [
        one.record.by for one in list_traces(store.database, "s") if isinstance(one.record, RunBegan)
    ] == ["the bot"]
    store.close()


async def test_a_model_that_a_router_names_has_the_key_of_the_agents_environment(env: dict[str, str]) -> None:
    async with ModelServer([say("Hi.")]) as server:
        own = {**env, "OPENAI_API_KEY": "sk-of-the-agent", "OPENAI_BASE_URL": server.base_url}
        router = ModelRouter(Route(lambda request: True, "openai/m"))
        assert (await Agent(ScriptedModel([]), middleware=[router], env=own).run("Hi")).output == "Hi."
        assert server.requests[0].headers["authorization"] == "Bearer sk-of-the-agent"


async def test_who_stops_listening_interrupts_and_the_session_goes_on(env: dict[str, str]) -> None:
    agent = Agent(ScriptedModel([ToolCall("double", number=1), "Two."]), tools=[double], env=env)
    async with agent.session("s") as session:
        stream = session.stream("Hi")
        async for event in stream:
            if isinstance(event, events.ToolRequested):
                break
        await stream.aclose()
    async with agent.session("s") as session:
        assert (await session.run()).output == "Two."


async def test_many_sessions_run_at_once(env: dict[str, str]) -> None:
    model = ScriptedModel(lambda request: "Done.")
    async with Agent(model, tools=[double], env=env) as agent:
        results = await asyncio.gather(*(agent.run(f"Hi {n}", session_id=f"s{n}") for n in range(20)))
    assert [result.output for result in results] == ["Done."] * 20
    assert {result.session_id for result in results} == {f"s{n}" for n in range(20)}


async def test_a_history_is_read_loaded_and_cleared(env: dict[str, str]) -> None:
    model = ScriptedModel(["One.", "Two.", "Three."])
    async with Agent(model, env=env) as agent:
        await agent.run("First", session_id="a")
        past = await agent.history("a")
        assert [message.text for message in past] == ["First", "One."]
        async with agent.session("b") as session:
            session.load(past)
            await session.run("Second")
            assert [message.text for message in session.history] == ["First", "One.", "Second", "Two."]
            session.clear()
            await session.run("Third")
            assert [message.text for message in session.history] == ["Third", "Three."]
        assert [message.text for message in await agent.history("b")] == ["Third", "Three."]
        await agent.delete("b")
        with pytest.raises(SandburError, match="b"):
            await agent.history("b")


async def test_a_session_whose_tool_is_gone_says_so_and_opens(env: dict[str, str]) -> None:
    await Agent(ScriptedModel(["Hi."]), tools=[ship, double], env=env).run("Hi", session_id="s")

    @tool(name="double", effect="read")
    def other(number: float) -> float:
        """Double, in other words."""
        return number * 2

    async with Agent(ScriptedModel(["Yes."]), tools=[other], env=env).session("s") as session:
        said = " ".join(session.notices)
        assert "ship" in said
        assert "changed since it began: double" in said
        assert (await session.run("Still there?")).output == "Yes."


def test_two_tools_of_one_name_are_refused_at_once(env: dict[str, str]) -> None:
    with pytest.raises(SandburError, match="two tools called double"):
        Agent("demo", tools=[double, double], env=env)


def test_a_tool_with_a_name_of_the_graph_is_refused_at_once(env: dict[str, str]) -> None:
    def start_plan() -> None:
        """Start a plan."""

    with pytest.raises(UsageError, match="A tool cannot be called start_plan: the graph uses that name"):
        Agent("demo", tools=[start_plan], env=env)


async def test_a_store_that_is_no_store_is_named_as_the_agents(env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"^Agent\(...\): store: `ftp:` is not a store URL"):
        await Agent("demo", store="ftp://x", env=env).run("Hello")


@pytest.mark.parametrize("session_id", ["../x y", "-rf", "--yolo", "-", "", "a" * 65])
async def test_a_strange_session_id_is_refused(env: dict[str, str], session_id: str) -> None:
    agent = Agent(ScriptedModel([]), env=env)
    with pytest.raises(SandburError, match="cannot be the id of a session"):
        await agent.run("Hi", session_id=session_id)
    store = Store.open("memory:ids")
    with pytest.raises(SandburError, match="cannot be the id of a session"):
        await create_session(store, "shop:agent", agent, session_id, env=env)
    store.close()
    with pytest.raises(ValidationError):
        NewSessionForm.model_validate({"session_id": session_id})


async def test_the_host_is_left_as_it_was(env: dict[str, str]) -> None:
    def state() -> object:
        loggers = {
            name: (one.level, list(one.handlers), one.propagate, one.disabled)
            for name, one in logging.root.manager.loggerDict.items()
            if isinstance(one, logging.Logger) and name.partition(".")[0] in ("burr", "root", "sandbur")
        }
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        return (
            logging.root.level,
            list(logging.root.handlers),
            loggers,
            handlers,
            dict(os.environ),
            sys.path[:],
        )

    await Agent(ScriptedModel(["Hi."]), env=env).run("Hi")
    before = state()
    await Agent(ScriptedModel([ToolCall("double", number=1), "Hi."]), tools=[double], env=env).run("Hi")
    assert state() == before


@pytest.mark.parametrize("how", [{"repeats": True}, {"ask": "never"}, {}])
async def test_a_tool_is_polled_until_it_has_an_answer(env: dict[str, str], how: dict[str, Any]) -> None:
    answers = iter([*["running"] * 8, "ready"])

    @tool(effect="read", **how)
    def status(job: str) -> str:
        """Say how a job stands."""
        return next(answers)

    def ask(request: sandbur.ModelRequest) -> ToolCall | str:
        results = list(request.messages)[-1].tool_results
        return "Ready." if results and results[0].content == "ready" else ToolCall("status", job="7")

    rules = [] if how else ["status"]
    agent = Agent(ScriptedModel(ask), tools=[status], allow=rules, limits=Limits(max_turns=20), env=env)
    result = await agent.run("Wait for job 7")
    assert (result.status, result.output) == ("done", "Ready.")


async def test_in_yolo_a_model_that_repeats_itself_does_not_run_without_end(env: dict[str, str]) -> None:
    model = ScriptedModel(lambda request: ToolCall("double", number=1))
    result = await Agent(model, tools=[double], mode="yolo", env=env).run("Go")
    assert (result.status, result.exit_code) == ("repeated", 4)
    assert result.error is not None
    assert "repeats itself" in result.error.message
    assert len(model.requests) == 8
