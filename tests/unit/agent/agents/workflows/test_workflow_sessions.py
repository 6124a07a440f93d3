"""Workflows as sessions: events, approvals, interruptions and resumes, in programs and in the command."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support.commands.command import Command
from support.models.program_agents import last_text, make_agent
from support.screens.reports import make_report

from sandbur import Agent, Loop, Map, ModelError, ModelRequest, Parallel, Sequential, retry, tool
from sandbur.actions.ports.events import RunFinished, RunStarted, SubAgent, SubAgentEvent, TextDelta
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store
from sandbur.testing import Say, ScriptedModel, TemporaryStore, ToolCall


class Score(BaseModel):
    value: int


async def list_starts(workflow: Agent[Any], message: str = "go") -> list[tuple[SubAgent, str]]:
    """Return the sub-agents of a run with the session ids that their events have, as they start."""
    async with workflow.stream(message) as events:
        return [
            (event.agent, event.event.session_id)
            async for event in events
            if isinstance(event, SubAgentEvent) and isinstance(event.event, RunStarted)
        ]


def test_events_say_where_in_the_workflow_their_agent_is(store: TemporaryStore) -> None:
    one = make_agent(store, last_text, "one")
    nested = Sequential(Loop(one, max_iterations=2, name="again"), Map(one, ["a", "b"], name="each"))
    starts = asyncio.run(list_starts(nested))
    assert all(agent.agent_id == session_id for agent, session_id in starts)
    assert sorted((agent.branch, agent.index, agent.iteration) for agent, _ in starts) == [
        ("again", 0, None),
        ("again/one", 0, 1),
        ("again/one", 0, 2),
        ("each", 1, None),
        ("each/one", 0, None),
        ("each/one", 1, None),
    ]
    parents = {agent.branch: agent.agent_id for agent, _ in starts}
    assert {agent.parent_id for agent, _ in starts if agent.branch == "each/one"} == {parents["each"]}


def test_attempts_are_counted_in_events(store: TemporaryStore) -> None:
    tries: list[int] = []

    def reply(request: ModelRequest) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("a bug of the provider's library")
        return "ok"

    agent = make_agent(store, reply, "one")
    starts = asyncio.run(list_starts(Parallel(agent, on_failure=retry(1))))
    assert [(agent.branch, agent.iteration) for agent, _ in starts] == [
        ("one", None),
        ("one", 1),
        ("one", 2),
    ]


def test_the_events_of_a_long_branch_do_not_pile_up(store: TemporaryStore) -> None:
    written = [0]

    async def reply(request: ModelRequest) -> Any:
        steps = len([message for message in request.messages if message.role == "tool"])
        written[0] += 1
        return (
            Say(*[f"word {n} " for n in range(20)], ToolCall("look", number=steps)) if steps < 100 else "end"
        )

    @tool(effect="read")
    def look(number: int) -> str:
        """Look."""
        return f"nothing in {number}"

    async def run() -> int:
        workflow = Sequential(Parallel(make_agent(store, reply, tools=[look])))
        ahead = 0
        async with workflow.stream("go") as events:
            read = 0
            async for event in events:
                if isinstance(event, SubAgentEvent) and isinstance(event.event, TextDelta):
                    read += 1
                    await asyncio.sleep(0.001)
                    ahead = max(ahead, written[0] - read)
        return ahead

    assert asyncio.run(run()) < 30
    assert written[0] == 101


def buyer(store: TemporaryStore, bought: list[str]) -> Agent[Any]:
    @tool
    def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return f"bought {item}"

    def reply(request: ModelRequest) -> Any:
        found = list(request.messages)[-1].tool_results
        return found[0].content if found else ToolCall("buy", item="rope")

    return make_agent(store, reply, "buyer", tools=[buy])


def test_an_approval_shows_at_the_outermost_session_and_the_others_go_on(store: TemporaryStore) -> None:
    bought: list[str] = []
    asked: list[int] = []

    def other(request: ModelRequest) -> str:
        asked.append(1)
        return "other"

    async def run() -> tuple[Any, Any]:
        inner = Parallel(buyer(store, bought), make_agent(store, other), name="inner")
        async with Sequential(inner).session("outer") as session:
            first = await session.run("go")
            return first, await session.approve()

    first, second = asyncio.run(run())
    assert first.status == "needs_approval"
    assert [(call.tool, call.reason) for call in first.pending] == [
        ("buy", "sub-agent inner/buyer: may change something: buy")
    ]
    assert (second.status, second.output, bought, asked) == (
        "done",
        ["bought rope", "other"],
        ["rope"],
        [1],
    )
    opened = Store.open(store.url)
    written = make_report(opened, "md", "outer")
    opened.close()
    (call,) = (line for line in written.splitlines() if line.startswith("> **1.1. buy"))
    assert "(in session " in call, "the sub-agent ran it"


def test_two_branches_wait_for_decisions_of_their_own(store: TemporaryStore) -> None:
    bought: list[str] = []

    async def run() -> list[Any]:
        one = buyer(store, bought)
        async with Parallel(one, one).session() as session:
            first = await session.run("go")
            second = await session.approve(first.pending[1].call_id)
            third = await session.deny(reason="enough")
            return [len(first.pending), second.status, len(second.pending), third.output]

    pending, status, left, output = asyncio.run(run())
    assert (pending, status, left) == (2, "needs_approval", 1)
    assert output[1] == "bought rope"
    assert "enough" in output[0]
    assert bought == ["rope"]


def test_a_fork_of_a_workflow_goes_on_with_what_its_branches_had_done(store: TemporaryStore) -> None:
    bought: list[str] = []
    begun: list[str] = []

    def other(request: ModelRequest) -> str:
        begun.append("other")
        return "other"

    async def run() -> list[Any]:
        workflow = Sequential(Parallel(make_agent(store, other), buyer(store, bought)))
        async with workflow:
            await workflow.run("go", session_id="s")
            opened = Store.open(store.url)
            opened.fork("s", "fork")
            opened.close()
            of_fork = await workflow.approve("fork")
            return [of_fork.output, (await workflow.approve("s")).output]

    assert asyncio.run(run()) == [["other", "bought rope"]] * 2
    assert (bought, begun) == (["rope", "rope"], ["other"])


def test_a_workflow_keeps_its_sessions_in_memory(store: TemporaryStore) -> None:
    async def run() -> Any:
        agent = Agent(ScriptedModel(last_text), store="memory:", env=store.env)
        workflow = Sequential(Parallel(agent, agent))
        async with workflow:
            result = await workflow.run("go", session_id="s")
            return result.output, "s" in [one.id async for one in workflow.sessions()]

    assert asyncio.run(run()) == (["go", "go"], True)


def test_a_branch_that_waits_for_a_decision_is_not_asked_about_after_the_end(store: TemporaryStore) -> None:
    has_asked = asyncio.Event()
    bought: list[str] = []

    async def run() -> Any:
        waiting = buyer(store, bought)

        async def winner(request: ModelRequest) -> str:
            await has_asked.wait()
            return "won"

        workflow = Parallel(waiting, make_agent(store, winner), stop_on=lambda result: True)
        async with workflow.session() as session, session.stream("go") as events:
            async for event in events:
                if isinstance(event, SubAgentEvent) and isinstance(event.event, RunFinished):
                    has_asked.set()
            return session.result

    result = asyncio.run(run())
    assert (result.status, result.output, result.pending, bought) == ("done", [None, "won"], (), [])


def interrupt_at(store: TemporaryStore, make: Callable[[Any, Any], Agent[Any]]) -> tuple[list[str], Any]:
    """Interrupt a workflow once its agent `quick` has ended, and resume it in another object."""
    begun: list[str] = []

    def quick(request: ModelRequest) -> str:
        begun.append("quick")
        return "quick"

    async def slow(request: ModelRequest) -> str:
        begun.append("slow")
        if begun.count("slow") == 1:
            await asyncio.sleep(60)
        return "slow"

    async def run() -> Any:
        one, two = make_agent(store, quick, "quick"), make_agent(store, slow, "slow")
        async with make(one, two).session("s") as session, session.stream("go") as events:
            async for event in events:
                if begun.count("slow") and isinstance(event, SubAgentEvent):
                    break
        async with make(one, two).session("s") as session:
            return await session.run()

    return begun, asyncio.run(run())


@pytest.mark.parametrize(
    ("make", "output"),
    [
        (lambda one, two: Parallel(one, two), ["quick", "slow"]),
        (lambda one, two: Sequential(one, two), "slow"),
        (lambda one, two: Sequential(Parallel(one), Loop(two, max_iterations=1)), "slow"),
        (lambda one, two: Parallel(one, two, on_failure=retry(1)), ["quick", "slow"]),
    ],
)
def test_an_interrupted_workflow_resumes_with_what_had_not_ended(
    store: TemporaryStore, make: Callable[[Any, Any], Agent[Any]], output: Any
) -> None:
    begun, result = interrupt_at(store, make)
    assert (result.status, result.output) == ("done", output)
    assert begun.count("quick") == 1
    assert begun.count("slow") == 2
    assert all(child.status == "done" for child in result.children)


def test_a_new_message_begins_an_interrupted_workflow_again(store: TemporaryStore) -> None:
    begun: list[str] = []

    async def reply(request: ModelRequest) -> str:
        begun.append(last_text(request))
        if last_text(request) == "first":
            await asyncio.sleep(60)
        return last_text(request)

    async def run() -> Any:
        async with Sequential(make_agent(store, reply, "one")).session("s") as session:
            async with session.stream("first") as events:
                async for _ in events:
                    if begun:
                        break
            return await session.run("second")

    result = asyncio.run(run())
    assert (result.output, begun) == ("second", ["first", "second"])
    assert len(result.children) == 1


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda one, two: Sequential(two, one),
            "The workflow has changed: agent 2 was two when the session began, and is one now.",
        ),
        (
            lambda one, two: Sequential(one),
            "The workflow has changed: agent 2 was two when the session began, and is missing now.",
        ),
    ],
)
def test_a_resume_with_other_agents_says_which_one_does_not_fit(
    store: TemporaryStore, make: Callable[..., Agent[Any]], sentence: str
) -> None:
    fails = [True]

    def reply(request: ModelRequest) -> str:
        if fails:
            raise ModelError("The provider is gone.")
        return "done by two"

    one, two = make_agent(store, last_text, "one"), make_agent(store, reply, "two")

    async def run(workflow: Agent[Any], message: str | None) -> Any:
        async with workflow.session("s") as session:
            return await session.run(message)

    assert asyncio.run(run(Sequential(one, two), "go")).status == "error"
    fails.clear()
    refused = asyncio.run(run(make(one, two), None))
    assert (refused.status, refused.error.code, refused.error.message) == (
        "error", "workflow_failed", sentence,
    )  # fmt: skip
    assert asyncio.run(run(Sequential(one, two), None)).output == "done by two"


def test_a_message_while_it_runs_does_not_disturb_a_workflow(store: TemporaryStore) -> None:
    async def run() -> Any:
        async with workflow.session("s") as session:

            async def steer(request: ModelRequest) -> str:
                await session.steer("hurry up")
                return last_text(request)

            replies.append(steer)
            return await session.run("go")

    replies: list[Any] = []

    async def reply(request: ModelRequest) -> str:
        return await replies[0](request)

    agent = make_agent(store, reply)
    workflow = Sequential(agent, Parallel(agent))
    assert asyncio.run(run()).output == ["go"]


def test_children_of_an_ordinary_agent_are_in_its_result(store: TemporaryStore) -> None:
    worker = make_agent(store, lambda request: "looked", "worker", description="Looks.")
    call = ToolCall("task", description="look", prompt="x", agent="worker")
    lead = Agent(ScriptedModel([call, "ok"]), agents=[worker], store=store.url, env=store.env)
    (child,) = lead.run_sync("go").children
    assert (child.name, child.status, child.output, child.usage.llm_calls) == ("worker", "done", "looked", 1)


@pytest.mark.parametrize("is_same_process", [True, False])
def test_a_resumed_run_has_the_results_of_agents_that_had_ended_in_their_order(
    store: TemporaryStore, is_same_process: bool
) -> None:
    fails = [True]

    def reply(request: ModelRequest) -> Any:
        if fails:
            raise ModelError("The provider is gone.")
        return "late"

    def judge(request: ModelRequest) -> Any:
        return {"value": 3}

    first = make_agent(store, reply, "first")
    second = make_agent(store, judge, "second", output=Score)
    workflow = Parallel(first, second)

    async def run(message: str | None) -> Any:
        async with workflow.session("s") as session:
            failed = await session.run(message)
            if is_same_process and message is not None:
                fails.clear()
                return await session.run()
            return failed

    result = asyncio.run(run("go"))
    if not is_same_process:
        again = asyncio.run(run(None))
        assert again.status == "error"
        assert ("second", "done", Score(value=3), 1) in [
            (child.name, child.status, child.output, child.index) for child in again.children
        ]
        fails.clear()
        result = asyncio.run(run(None))
    assert [(child.name, child.output, child.index) for child in result.children] == [
        ("first", "late", 0),
        ("second", Score(value=3), 1),
    ]


@pytest.mark.parametrize("is_same_process", [True, False])
def test_a_resumed_run_of_an_agent_has_the_results_of_the_sub_agents_of_its_turn(
    store: TemporaryStore, is_same_process: bool
) -> None:
    fails = [True]
    task = {"description": "look", "agent": "worker"}

    def reply(request: ModelRequest) -> Any:
        if list(request.messages)[-1].tool_results:
            if fails:
                raise ModelError("The provider is gone.")
            return "ok"
        return [ToolCall("task", prompt=one, **task) for one in ("a", "b")]

    worker = make_agent(store, last_text, "worker", description="Looks.")
    lead = make_agent(store, reply, agents=[worker])

    async def run(*messages: str | None) -> Any:
        async with lead.session("s") as session:
            for message in messages:
                result = await session.run(message)
                fails.clear()
            return result

    result = asyncio.run(run("go", None) if is_same_process else run("go"))
    result = result if is_same_process else asyncio.run(run(None))
    assert [(child.name, child.status, child.output) for child in result.children] == [
        ("worker", "done", "a"),
        ("worker", "done", "b"),
    ]
    assert asyncio.run(run("again")).children[0].session_id != result.children[0].session_id


PROGRAM = """
import os
from pathlib import Path
from sandbur import Agent, Parallel, Sequential
from sandbur.testing import ScriptedModel

