"""A waiting call of a sub-agent is decided while the sub-agents beside it run on."""

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from support.commands.command import Command
from support.models.server import ModelServer, Request, Turn, call, calls, say
from support.models.server import ToolCall as ServedCall
from support.models.talk import environment
from support.waiting import until

from sandbur import Agent, ModelRequest, PendingToolCall, UserCodeError, tool
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


class Family:
    """A parent that starts a buyer, whose call asks, and a slow one, which ends when it is allowed to."""

    def __init__(self, store: TemporaryStore, tasks: tuple[str, ...] = ("rope", "slow"), at_once: int = 16):
        self.bought: list[str] = []
        self.asked: list[str] = []
        self.may_end = asyncio.Event()
        self.has_bought = asyncio.Event()
        self.slow_runs = asyncio.Event()
        self._tasks = tasks

        @tool
        def buy(item: str) -> str:
            """Buy an item."""
            self.bought.append(item)
            self.has_bought.set()
            return f"bought {item}"

        place = {"store": store.url, "env": {**store.env, "SANDBUR_AGENTS_AT_ONCE": str(at_once)}}
        self.worker = Agent(
            ScriptedModel(self._answer), name="worker", description="Works.", tools=[buy], **place
        )
        self.agent = Agent(ScriptedModel(self._lead), agents=[self.worker], **place)

    def _lead(self, request: ModelRequest) -> Any:
        found = results_of(request)
        if found:
            return " | ".join(one.splitlines()[0] for one in found)
        return [ToolCall("task", description="d", prompt=one, agent="worker") for one in self._tasks]

    async def _answer(self, request: ModelRequest) -> Any:
        item = next(iter(request.messages)).text
        if item == "slow":
            self.slow_runs.set()
            await self.may_end.wait()
            return "slow ended"
        return results_of(request)[0] if results_of(request) else ToolCall("buy", item=item)


def test_the_sub_agent_goes_on_before_the_others_have_ended(store: TemporaryStore) -> None:
    async def run() -> tuple[str, list[str]]:
        family = Family(store)

        def decide(call: PendingToolCall) -> bool:
            family.asked.append(call.reason)
            return True

        async def end_slow_after_purchase() -> None:
            await family.has_bought.wait()
            family.may_end.set()

        ending = asyncio.ensure_future(end_slow_after_purchase())
        result = await family.agent.run("go", on_approval=decide)
        await ending
        assert family.bought == ["rope"]
        return result.text, family.asked

    text, asked = asyncio.run(asyncio.wait_for(run(), 60))
    assert text == "bought rope | slow ended"
    assert asked == ["sub-agent worker: may change something: buy"]


def test_a_sub_agent_whose_call_waits_lets_another_one_run(store: TemporaryStore) -> None:
    async def run() -> str:
        family = Family(store, at_once=1)

        async def decide(call: PendingToolCall) -> bool:
            await family.slow_runs.wait()
            family.may_end.set()
            return True

        return (await family.agent.run("go", on_approval=decide)).text

    text = asyncio.run(asyncio.wait_for(run(), 60))
    assert sorted(text.split(" | ")) == ["bought rope", "slow ended"]


def test_a_denied_call_is_denied_at_once(store: TemporaryStore) -> None:
    async def run() -> str:
        family = Family(store)

        def decide(call: PendingToolCall) -> str:
            asyncio.get_running_loop().call_later(0.05, family.may_end.set)
            return "too dear"

        return (await family.agent.run("go", on_approval=decide)).text

    assert asyncio.run(run()).startswith("Denied by the user: too dear")


def test_an_answer_that_comes_after_the_others_have_ended_counts_and_is_asked_for_once(
    store: TemporaryStore,
) -> None:
    async def run() -> tuple[str, list[str]]:
        family = Family(store)

        async def decide(call: PendingToolCall) -> bool:
            family.asked.append(call.call_id)
            family.may_end.set()
            await until(lambda: opened.index.summary("s").status == "needs_approval")
            return True

        opened = Store.open(store.url)
        try:
            return (await family.agent.run("go", session_id="s", on_approval=decide)).text, family.asked
        finally:
            opened.close()

    text, asked = asyncio.run(asyncio.wait_for(run(), 60))
    assert sorted(text.split(" | ")) == ["bought rope", "slow ended"]
    assert len(asked) == 1


