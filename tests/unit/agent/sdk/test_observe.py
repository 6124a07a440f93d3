"""Messages that are only observed: in the history, in order, and nobody answers them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbur import Agent, AgentSession, Message, ModelRequest, SandburError, tool
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, ToolCall, assert_replays


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text or "(calls)" for message in messages if not message.tool_results]


class Room:
    """An agent whose model answers with what it has read of the person."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/room.db"
        self.env = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
        self.requests: list[ModelRequest] = []

    def agent(self) -> Agent:
        return Agent(ScriptedModel(self._answer), store=self.url, env=self.env)

    def _answer(self, request: ModelRequest) -> str:
        self.requests.append(request)
        return " | ".join(message.text for message in request.messages if message.origin == "person")


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


async def test_an_observed_message_is_in_the_history_and_no_model_is_asked(room: Room) -> None:
    await room.agent().observe("s", "Ada enters.")
    await room.agent().observe("s", "/mode is no command here.")
    assert not room.requests
    assert texts(await room.agent().history("s")) == ["Ada enters.", "/mode is no command here."]
    result = await room.agent().run("Who is here?", session_id="s")
    assert result.output == "Ada enters. | /mode is no command here. | Who is here?"
    assert_replays("s", store=room.url)


async def test_the_answer_of_the_last_turn_stays_the_result_after_a_message_was_observed(room: Room) -> None:
    async with room.agent().session("s") as session:
        await session.run("Hello.")
        await session.observe("Bob enters.")
        assert texts(session.history) == ["Hello.", "Hello.", "Bob enters."]
        again = await session.run()
    assert (again.status, again.output) == ("done", "Hello.")
    assert len(room.requests) == 1


async def test_the_first_observed_message_names_the_session(room: Room) -> None:
    async with room.agent() as agent, agent.session("s") as session:
        await session.observe("A parcel for Ada came.")
        await session.observe("It is heavy.")
    store = Store.open(room.url)
    assert store.index.summary("s").title == "A parcel for Ada came"
    store.close()


async def test_what_is_observed_during_a_run_reaches_the_next_model_call_in_order(tmp_path: Path) -> None:
    room = Room(tmp_path)
    sessions: list[AgentSession[str]] = []

    @tool(effect="read")
    async def wait() -> str:
        """Wait while other things happen."""
        await sessions[0].observe("first")
        await sessions[0].steer("second")
        await agent.observe("s", "third")
        return "waited"

    def answer(request: ModelRequest) -> ToolCall | str:
        room.requests.append(request)
        return "Done." if len(room.requests) > 1 else ToolCall("wait")

    agent = Agent(ScriptedModel(answer), tools=[wait], store=room.url, env=room.env)
    async with agent, agent.session("s") as session:
        sessions.append(session)
        assert (await session.run("Go.")).output == "Done."
        assert session.observed_messages == session.waiting_messages == ()
        assert texts(session.history) == ["Go.", "(calls)", "first", "second", "third", "Done."]
    assert_replays("s", store=room.url)


async def test_a_message_observed_while_a_call_waits_comes_before_the_next_model_call(tmp_path: Path) -> None:
    room = Room(tmp_path)

    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: ModelRequest) -> ToolCall | str:
        room.requests.append(request)
        return "Done." if len(room.requests) > 1 else ToolCall("pay")

    agent = Agent(ScriptedModel(answer), tools=[pay], store=room.url, env=room.env)
    assert (await agent.run("Pay.", session_id="s")).status == "needs_approval"
    await agent.observe("s", "The price fell.")
    async with agent.session("s") as session:
        assert [one.text for one in session.observed_messages] == ["The price fell."]
        assert session.waiting_messages == ()
        assert await session.next_queued() is None
        assert (await session.approve()).output == "Done."
        assert texts(session.history) == ["Pay.", "(calls)", "The price fell.", "Done."]
    assert_replays("s", store=room.url)


async def test_an_observed_message_in_a_plan_reaches_the_step_that_runs(tmp_path: Path) -> None:
    room = Room(tmp_path)
    steps = [{"description": "look"}]
    script = [
        ToolCall("start_plan", goal="know the weather"),
        ToolCall("submit_plan", steps=steps),
        ToolCall("look"),
        ToolCall("finish_step", status="completed", summary="looked"),
        "All done.",
    ]
    sessions: list[AgentSession[str]] = []

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await sessions[0].observe("It rains.")
        return "seen"

    agent = Agent(ScriptedModel(script), tools=[look], store=room.url, env=room.env)
    async with agent, agent.session("s") as session:
        sessions.append(session)
        result = await session.run("Look out.")
        assert result.output == "All done."
        assert "It rains." in texts(session.history)
    assert_replays("s", store=room.url)


async def test_secrets_in_an_observed_message_are_masked(room: Room) -> None:
    room.env["SHOP_API_KEY"] = "hunter2-hunter2-hunter2"
    await room.agent().observe("s", "The key is hunter2-hunter2-hunter2.")
    (message,) = await room.agent().history("s")
    assert "hunter2" not in message.text


async def test_an_empty_observed_message_is_refused(room: Room) -> None:
    with pytest.raises(SandburError, match="The message is empty"):
        await room.agent().observe("s", "  ")


async def test_a_session_that_another_process_runs_takes_an_observed_message(tmp_path: Path) -> None:
    room = Room(tmp_path)
    other = (
        "import asyncio, sys\nfrom sandbur import Agent\nfrom sandbur.testing import ScriptedModel\n"
        f"agent = Agent(ScriptedModel([]), store={room.url!r}, env={room.env!r})\n"
        "asyncio.run(agent.observe('s', 'from elsewhere'))\n"
    )

    @tool(effect="read")
    def look() -> str:
        """Look."""
        subprocess.run([sys.executable, "-c", other], check=True)
        return "seen"

    script = [ToolCall("look"), "Done."]
    agent = Agent(ScriptedModel(script), tools=[look], store=room.url, env=room.env)
    async with agent.session("s") as session:
        await session.run("Go.")
        assert texts(session.history) == ["Go.", "(calls)", "from elsewhere", "Done."]


async def test_a_list_of_messages_is_observed_in_order_and_in_one_step(room: Room) -> None:
    async with room.agent() as agent, agent.session("s") as session:
        await session.observe(["Ada enters.", "Bob enters."])
        assert texts(session.history) == ["Ada enters.", "Bob enters."]
        await session.observe(f"Guest {n} enters." for n in range(3))
        await session.observe([])
    await room.agent().observe("s", ("It rains.", "It stops."))
    store = Store.open(room.url)
    assert store.index.summary("s").steps == 3
    store.close()
    answer = "Ada enters. | Bob enters. | Guest 0 enters. | Guest 1 enters. | Guest 2 enters. | It rains."
    assert (await room.agent().run("Who?", session_id="s")).output == f"{answer} | It stops. | Who?"
    assert_replays("s", store=room.url)


async def test_a_list_with_a_bad_message_is_refused_as_a_whole(room: Room) -> None:
    with pytest.raises(SandburError, match="Message 2 of 3 is empty"):
        await room.agent().observe("s", ["one", " ", "three"])
    bad: tuple[Any, ...] = (["one", 2], 2)
    for message in bad:
        with pytest.raises(SandburError, match="`observe` takes a text or a list of texts, not int"):
            await room.agent().observe("s", message)
    assert [session.id async for session in room.agent().sessions()] == []
