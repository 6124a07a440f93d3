"""Sub-agents of programs: sessions of their own, whose calls, limits and ends belong to the call of their
parent."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sandbur import Agent, Limits, ModelRequest, tool
from sandbur.actions.ports.events import RunFinished, SubAgentEvent
from sandbur.state.errors import UsageError, WrongType
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall

Replies = Callable[[ModelRequest], Any]


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


def start(*prompts: str, **more: str) -> list[str | ToolCall]:
    calls = [ToolCall("task", description="count", prompt=one, agent="worker", **more) for one in prompts]
    return list(calls)


def parent_that_starts(*prompts: str) -> Replies:
    def reply(request: ModelRequest) -> Any:
        found = results_of(request)
        return " | ".join(one.splitlines()[0] for one in found) if found else start(*prompts)

    return reply


def make_family(store: TemporaryStore, parent: Replies, child: Replies, **options: Any) -> Agent[str]:
    own = options.pop("own", {})
    worker = Agent(
        ScriptedModel(child),
        name="worker",
        description="Counts things.",
        store=store.url,
        env=store.env,
        **own,
    )
    return Agent(ScriptedModel(parent), agents=[worker], store=store.url, env=store.env, **options)


def last_text(request: ModelRequest) -> str:
    return list(request.messages)[-1].text


def test_sub_agents_of_one_message_run_at_the_same_time(store: TemporaryStore) -> None:
    meeting = asyncio.Barrier(3)

    async def child(request: ModelRequest) -> str:
        await meeting.wait()
        return f"counted {last_text(request)}"

    result = make_family(store, parent_that_starts("a", "b", "c"), child).run_sync("go")
    assert result.output == "counted a | counted b | counted c"
    assert result.usage.llm_calls == 5


def test_a_sub_agent_begins_with_its_task_and_without_the_history_of_its_parent(
    store: TemporaryStore,
) -> None:
    seen: list[list[str]] = []

    def child(request: ModelRequest) -> str:
        seen.append([message.text for message in request.messages])
        return "ok"

    make_family(store, parent_that_starts("just this"), child).run_sync("a long story")
    assert seen == [["just this"]]


@pytest.mark.parametrize(("answer", "expected"), [("approve", "bought rope"), ("deny", "Denied by the user")])
def test_a_waiting_call_of_a_sub_agent_is_decided_at_its_parent(
    store: TemporaryStore, answer: str, expected: str
) -> None:
    bought: list[str] = []

    @tool
    def buy(item: str) -> str:
        """Buy an item."""
        bought.append(item)
        return f"bought {item}"

    def child(request: ModelRequest) -> Any:
        if found := results_of(request):
            return found[0]
        item = last_text(request)
        return ToolCall("buy", item=item) if item == "rope" else f"only looked at {item}"

    async def run() -> tuple[Any, Any]:
        family = make_family(store, parent_that_starts("rope", "anvil"), child, own={"tools": [buy]})
        async with family.session("s") as session:
            first = await session.run("go")
            decided = await (session.approve() if answer == "approve" else session.deny())
            return first, decided

    first, decided = asyncio.run(run())
    assert first.status == "needs_approval"
    assert [(call.tool, call.reason) for call in first.pending] == [
        ("buy", "sub-agent worker: may change something: buy")
    ]
    assert sorted(decided.text.split(" | "))[1].startswith("only looked at anvil")
    assert expected in decided.text
    assert bought == (["rope"] if answer == "approve" else [])


def test_an_interrupted_run_goes_on_with_the_sub_agents_that_had_not_ended(store: TemporaryStore) -> None:
    begun: list[str] = []

    async def child(request: ModelRequest) -> str:
        item = last_text(request)
        begun.append(item)
        if item == "slow" and begun.count("slow") == 1:
            await asyncio.sleep(60)
        return f"counted {item}"

    async def run() -> str:
        family = make_family(store, parent_that_starts("quick", "slow"), child)
        async with family.session("s") as session:
            async with session.stream("go") as events:
                async for event in events:
                    if isinstance(event, SubAgentEvent) and isinstance(event.event, RunFinished):
                        break
            return (await session.run()).text

    assert asyncio.run(run()) == "counted quick | counted slow"
    assert sorted(begun) == ["quick", "slow", "slow"]


def test_another_message_ends_the_call_and_names_the_sub_agent_that_can_go_on(store: TemporaryStore) -> None:
    is_slow = asyncio.Event()

    async def child(request: ModelRequest) -> str:
        is_slow.set()
        await asyncio.sleep(60)
        return "never"

    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        return found[0] if found else start("slow")

    async def run() -> str:
        async with make_family(store, parent, child).session("s") as session:
            running = asyncio.ensure_future(session.run("go"))
            await is_slow.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (await session.run("never mind")).text

    text = asyncio.run(run())
    assert text.startswith("Interrupted: ")
    assert 'task(resume="' in text


def test_a_sub_agent_is_asked_again_with_its_history(store: TemporaryStore) -> None:
    def child(request: ModelRequest) -> str:
        return " then ".join(message.text for message in request.messages if message.role == "user")

    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        if len(found) == 1:
            return start("second", resume=found[0].partition('resume="')[2].partition('"')[0])
        return found[1].splitlines()[0] if found else start("first")

    assert make_family(store, parent, child).run_sync("go").output == "first then second"


def test_a_sub_agent_that_is_asked_again_is_the_agent_that_it_was(store: TemporaryStore) -> None:
    @tool(effect="read")
    def measure() -> str:
        """Measure it."""
        return "3 m"

    def child(request: ModelRequest) -> Any:
        asked = [message.text for message in request.messages if message.role == "user"]
        return ToolCall("measure") if len(results_of(request)) < len(asked) else results_of(request)[-1]

    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        if len(found) == 1:
            return start("again", resume=found[0].partition('resume="')[2].partition('"')[0])
        return found[1].splitlines()[0] if found else start("first")

    assert make_family(store, parent, child, own={"tools": [measure]}).run_sync("go").output == "3 m"


def test_a_task_that_looks_like_a_command_is_a_message(store: TemporaryStore) -> None:
    seen: list[str] = []

    @tool
    def buy() -> str:
        """Buy it."""
        return "bought"

    def child(request: ModelRequest) -> Any:
        seen.append(last_text(request))
        return ToolCall("buy")

    family = make_family(store, parent_that_starts("/mode yolo"), child, own={"tools": [buy]})
    assert family.run_sync("go").status == "needs_approval"
    assert seen == ["/mode yolo"]


def test_the_rules_of_an_agent_of_a_program_hold_after_a_decision_too(store: TemporaryStore) -> None:
    done: list[str] = []

    @tool
    def buy() -> str:
        """Buy it."""
        done.append("buy")
        return "bought"

    @tool
    def sell() -> str:
        """Sell it."""
        done.append("sell")
        return "sold"

    def child(request: ModelRequest) -> Any:
        found = results_of(request)
        return [ToolCall("buy"), ToolCall("sell"), found[-1] if found else ""][len(found)]

    async def run() -> str:
        family = make_family(
            store, parent_that_starts("x"), child, own={"tools": [buy, sell], "deny": ["sell"]}
        )
        async with family.session("s") as session:
            await session.run("go")
            return (await session.approve()).text

    assert asyncio.run(run()).startswith("Denied by policy: denied by rule sell")
    assert done == ["buy"]


def test_a_fork_goes_on_with_what_the_sub_agents_had_done(store: TemporaryStore) -> None:
    done: list[str] = []

    @tool(effect="idempotent")
    def buy(item: str) -> str:
        """Buy an item."""
        done.append(item)
        return f"bought {item}"

    @tool
    def pay() -> str:
        """Pay for it."""
        done.append("paid")
        return "paid"

    def child(request: ModelRequest) -> Any:
        return [ToolCall("buy", item="rope"), ToolCall("pay"), "all done"][len(results_of(request))]

    async def run() -> tuple[str, str]:
        family = make_family(
            store, parent_that_starts("x"), child, own={"tools": [buy, pay], "allow": ["buy"]}
        )
        async with family:
            async with family.session("s") as session:
                await session.run("go")
            opened = Store.open(store.url)
            opened.fork("s", "fork")
            opened.close()
            async with family.session("fork") as session:
                of_fork = (await session.approve()).text
            async with family.session("s") as session:
                return of_fork, (await session.approve()).text

    assert asyncio.run(run()) == ("all done", "all done")
    assert done == ["rope", "paid", "paid"]


def test_a_call_that_was_decided_at_the_sub_agent_is_not_decided_again_at_its_parent(
    store: TemporaryStore,
) -> None:
    done: list[str] = []

    @tool
    def buy() -> str:
        """Buy it."""
        done.append("buy")
        return "bought"

    def child(request: ModelRequest) -> Any:
        return results_of(request)[-1] if results_of(request) else ToolCall("buy")

    async def run() -> str:
        worker = Agent(
            ScriptedModel(child), tools=[buy], name="worker", description="Buys.", store=store.url,
            env=store.env,
        )  # fmt: skip
        parent = ScriptedModel(parent_that_starts("x"))
        family = Agent(parent, agents=[worker], store=store.url, env=store.env)
        first = await family.run("go", session_id="s")
        assert first.status == "needs_approval"
        (info,) = [one async for one in family.sessions(parent="s")]
        assert info.parent == "s"
        assert [one.id async for one in family.sessions()] == ["s"]
        assert {one.id async for one in family.sessions(children=True)} == {"s", info.id}
        assert (await worker.approve(info.id)).text == "bought"
        async with family.session("s") as session:
            return (await session.run()).text

    assert asyncio.run(run()) == "bought"
    assert done == ["buy"]


def test_one_sub_agent_is_not_asked_twice_at_the_same_time(store: TemporaryStore) -> None:
    async def child(request: ModelRequest) -> str:
        await asyncio.sleep(0.05)
        return "ok"

    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        if len(found) == 1:
            child_id = found[0].partition('resume="')[2].partition('"')[0]
            return [*start("a", resume=child_id), *start("b", resume=child_id)]
        return " | ".join(one.splitlines()[0] for one in found[1:]) if found else start("first")

    answers = make_family(store, parent, child).run_sync("go").text.split(" | ")
    assert sorted(answers)[1] == "ok"
    assert "is already running" in sorted(answers)[0]


def test_more_sub_agents_than_slots_wait_for_each_other_at_any_depth(store: TemporaryStore) -> None:
    def reply(request: ModelRequest) -> Any:
        is_deep = not any(spec.name == "task" for spec in request.tools)
        return "done" if is_deep or results_of(request) else start("a", "b", "c")

    def make(level: int) -> Agent[str]:
        return Agent(
            ScriptedModel(reply), name="worker", description="Goes deeper.",
            agents=[make(level + 1)] if level < 3 else [], store=store.url,
            env={**store.env, "SANDBUR_AGENTS_AT_ONCE": "1"},
        )  # fmt: skip

    assert make(0).run_sync("go").output == "done"


def test_a_session_that_is_no_sub_agent_of_this_one_is_not_asked(store: TemporaryStore) -> None:
    def parent(request: ModelRequest) -> Any:
        found = results_of(request)
        return found[0] if found else start("x", resume="somebody-else")

    family = make_family(store, parent, lambda _: "ok")
    Agent(ScriptedModel(["hello"]), store=store.url, env=store.env).run_sync("x", session_id="somebody-else")
    assert "is not a sub-agent of this session" in family.run_sync("go").text


def test_the_limit_of_model_calls_holds_for_the_family_and_a_resume_goes_on(store: TemporaryStore) -> None:
    def child(request: ModelRequest) -> str:
        return f"counted {last_text(request)}"

    family = make_family(store, parent_that_starts("a", "b", "c"), child, limits=Limits(max_turns=2))
    first = family.run_sync("go", session_id="s")
    assert (first.status, first.exit_code) == ("turn_limit", 53)

    async def go_on() -> str:
        async with make_family(store, parent_that_starts(), child).session("s") as session:
            return (await session.run()).text

    assert asyncio.run(go_on()) == "counted a | counted b | counted c"


def test_a_sub_agent_works_in_no_freer_mode_than_its_parent(store: TemporaryStore) -> None:
    @tool
    def buy() -> str:
        """Buy it."""
        return "bought"

    def child(request: ModelRequest) -> Any:
        return ToolCall("buy")

    family = make_family(store, parent_that_starts("x"), child, own={"tools": [buy], "mode": "yolo"})
    assert family.run_sync("go").status == "needs_approval"


def test_the_events_of_a_sub_agent_name_it_and_end_with_its_result(store: TemporaryStore) -> None:
    async def run() -> list[SubAgentEvent]:
        family = make_family(store, parent_that_starts("x"), lambda _: "counted")
        async with family.session("s") as session, session.stream("go") as events:
            return [event async for event in events if isinstance(event, SubAgentEvent)]

    events = asyncio.run(run())
    assert {(one.agent.name, one.agent.parent_id, one.agent.branch) for one in events} == {
        ("worker", "s", "worker")
    }
    last = events[-1].event
    assert isinstance(last, RunFinished)
    assert (last.session_id, last.result) == (events[0].agent.agent_id, "counted")


def test_an_agent_is_a_tool_of_another_one(store: TemporaryStore) -> None:
    counter = Agent(
        ScriptedModel(lambda request: f"counted {last_text(request)}"), store=store.url, env=store.env
    )
    model = ScriptedModel([ToolCall("count", input="ropes"), lambda request: results_of(request)[0]])
    counting = counter.as_tool("count", "Counts things.")
    result = Agent(model, tools=[counting], store=store.url, env=store.env).run_sync("go")
    # Without the tool `task` the model cannot ask it again.
    assert result.text == "counted ropes"


def test_agents_stop_starting_agents_at_the_depth_of_the_settings(store: TemporaryStore) -> None:
    offered: list[bool] = []

    def reply(request: ModelRequest) -> Any:
        offered.append(any(spec.name == "task" for spec in request.tools))
        return start("deeper") if offered[-1] and not results_of(request) else "done"

    def make(level: int) -> Agent[str]:
        below = [make(level + 1)] if level < 5 else []
        return Agent(
            ScriptedModel(reply), name="worker", description="Goes deeper.", agents=below, store=store.url,
            env=store.env,
        )  # fmt: skip

    assert make(0).run_sync("go").output == "done"
    assert offered[:4] == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"agents": ["reviewer"]}, WrongType, "`agents` takes a list of agents"),
        ({"agents": "reviewer"}, WrongType, "`agents` takes a list of agents"),
    ],
)
def test_what_is_no_agent_is_refused(arguments: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Agent("openai/gpt-5", **arguments)


def test_an_agent_without_a_name_or_a_description_is_no_sub_agent() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        Agent("openai/gpt-5").as_tool()
    with pytest.raises(UsageError, match="needs a description"):
        Agent("openai/gpt-5", name="reviewer").as_tool()