def test_an_error_of_the_program_that_decides_reaches_the_program(store: TemporaryStore) -> None:
    async def run() -> None:
        family = Family(store)

        def decide(call: PendingToolCall) -> bool:
            family.may_end.set()
            raise ValueError("a bug of the program")

        await family.agent.run("go", on_approval=decide)

    with pytest.raises(
        UserCodeError, match=r"decide \(on_approval\) failed: ValueError: a bug of the program"
    ):
        asyncio.run(run())


def test_a_call_that_is_left_to_wait_waits_and_is_not_asked_about_again(store: TemporaryStore) -> None:
    async def run() -> tuple[str, list[str]]:
        family = Family(store)

        def leave(call: PendingToolCall) -> None:
            family.asked.append(call.call_id)
            family.may_end.set()

        return (await family.agent.run("go", on_approval=leave)).status, family.asked

    status, asked = asyncio.run(run())
    assert (status, len(asked)) == ("needs_approval", 1)


def test_an_interruption_while_it_is_asked_loses_nothing(store: TemporaryStore) -> None:
    async def run() -> str:
        family = Family(store)
        is_asked = asyncio.Event()

        async def decide(call: PendingToolCall) -> bool:
            is_asked.set()
            await asyncio.sleep(60)
            return True

        running = asyncio.ensure_future(family.agent.run("go", session_id="s", on_approval=decide))
        await is_asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        family.may_end.set()
        async with family.agent.session("s") as session:
            result = await session.run(on_approval=lambda call: True)
        assert family.bought == ["rope"]
        return result.text

    text = asyncio.run(asyncio.wait_for(run(), 60))
    assert sorted(text.split(" | ")) == ["bought rope", "slow ended"]


def test_a_call_is_decided_at_the_sub_agent_while_the_others_run(store: TemporaryStore) -> None:
    async def run() -> str:
        family = Family(store)
        running = asyncio.ensure_future(family.agent.run("go", session_id="s"))
        opened = Store.open(store.url)

        def find_waiting() -> list[str]:
            return [one.id for one in opened.index.children_of("s") if one.status == "needs_approval"]

        await until(find_waiting)
        (child,) = find_waiting()
        opened.close()
        assert (await family.worker.approve(child)).text == "bought rope"
        family.may_end.set()
        assert (await running).status == "needs_approval"
        async with family.agent.session("s") as session:
            return (await session.run()).text

    text = asyncio.run(asyncio.wait_for(run(), 60))
    assert sorted(text.split(" | ")) == ["bought rope", "slow ended"]


def test_the_command_decides_at_the_parent_about_a_sub_agent_while_the_others_run(command: Command) -> None:
    place = command.folder / ".config" / "sandbur"
    (place / "agents").mkdir(parents=True)
    (place / "agents" / "worker.md").write_text("---\nname: worker\ndescription: Works.\n---\nWork.\n")
    may_end = threading.Event()

    def reply(request: Request) -> Turn:
        messages = request.body["messages"]
        found = [message["content"] for message in messages if message["role"] == "tool"]
        task = next(message["content"] for message in messages if message["role"] == "user")
        if task == "slow":
            return replace(say("slow ended"), after=may_end)
        if found:
            return say(" | ".join(one.splitlines()[0] for one in found))
        if task == "buy":
            return call("run_shell_command", command="touch bought")
        calls_made = [{"description": "d", "prompt": one, "agent": "worker"} for one in ("buy", "slow")]
        return calls(*(ServedCall("task", json.dumps(one)) for one in calls_made))

    with ModelServer(reply) as server:
        env = environment(server)
        words = ("-p", "go", "-m", "openai-chat/gpt-test", "--output-format", "stream-json")
        running = command.start(*words, env=env)
        lines: list[dict[str, Any]] = []
        while not any(line["type"] == "approval" for line in lines):
            lines.append(json.loads(running.stdout.readline()))
        asked = next(line for line in lines if line["type"] == "approval")
        parent = lines[0]["session_id"]
        decided = command.run("approve", parent, **env)
        assert decided.code == 0, (decided.err, asked)
        assert (command.folder / "bought").exists()
        assert running.poll() is None
        may_end.set()
        running.communicate(timeout=60)
        resumed = command.run("-p", "-r", parent, **env)
    assert sorted(resumed.out.strip().split(" | ")) == ["(no output)", "slow ended"]
