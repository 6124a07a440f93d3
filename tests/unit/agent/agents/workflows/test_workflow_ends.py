"""How a workflow ends early or badly: failures by policy, stopped branches, escalation, votes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.models.program_agents import last_text, make_agent

from sandbur import (
    Agent,
    FirstAnswer,
    Limits,
    Loop,
    Map,
    ModelError,
    ModelRequest,
    Overloaded,
    Parallel,
    Sequential,
    Vote,
    escalate,
    retry,
    tool,
)
from sandbur.actions.ports.events import RunFinished, SubAgentEvent
from sandbur.testing import TemporaryStore, ToolCall


def say(store: TemporaryStore, text: str, name: str = "") -> Agent[Any]:
    return make_agent(store, lambda request: text, name)


def breaking(store: TemporaryStore, times: int = 99, name: str = "broken") -> Agent[Any]:
    """Return an agent whose model fails so often, and then answers."""
    left = [times]

    def reply(request: ModelRequest) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise ModelError("The provider is gone.")
        return "mended"

    return make_agent(store, reply, name)


def until_stopped(store: TemporaryStore, name: str = "endless") -> Agent[Any]:
    async def reply(request: ModelRequest) -> str:
        await asyncio.sleep(60)
        return "too late"

    return make_agent(store, reply, name)


def test_a_failure_ends_the_run_and_stops_the_agents_beside_it(store: TemporaryStore) -> None:
    result = Parallel(until_stopped(store), breaking(store)).run_sync("go")
    assert (result.status, result.output) == ("error", None)
    assert result.error is not None
    assert result.error.code == "workflow_failed"
    assert result.error.message == "The agent broken failed: The provider is gone."


def test_a_failed_run_resumes_with_the_agent_that_failed(store: TemporaryStore) -> None:
    begun: list[str] = []

    def fine(request: ModelRequest) -> str:
        begun.append("fine")
        return "fine"

    async def run() -> list[Any]:
        async with Sequential(make_agent(store, fine), breaking(store, 1)).session() as session:
            return [(await session.run("go")).status, (await session.run()).output]

    assert asyncio.run(run()) == ["error", "mended"]
    assert begun == ["fine"]


def test_agents_that_a_failure_stopped_go_on_with_the_resumed_run(store: TemporaryStore) -> None:
    begun: list[str] = []

    async def slow(request: ModelRequest) -> str:
        begun.append("slow")
        if len(begun) == 1:
            await asyncio.sleep(60)
        return "slow"

    async def run() -> list[Any]:
        workflow = Parallel(make_agent(store, slow), breaking(store, 1), say(store, "fine"))
        async with workflow.session() as session:
            return [(await session.run("go")).status, (await session.run()).output]

    assert asyncio.run(run()) == ["error", ["slow", "mended", "fine"]]
    assert begun == ["slow", "slow"]


def test_an_ignored_failure_is_none_in_the_list(store: TemporaryStore) -> None:
    result = Parallel(breaking(store), say(store, "fine"), on_failure="ignore").run_sync("go")
    assert (result.status, result.output) == ("done", [None, "fine"])
    assert [(child.status, child.is_answer) for child in result.children] == [
        ("error", False),
        ("done", True),
    ]
    assert result.children[0].error is not None
    assert result.children[0].error.message == "The provider is gone."


def test_an_agent_that_cannot_start_is_a_failure_by_the_same_policy(store: TemporaryStore) -> None:
    lost = Agent(store=store.url, env={**store.env, "OLLAMA_HOST": "127.0.0.1:9"})
    assert Parallel(lost, say(store, "fine"), on_failure="ignore").run_sync("go").output == [None, "fine"]
    assert Parallel(lost, say(store, "fine")).run_sync("go").status == "error"


def test_an_overloaded_agent_is_ignored_where_failures_are(store: TemporaryStore) -> None:
    def reply(request: ModelRequest) -> str:
        raise Overloaded("busy")

    busy = make_agent(store, reply)
    assert Parallel(busy, say(store, "fine"), on_failure="ignore").run_sync("go").output == [None, "fine"]
    assert Parallel(busy, say(store, "fine")).run_sync("go").status == "rate_limited"


def test_ignored_failures_hand_on_what_was_given(store: TemporaryStore) -> None:
    seen = make_agent(store, last_text)
    assert Sequential(breaking(store), seen, on_failure="ignore").run_sync("go").output == "go"
    steps = Sequential(say(store, "draft"), breaking(store), seen, on_failure="ignore")
    assert steps.run_sync("go").output == "draft"
    assert Loop(breaking(store, 2), max_iterations=3, on_failure="ignore").run_sync("go").output == "mended"
    failed = Loop(breaking(store), max_iterations=2, on_failure="ignore").run_sync("go")
    assert failed.error is not None
    assert failed.error.message == "No agent of the workflow gave an answer: The provider is gone."


@pytest.mark.parametrize(("failures", "status"), [(0, "done"), (2, "done"), (3, "error")])
def test_a_failed_agent_runs_again_from_its_beginning(
    store: TemporaryStore, failures: int, status: str
) -> None:
    workflow = Parallel(say(store, "fine"), breaking(store, failures), on_failure=retry(2))
    result = workflow.run_sync("go")
    assert result.status == status
    if status == "done":
        assert result.output == ["fine", "mended"]
    assert retry(2) == "retry(2)"


def test_a_retried_agent_holds_no_other_agent_back(store: TemporaryStore) -> None:
    has_retried = asyncio.Event()
    tries = [0]

    async def failing(request: ModelRequest) -> str:
        tries[0] += 1
        if tries[0] == 1:
            raise ModelError("no")
        has_retried.set()
        return "second"

    async def slow(request: ModelRequest) -> str:
        await asyncio.wait_for(has_retried.wait(), 30)
        return "slow"

    workflow = Parallel(make_agent(store, slow), make_agent(store, failing), on_failure=retry(1))
    assert workflow.run_sync("go").output == ["slow", "second"]


def test_a_slow_branch_holds_only_those_back_who_need_it(store: TemporaryStore) -> None:
    is_last = asyncio.Event()

    async def slow(request: ModelRequest) -> str:
        await asyncio.wait_for(is_last.wait(), 30)
        return "slow"

    def last(request: ModelRequest) -> str:
        is_last.set()
        return "last"

    chain = Sequential(say(store, "one"), say(store, "two"), make_agent(store, last))
    assert Parallel(make_agent(store, slow), chain).run_sync("go").output == ["slow", "last"]


def test_the_first_result_that_stops_a_workflow_interrupts_the_others(store: TemporaryStore) -> None:
    ends: dict[str, str] = {}

    async def run() -> Any:
        workflow = Parallel(
            until_stopped(store),
            say(store, "wrong", "wrong"),
            say(store, "right", "right"),
            stop_on=lambda result: result.output == "right",
        )
        async with workflow.session() as session:
            async with session.stream("go") as events:
                async for event in events:
                    if isinstance(event, SubAgentEvent) and isinstance(event.event, RunFinished):
                        ends[event.agent.name] = event.event.status
            return session.result

    result = asyncio.run(run())
    assert (result.status, result.output) == ("done", [None, "wrong", "right"])
    assert [child.status for child in result.children] == ["interrupted", "done", "done"]
    assert ends == {"endless": "interrupted", "wrong": "done", "right": "done"}


def test_what_a_stopped_agent_used_counts(store: TemporaryStore) -> None:
    @tool(effect="read")
    def wait() -> str:
        """Wait."""
        has_waited.set()
        return "waited"

    has_waited = asyncio.Event()

    async def endless(request: ModelRequest) -> Any:
        if list(request.messages)[-1].tool_results:
            await asyncio.sleep(60)
        return ToolCall("wait")

    async def quick(request: ModelRequest) -> str:
        await has_waited.wait()
        return "quick"

    workflow = FirstAnswer(make_agent(store, endless, tools=[wait]), make_agent(store, quick))
    result = workflow.run_sync("go")
    assert (result.output, result.usage.llm_calls) == ("quick", 2)
    assert [child.usage.llm_calls for child in result.children] == [1, 1]


def test_a_branch_that_had_not_begun_does_not_begin_after_the_end(store: TemporaryStore) -> None:
    begun: list[str] = []

    def reply(request: ModelRequest) -> str:
        begun.append(last_text(request))
        return last_text(request)

    workflow = Map(make_agent(store, reply), range(200), stop_on=lambda result: True)
    result = workflow.run_sync("go")
    stopped = [child for child in result.children if child.status == "interrupted"]
    assert len(result.children) == 200
    assert len(begun) <= 16
    assert len(stopped) >= 184
    assert any(not child.session_id for child in stopped)


def test_the_first_answer_wins_and_failures_do_not_count(store: TemporaryStore) -> None:
    workflow = FirstAnswer(breaking(store), until_stopped(store), say(store, "me"))
    assert workflow.run_sync("go").output == "me"
    failed = FirstAnswer(breaking(store), breaking(store, name="other")).run_sync("go")
    assert failed.error is not None
    assert failed.error.message == "No agent of the workflow gave an answer: The provider is gone."


@pytest.mark.parametrize(
    ("votes", "options", "expected"),
    [
        (["yes", "no", " Yes "], {}, "yes"),
        (["no", "yes"], {}, "no"),
        (["no", "yes"], {"ties": "fail"}, "2 answers have 1 votes each."),
        (["no", "yes", "maybe"], {"quorum": 2}, "No answer has the 2 votes that are needed; the most is 1."),
        (["a1", "b1", "b2"], {"key": lambda output: output[-1]}, "a1"),
        (["no", None, "yes", "yes"], {}, "yes"),
        ([None, None], {}, "No agent of the workflow gave an answer: The provider is gone."),
    ],
)
def test_a_vote_takes_what_most_agents_answer(
    store: TemporaryStore, votes: list[str | None], options: dict[str, Any], expected: str
) -> None:
    voters = [
        breaking(store, name=f"broken{number}") if vote is None else say(store, vote)
        for number, vote in enumerate(votes)
    ]
    result = Vote(*voters, **options).run_sync("go")
    assert expected == (result.output if result.error is None else result.error.message)


def test_a_vote_ends_when_nobody_can_change_it(store: TemporaryStore) -> None:
    result = Vote(say(store, "yes"), until_stopped(store), say(store, "yes")).run_sync("go")
    assert result.output == "yes"
    assert [child.status for child in result.children] == ["done", "interrupted", "done"]


def escalating(store: TemporaryStore, **options: Any) -> Agent[Any]:
    call = ToolCall("escalate", reason="give up")
    return make_agent(store, lambda request: call, "lead", tools=[escalate], **options)


def test_escalate_ends_exactly_the_workflow_around_the_agent(store: TemporaryStore) -> None:
    never = breaking(store)
    assert Sequential(escalating(store), never).run_sync("go").output == "give up"
    assert Loop(escalating(store), max_iterations=5).run_sync("go").output == "give up"
    assert Parallel(until_stopped(store), escalating(store)).run_sync("go").output == [None, "give up"]
    after = make_agent(store, lambda request: f"after: {last_text(request)}")
    nested = Sequential(Loop(Sequential(escalating(store), never), max_iterations=2), after)
    result = nested.run_sync("go")
    assert result.output == "after: give up"


def test_escalate_ends_the_loop_and_not_the_sequence_around_it(store: TemporaryStore) -> None:
    begun: list[str] = []

    def reply(request: ModelRequest) -> ToolCall:
        begun.append("lead")
        return ToolCall("escalate", reason="enough")

    lead = make_agent(store, reply, tools=[escalate], output=int)
    loop = Loop(lead, until=lambda result: False, max_iterations=5)
    after = make_agent(store, lambda request: f"after {last_text(request)}")
    result = Sequential(loop, after, on_failure=retry(1)).run_sync("go")
    assert (result.output, begun) == ("after enough", ["lead"])


def test_a_retried_agent_escalates_out_of_the_workflow_that_retries_it(store: TemporaryStore) -> None:
    result = Sequential(escalating(store), breaking(store), on_failure=retry(1)).run_sync("go")
    assert (result.status, result.output) == ("done", "give up")


def test_the_limits_of_an_agent_hold_in_a_workflow(store: TemporaryStore) -> None:
    async def reply(request: ModelRequest) -> str:
        await asyncio.sleep(60)
        return "late"

    slow = make_agent(store, reply, limits=Limits(timeout_s=0.05))
    result = Parallel(slow, say(store, "fine"), on_failure="ignore").run_sync("go")
    assert (result.output, result.children[0].status) == ([None, "fine"], "timeout")


@pytest.mark.parametrize("kind", ["until", "step", "stop_on", "inputs"])
def test_a_function_that_fails_is_one_sentence(store: TemporaryStore, kind: str) -> None:
    def wrong(value: Any) -> Any:
        raise ValueError("no")

    agent = say(store, "fine")
    workflow: Agent[Any] = {
        "until": lambda: Loop(agent, until=wrong, max_iterations=3),
        "step": lambda: Sequential(agent, wrong),
        "stop_on": lambda: Parallel(agent, stop_on=wrong),
        "inputs": lambda: Map(agent, wrong),
    }[kind]()
    result = workflow.run_sync("go")
    assert result.error is not None
    assert "The function" in result.error.message
    assert result.error.message.endswith("failed: ValueError: no.")


def test_a_denied_call_leaves_its_agent_an_answer(store: TemporaryStore) -> None:
    @tool
    def buy() -> str:
        """Buy."""
        return "bought"

    def reply(request: ModelRequest) -> Any:
        return "not bought" if list(request.messages)[-1].tool_results else ToolCall("buy")

    async def run(decide: Callable[[Any], Awaitable[bool]]) -> Any:
        workflow = Parallel(make_agent(store, reply, tools=[buy]), say(store, "fine"))
        return await workflow.run("go", on_approval=decide)

    async def refuse(call: Any) -> bool:
        return False

    result = asyncio.run(run(refuse))
    assert (result.status, result.output) == ("done", ["not bought", "fine"])
    assert [child.status for child in result.children] == ["denied", "done"]
