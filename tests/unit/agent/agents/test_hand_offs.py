"""Hand-offs: a conversation goes on with another agent, which the first session calls as a sub-agent."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from support.models.files import png

from sandbur import Agent, Flow, Handoff, Image, Limits, Message, ModelRequest, RunResult, Unreachable, tool
from sandbur.actions.ports.events import FlowMatched, Notice, RunFinished, SubAgentEvent
from sandbur.agent.agents.handoffs.hand_off import MOST_HAND_OFFS
from sandbur.state.errors import UsageError, WrongType
from sandbur.state.store.store import Store
from sandbur.testing import ScriptedModel, TemporaryStore, ToolCall, temporary_store

Reply = Callable[[ModelRequest], Any]
HANDED_BACK = (
    "[Another agent got the message above: billing hands the conversation back to you. asks for the hours]"
)


def give(agent: str, message: str = "charged twice") -> ToolCall:
    return ToolCall("hand_off", agent=agent, message=message)


def texts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


def results_of(request: ModelRequest) -> list[str]:
    return [result.content for message in request.messages for result in message.tool_results]


def last_result(request: ModelRequest) -> str:
    return (results_of(request) or [""])[-1]


def make(store: TemporaryStore, name: str, reply: Reply, **options: Any) -> Agent[Any]:
    return Agent(
        ScriptedModel(reply),
        name=name,
        description=f"Does {name}.",
        store=store.url,
        env=store.env,
        **options,
    )


def make_desk(
    store: TemporaryStore, *targets: Agent[Any] | Handoff, reply: Reply | None = None, **options: Any
) -> Agent[Any]:
    """Return an agent that gives the conversation to the first of the agents, and repeats what comes back."""
    first = targets[0].agent if isinstance(targets[0], Handoff) else targets[0]

    def repeat(request: ModelRequest) -> Any:
        return last_result(request) or give(first.name)

    return make(store, "desk", reply or repeat, handoffs=targets, **options)


def say(text: Any) -> Reply:
    return lambda request: text


def send(agent: Agent[Any], *messages: str) -> list[RunResult[Any]]:
    async def run() -> list[RunResult[Any]]:
        async with agent.session("s") as session:
            return [await session.run(message) for message in messages]

    return asyncio.run(run())


def test_the_answer_of_the_other_agent_is_the_answer_of_the_run(store: TemporaryStore) -> None:
    (result,) = send(make_desk(store, make(store, "billing", say("paid back"))), "charged twice!")
    assert (result.status, result.output, result.agent) == ("done", "paid back", "billing")
    assert result.usage.llm_calls == 2


def test_later_messages_go_to_the_agent_that_has_the_conversation(store: TemporaryStore) -> None:
    asked: list[str] = []

    def billing(request: ModelRequest) -> str:
        return f"heard {texts(request)[-1]}"

    def desk(request: ModelRequest) -> Any:
        asked.append(texts(request)[-1])
        return give("billing")

    results = send(make_desk(store, make(store, "billing", billing), reply=desk), "one", "two", "three")
    assert [result.output for result in results[1:]] == ["heard two", "heard three"]
    assert [result.usage.llm_calls for result in results] == [2, 1, 1]
    assert asked == ["one"]
    # Another process with the same agents goes on.
    (again,) = send(make_desk(store, make(store, "billing", billing), reply=desk), "four")
    assert (again.output, again.agent, asked) == ("heard four", "billing", ["one"])


def test_an_agent_without_a_hand_off_has_its_own_name_in_its_results(store: TemporaryStore) -> None:
    (result,) = send(make(store, "desk", say("hello")), "hi")
    assert result.agent == "desk"


@tool(effect="read")
def look_up() -> str:
    """Look the order up."""
    return "order 17"


def hear(store: TemporaryStore, history: Any) -> list[tuple[str, str | None, str]]:
    """Return what billing reads after a call and a text of the desk, with this filter."""
    heard: list[tuple[str, str | None, str]] = []

    def desk(request: ModelRequest) -> Any:
        return ["I see.", give("billing")] if last_result(request) else ToolCall("look_up")

    def billing(request: ModelRequest) -> str:
        heard.extend((message.role, message.name, message.text) for message in request.messages)
        return "ok"

    target = Handoff(make(store, "billing", billing), history=history)
    send(make_desk(store, target, reply=desk, tools=[look_up]), "charged twice!")
    assert heard.pop()[2].startswith(
        "[desk hands the conversation to you: answer the user. desk says:\ncharged"
    )
    return heard


def test_the_other_agent_reads_the_texts_of_the_conversation_with_their_speakers(
    store: TemporaryStore,
) -> None:
    assert hear(store, "texts") == [("user", None, "charged twice!"), ("assistant", "desk", "I see.")]


def test_a_number_keeps_the_newest_texts_and_none_keeps_nothing(store: TemporaryStore) -> None:
    assert hear(store, 1) == [("assistant", "desk", "I see.")]
    with temporary_store() as other:
        assert hear(other, None) == []


def test_a_function_selects_messages_with_their_calls(store: TemporaryStore) -> None:
    given: list[int] = []

    async def select(messages: Sequence[Message]) -> Sequence[Message]:
        given.append(len(messages))
        # The result in front has lost its call.
        return [message for message in messages if message.role != "user"][1:]

    assert hear(store, select) == [("assistant", None, "I see.")]
    assert given == [4]
    with temporary_store() as other:
        assert [role for role, _, _ in hear(other, tuple[Message, ...])] == [
            "user", "assistant", "tool", "assistant",
        ]  # fmt: skip


def test_a_function_that_returns_no_messages_is_a_mistake_that_the_model_reads(store: TemporaryStore) -> None:
    def select(messages: Sequence[Message]) -> Any:
        return [len(messages)]

    target = Handoff(make(store, "billing", say("ok")), history=select)
    (result,) = send(make_desk(store, target), "hi")
    assert "returned int, not a message" in str(result.text)
    assert result.agent == "desk"


def test_a_function_that_fails_ends_the_run_which_a_resume_goes_on_with(store: TemporaryStore) -> None:
    fails = [True]

    def select(messages: Sequence[Message]) -> Any:
        for message in messages:
            if fails:
                raise KeyError("order")
            yield message

    async def run() -> list[RunResult[Any]]:
        target = Handoff(make(store, "billing", say("paid back")), history=select)
        async with make_desk(store, target).session("s") as session:
            first = await session.run("charged twice!")
            fails.clear()
            return [first, await session.run()]

    failed, resumed = asyncio.run(run())
    assert failed.error is not None
    assert failed.error.message == (
        "The `history` function of the hand-off to billing failed: KeyError: 'order'."
    )
    assert (failed.status, failed.exit_code, failed.output) == ("error", 1, None)
    assert (resumed.output, resumed.agent, resumed.usage.llm_calls) == ("paid back", "billing", 2)


def test_an_agent_hands_the_conversation_back_and_the_first_one_answers(store: TemporaryStore) -> None:
    def billing(request: ModelRequest) -> Any:
        return give("desk", "asks for the hours") if "hours" in texts(request)[-1] else "paid back"

    def desk(request: ModelRequest) -> Any:
        return "we open at nine" if texts(request)[-1] == HANDED_BACK else give("billing")

    results = send(
        make_desk(store, make(store, "billing", billing), reply=desk), "twice!", "which hours?", "x"
    )
    assert [(result.output, result.agent) for result in results] == [
        ("paid back", "billing"), ("we open at nine", "desk"), ("paid back", "billing"),
    ]  # fmt: skip


def test_an_agent_hands_the_conversation_on_to_another_one_of_the_first(store: TemporaryStore) -> None:
    read: list[list[str]] = []

    def refunds(request: ModelRequest) -> str:
        read.append(texts(request))
        return "refunded"

    billing = make(store, "billing", say(give("refunds", "pay 5 back")))
    results = send(make_desk(store, billing, make(store, "refunds", refunds)), "twice!", "thanks")
    assert [(result.output, result.agent) for result in results] == [("refunded", "refunds")] * 2
    assert [result.usage.llm_calls for result in results] == [3, 1]
    assert read[0] == [
        "twice!",
        "[billing hands the conversation to you: answer the user. billing says:\npay 5 back]",
    ]
    assert read[1][-1] == "thanks"


def test_an_agent_with_hand_offs_of_its_own_knows_these_and_the_first_agent(store: TemporaryStore) -> None:
    offered: list[str] = []

    def billing(request: ModelRequest) -> Any:
        (spec,) = [spec for spec in request.tools if spec.name == "hand_off"]
        offered.append(spec.description.partition("Agents:\n")[2])
        return give("archive")

    archive = make(store, "archive", say("found"))
    other = make(store, "other", say("never"))
    results = send(make_desk(store, make(store, "billing", billing, handoffs=[archive]), other), "a", "b")
    assert offered == ["- desk: had the conversation first\n- archive: Does archive."]
    assert [(result.output, result.agent) for result in results] == [("found", "archive")] * 2


def test_a_circle_of_hand_offs_ends_with_one_sentence(store: TemporaryStore) -> None:
    billing = make(store, "billing", say(give("refunds")))
    refunds = make(store, "refunds", say(give("billing")))
    (result,) = send(make_desk(store, billing, refunds), "go")
    assert f"was handed over {MOST_HAND_OFFS} times in this run" in str(result.text)
    assert result.usage.llm_calls == MOST_HAND_OFFS + 2
    assert result.agent == "desk"


def test_a_circle_through_the_first_agent_ends_too(store: TemporaryStore) -> None:
    def desk(request: ModelRequest) -> Any:
        return last_result(request) if "the most" in last_result(request) else give("billing")

    billing = make(store, "billing", say(give("desk")))
    (result,) = send(make_desk(store, billing, reply=desk), "go")
    assert f"was handed over {MOST_HAND_OFFS} times in this run" in str(result.text)


def test_calls_that_wait_in_several_agents_of_one_run_are_each_decided(store: TemporaryStore) -> None:
    done: list[str] = []

    @tool
    def pay(who: str) -> str:
        """Pay."""
        done.append(who)
        return f"{who} paid"

    def billing(request: ModelRequest) -> Any:
        return give("refunds") if last_result(request) else ToolCall("pay", who="billing")

    def refunds(request: ModelRequest) -> Any:
        return last_result(request) or ToolCall("pay", who="refunds")

    desk = make_desk(
        store, make(store, "billing", billing, tools=[pay]), make(store, "refunds", refunds, tools=[pay])
    )

    async def run() -> list[RunResult[Any]]:
        async with desk.session("s") as session:
            return [await session.run("go"), await session.approve(), await session.deny(reason="no")]

    first, second, last = asyncio.run(run())
    assert [call.reason for call in first.pending] == ["sub-agent billing: may change something: pay"]
    assert [call.reason for call in second.pending] == ["sub-agent refunds: may change something: pay"]
    assert "Denied by the user: no" in str(last.text)
    assert (last.agent, done) == ("refunds", ["billing"])


def test_a_run_that_the_other_agent_could_not_finish_goes_on_with_it(store: TemporaryStore) -> None:
    tries: list[str] = []

    def billing(request: ModelRequest) -> Any:
        tries.append(texts(request)[-1])
        if len(tries) == 2:
            raise Unreachable("The provider is away.")
        return f"answer {len(tries)}"

    async def run() -> list[RunResult[Any]]:
        async with make_desk(store, make(store, "billing", billing)).session("s") as session:
            return [await session.run("one"), await session.run("two"), await session.run()]

    first, failed, last = asyncio.run(run())
    assert (first.output, failed.status, last.output) == ("answer 1", "error", "answer 3")
    assert failed.error is not None
    assert failed.error.message == "The provider is away."
    assert tries[1:] == ["two", "two"]


def test_a_message_that_interrupts_the_other_agent_goes_to_it_too(store: TemporaryStore) -> None:
    is_slow = asyncio.Event()

    async def billing(request: ModelRequest) -> str:
        if texts(request)[-1] == "slow":
            is_slow.set()
            await asyncio.sleep(60)
        return f"heard {texts(request)[-1]}"

    async def run() -> RunResult[Any]:
        async with make_desk(store, make(store, "billing", billing)).session("s") as session:
            await session.run("one")
            running = asyncio.ensure_future(session.run("slow"))
            await is_slow.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return await session.run("quick")

    assert asyncio.run(run()).output == "heard quick"


def test_a_fork_at_an_earlier_message_goes_on_with_what_the_agent_knew_then(store: TemporaryStore) -> None:
    read: list[list[str]] = []

    def billing(request: ModelRequest) -> str:
        read.append(texts(request))
        return f"answer {len(read)}"

    desk = make_desk(store, make(store, "billing", billing))

    async def run() -> str:
        async with desk:
            async with desk.session("s") as session:
                await session.run("one")
            opened = Store.open(store.url)
            step = opened.index.summary("s").steps - 1
            async with desk.session("s") as session:
                await session.run("two")
            opened.fork("s", "fork", step)
            opened.close()
            async with desk.session("fork") as session:
                return (await session.run("other")).agent

    assert asyncio.run(run()) == "billing"
    assert [line for line in read[-1] if line in ("one", "two", "other")] == ["one", "other"]
    assert "answer 1" in read[-1]


def test_limits_of_a_run_hold_for_it_and_the_other_agent_together(store: TemporaryStore) -> None:
    billing, refunds = (
        make(store, "billing", say(give("refunds"))),
        make(store, "refunds", say("x")),
    )
    desk = make_desk(store, billing, refunds, limits=Limits(max_turns=2))
    (result,) = send(desk, "go")
    assert result.status == "turn_limit"


class Refund(BaseModel):
    cents: int


def test_the_other_agent_answers_in_the_type_of_the_run(store: TemporaryStore) -> None:
    billing = make(store, "billing", say('{"cents": 5}'))
    results = send(make_desk(store, billing, output=Refund), "go", "again")
    assert [result.output for result in results] == [Refund(cents=5)] * 2


def test_the_flows_of_the_first_agent_rest_while_another_one_has_the_conversation(
    store: TemporaryStore,
) -> None:
    desk = make_desk(
        store,
        make(store, "billing", lambda request: f"heard {texts(request)[-1]}"),
        flows=[Flow("hours", exact="hours", reply="At nine.")],
    )
    results = send(desk, "hours", "go", "hours", "/flow hours")
    assert [result.output for result in results][2:] == ["heard hours", "At nine."]
    assert results[0].output == "At nine."


def test_what_a_session_observed_reaches_the_agent_that_has_the_conversation(store: TemporaryStore) -> None:
    async def run() -> str:
        desk = make_desk(store, make(store, "billing", lambda request: " | ".join(texts(request)[-1:])))
        async with desk.session("s") as session:
            await session.run("go")
            await session.observe("the parcel came")
            return str((await session.run("thanks")).text)

    assert asyncio.run(run()) == "the parcel came\n\nthanks"


def test_a_picture_reaches_the_agent_that_has_the_conversation(store: TemporaryStore) -> None:
    kinds: list[str] = []

    def billing(request: ModelRequest) -> str:
        kinds.extend(type(file).__name__ for message in request.messages for file in message.files)
        return "seen"

    async def run() -> None:
        async with make_desk(store, make(store, "billing", billing)).session("s") as session:
            await session.run("go")
            await session.run(["this", Image.from_bytes(png())])

    asyncio.run(run())
    assert kinds == ["Image"]


def test_a_conversation_whose_agent_is_gone_comes_back_to_the_first(store: TemporaryStore) -> None:
    send(make_desk(store, make(store, "billing", say("paid"))), "go")
    (result,) = send(make_desk(store, make(store, "refunds", say("never")), reply=say("mine")), "x")
    assert (result.output, result.agent) == ("mine", "desk")


def test_a_model_that_names_no_agent_there_is_reads_which_there_are(store: TemporaryStore) -> None:
    desk = make_desk(
        store,
        make(store, "billing", say("x")),
        reply=lambda request: last_result(request) or give("bill"),
    )
    assert "There is no agent 'bill'. There are: billing." in str(send(desk, "go")[0].text)


def test_events_of_the_other_agent_name_it_and_notices_say_who_has_the_conversation(
    store: TemporaryStore,
) -> None:
    desk = make_desk(store, make(store, "billing", say("paid")))

    async def run() -> list[Any]:
        events: list[Any] = []
        async with desk.session("s") as session:
            for message in ("one", "two"):
                async with session.stream(message) as stream:
                    events += [event async for event in stream]
        return events

    events = asyncio.run(run())
    assert {event.agent.name for event in events if isinstance(event, SubAgentEvent)} == {"billing"}
    assert [event.message for event in events if isinstance(event, Notice)] == [
        "billing has the conversation now."
    ]
    (matched,) = [event for event in events if isinstance(event, FlowMatched)]
    assert (matched.flow, matched.does, matched.why) == ("billing", "hand_off", "it has the conversation")
    assert [event.agent for event in events if isinstance(event, RunFinished)] == ["billing", "billing"]


def test_a_hand_off_in_a_sub_agent_is_its_own_matter(store: TemporaryStore) -> None:
    desk = make_desk(store, make(store, "billing", say("paid")))
    start = ToolCall("task", description="ask", prompt="go", agent="desk")
    parent = make(store, "top", lambda request: last_result(request) or start, agents=[desk])
    (result,) = send(parent, "go")
    assert str(result.text).startswith("paid\n[sub-agent")
    assert result.agent == "top"


@pytest.mark.parametrize("names", [("desk", "billing"), ("billing", "billing")])
def test_two_agents_of_one_name_are_a_mistake(store: TemporaryStore, names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="two agents called"):
        make_desk(store, *(make(store, name, say("x")) for name in names))


def test_two_agents_of_one_name_behind_several_hand_offs_are_a_mistake(store: TemporaryStore) -> None:
    def chain(last: str, **options: Any) -> Agent[Any]:
        third = make(store, "third", say("x"), handoffs=[make(store, last, say("x"))])
        second = make(store, "second", say("x"), handoffs=[third])
        return make(store, options.pop("name", "first"), say("x"), handoffs=[second], **options)

    for last, name in (("second", "first"), ("first", "first"), ("main", "")):
        with pytest.raises(UsageError, match=f"Two agents that hand-offs can reach are called '{last}'"):
            chain(last, name=name)
    shared = make(store, "shared", say("x"))
    middle = make(store, "middle", say("x"), handoffs=[shared])
    assert make(store, "first", say("x"), handoffs=[shared, middle]).handoffs == (shared, middle)


def test_a_call_after_the_most_hand_offs_starts_no_agent(store: TemporaryStore) -> None:
    asked: list[str] = []

    def desk(request: ModelRequest) -> Any:
        refused = [text for text in results_of(request) if "do not call hand_off again" in text]
        return "I answer" if len(refused) == 3 else give("billing")

    def billing(request: ModelRequest) -> Any:
        asked.append("billing")
        return give("desk")

    (result,) = send(make_desk(store, make(store, "billing", billing), reply=desk), "go")
    assert (result.output, result.agent, len(asked)) == ("I answer", "desk", MOST_HAND_OFFS)
    assert result.notices.count("desk has the conversation.") == MOST_HAND_OFFS


@pytest.mark.parametrize("history", ["all", 0, True])
def test_a_filter_that_is_none_is_a_mistake(store: TemporaryStore, history: Any) -> None:
    with pytest.raises(WrongType, match="`history` is"):
        Handoff(make(store, "billing", say("x")), history=history)


@pytest.mark.parametrize("given", ["billing", [3]])
def test_hand_offs_are_agents(given: Any) -> None:
    with pytest.raises(WrongType, match="`handoffs` takes a list of agents"):
        Agent(handoffs=given)