def reply(request):
    text = list(request.messages)[-1].text
    log = Path("log")
    with log.open("a") as file:
        file.write(text + "\\n")
    if text == "GO" and log.read_text().count("GO") == 1:
        os._exit(9)
    return text.upper()

step = Agent(ScriptedModel(reply), name="step")
workflow = Sequential(step, Parallel(step, step))
"""


def test_the_command_runs_and_resumes_a_workflow(tmp_path: Path, command: Command) -> None:
    (tmp_path / "flows_of_mine.py").write_text(PROGRAM)
    words = ("-C", str(tmp_path), "--agent", "flows_of_mine:workflow", "--session-id")
    session = "6b8ddc35-9a13-4c33-a3f2-7d3a0a9d8a01"
    died = command.run(*words, session, "-p", "go")
    assert died.code == 9
    resumed = command.run("-p", "-r", session, "--output-format", "json", SANDBUR_LEASE_S="1")
    assert resumed.code == 0, resumed.err
    found = json.loads(resumed.out)
    assert (found["output"], found["usage"]["llm_calls"]) == (["GO", "GO"], 3)
    assert (tmp_path / "log").read_text().split().count("go") == 1


def test_a_workflow_without_its_program_is_one_sentence(store: TemporaryStore) -> None:
    agent = make_agent(store, last_text)

    async def run(resumed: Agent[Any]) -> None:
        async with Parallel(agent).session("s") as session:
            await session.run("go")
        async with resumed.session("s") as session:
            await session.run("again")

    with pytest.raises(UsageError, match="This session is a workflow, and its program is not loaded here"):
        asyncio.run(run(agent))
    with pytest.raises(UsageError, match="a workflow/parallel, and the agent here is a workflow/loop"):
        asyncio.run(run(Loop(agent, max_iterations=1)))
