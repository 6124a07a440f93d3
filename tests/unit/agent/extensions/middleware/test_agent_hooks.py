"""Hooks of an agent: what they change is what is recorded, approved, run, resumed and replayed."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbur import (
    Agent,
    Middleware,
    MiddlewareError,
    ModelRequest,
    ProposedCall,
    Reply,
    SandburError,
    ToolCallRequest,
    ToolOutcome,
    events,
    tool,
)
from sandbur.testing import ScriptedModel, ToolCall, assert_replays

RAN: list[str] = []


@tool
def pay(cents: int) -> str:
    """Pay."""
    RAN.append(f"pay {cents}")
    return f"paid {cents}"


@tool(effect="read", subject="place")
def look(place: str) -> str:
    """Look somewhere."""
    RAN.append(f"look {place}")
    return f"saw {place}"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Agent]:
    env = {"HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    RAN.clear()

    def make_agent(script: Any, of: type[Agent] = Agent, **more: Any) -> Agent:
        return of(ScriptedModel(script), tools=[pay, look], store=url_of(tmp_path), env=env, **more)

    return make_agent


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/runs.db"


def halve(call: ProposedCall) -> ProposedCall | None:
    if call.name != "pay":
        return None
    return replace(call, arguments={"cents": call.arguments["cents"] // 2})


async def test_the_message_as_a_hook_rewrote_it_is_sent_and_recorded(make: Any, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        return f"You wrote: {list(request.messages)[-1].text}"

    agent = make(answer)
    agent.add_hook("pre_reply", lambda message: f"{message} Be brief.")
    result = await agent.run("Hello.", session_id="s")
    assert result.output == "You wrote: Hello. Be brief."
    assert (await agent.history("s"))[0].text == "Hello. Be brief."
    assert_replays("s", store=url_of(tmp_path))


async def test_the_answer_as_a_hook_rewrote_it_is_shown_recorded_and_returned_again(
    make: Any, tmp_path: Path
) -> None:
    agent = make(["It costs 3 euros."])
    asked: list[str] = []

    async def sign(text: str) -> str:
        asked.append(text)
        return f"{text} Yours, Ada."

    agent.add_hook("post_reply", sign)
    shown = ""
    async for event in agent.stream("What does it cost?", session_id="s"):
        if isinstance(event, events.Notice) and event.kind == "discarded":
            shown = ""
        if isinstance(event, events.TextDelta):
            shown += event.delta
    assert shown == "It costs 3 euros. Yours, Ada."
    async with agent.session("s") as session:
        assert (await session.run()).output == "It costs 3 euros. Yours, Ada."
    assert asked == ["It costs 3 euros."]
    assert_replays("s", store=url_of(tmp_path))


async def test_rewritten_arguments_are_what_is_approved_and_what_runs(make: Any, tmp_path: Path) -> None:
    agent = make([ToolCall("pay", cents=500), "Paid."])
    agent.add_hook("pre_acting", halve)
    result = await agent.run("Pay.", session_id="s")
    assert (result.status, result.pending[0].arguments) == ("needs_approval", {"cents": 250})
    agent.remove_hook("pre_acting", halve)
    async with agent.session("s") as session:
        assert (await session.approve()).output == "Paid."
    assert RAN == ["pay 250"]
    history = await agent.history("s")
    assert history[1].tool_uses[0].arguments == '{"cents": 500}'  # what the model wrote stays the record
    assert_replays("s", store=url_of(tmp_path))


async def test_rules_judge_the_rewritten_arguments(make: Any) -> None:
    agent = make([ToolCall("look", place="secret"), "Refused."], deny=["look(public)"])
    agent.add_hook("pre_acting", lambda call: replace(call, arguments={"place": "public"}))
    result = await agent.run("Look.", session_id="s")
    assert (result.status, RAN) == ("denied", [])


async def test_a_call_whose_hook_fails_does_not_run_and_the_model_reads_why(
    make: Any, tmp_path: Path
) -> None:
    def read(request: ModelRequest) -> Any:
        results = [one for message in request.messages for one in message.tool_results]
        return results[-1].content if results else ToolCall("look", place="here")

    def fail(call: ProposedCall) -> None:
        raise ValueError("the price list is closed")

    agent = make(read)
    agent.add_hook("pre_acting", fail)
    result = await agent.run("Look.", session_id="s")
    assert "The hook fail (pre_acting) failed: ValueError: the price list is closed." in str(result.output)
    assert RAN == []
    assert_replays("s", store=url_of(tmp_path))


async def test_a_hook_cannot_make_another_call_of_the_proposed_one(make: Any) -> None:
    agent = make([ToolCall("look", place="here"), "Done."])
    agent.add_hook("pre_acting", lambda call: replace(call, name="pay", arguments={"cents": 1}))
    await agent.run("Look.", session_id="s")
    assert RAN == []


async def test_the_result_as_a_hook_rewrote_it_is_recorded_and_read_by_the_model(
    make: Any, tmp_path: Path
) -> None:
    def read(request: ModelRequest) -> Any:
        results = [one for message in request.messages for one in message.tool_results]
        return results[-1].content if results else ToolCall("look", place="home")

    def shorten(call: ToolCallRequest, outcome: ToolOutcome) -> ToolOutcome:
        return replace(outcome, content=f"{call.name}: {outcome.content[:7]}")

    agent = make(read)
    agent.add_hook("post_acting", shorten)
    assert (await agent.run("Look.", session_id="s")).output == "look: saw hom"
    assert_replays("s", store=url_of(tmp_path))


async def test_request_and_reply_of_the_model_are_changed(make: Any, tmp_path: Path) -> None:
    def answer(request: ModelRequest) -> str:
        return f"kind: {request.system.endswith('Be kind.')}."

    def add_rule(request: ModelRequest) -> ModelRequest:
        return replace(request, system=f"{request.system} Be kind.")

    def praise(reply: Reply) -> Reply:
        message = Middleware().reply(f"{reply.message.text} Well done.").message
        return replace(reply, message=message)

    agent = make(answer)
    agent.add_hook("pre_reasoning", add_rule)
    agent.add_hook("post_reasoning", praise)
    assert (await agent.run("Hi.", session_id="s")).output == "kind: True. Well done."
    assert_replays("s", store=url_of(tmp_path))


async def test_what_is_displayed_changes_and_the_record_stays(make: Any) -> None:
    agent = make(["The code is 1234."])
    printed: list[str] = []

    def hide(event: events.Event) -> events.Event | None:
        return replace(event, delta="(hidden)") if isinstance(event, events.TextDelta) else None

    def note(event: events.Event) -> None:
        printed.append(event.delta if isinstance(event, events.TextDelta) else "")

    agent.add_hook("pre_print", hide)
    agent.add_hook("post_print", note)
    seen = [event async for event in agent.stream("Hi.", session_id="s")]
    deltas = [event.delta for event in seen if isinstance(event, events.TextDelta)]
    assert set(deltas) == {"(hidden)"}
    assert "(hidden)" in printed
    assert (await agent.history("s"))[-1].text == "The code is 1234."


async def test_a_printing_hook_that_fails_is_named_once_and_the_event_is_displayed(make: Any) -> None:
    agent = make(["Hello there."])

    def fail(event: events.Event) -> None:
        raise ValueError("no ink")

    agent.add_hook("pre_print", fail)
    result = await agent.run("Hi.")
    assert result.output == "Hello there."
    assert [one for one in result.notices if "no ink" in one] == [
        "The hook fail (pre_print) failed: ValueError: no ink."
    ]


async def test_an_observed_message_is_stored_as_a_hook_rewrote_it(make: Any, tmp_path: Path) -> None:
    agent = make([])
    stored: list[str] = []
    agent.add_hook("pre_observe", lambda text: f"Ada: {text}")
    agent.add_hook("post_observe", stored.append)
    await agent.observe("s", "I am here.")
    assert [message.text for message in await agent.history("s")] == ["Ada: I am here."] == stored


async def test_hooks_run_in_the_order_of_middleware(make: Any) -> None:
    class House(Agent): ...

    class Shop(House): ...

    order: list[str] = []

    def named(name: str) -> Callable[[Any], None]:
        return lambda _: order.append(name)

    for moment in ("pre_reply", "post_reply"):
        Shop.add_class_hook(moment, named("shop"))
        House.add_class_hook(moment, named("house"))
    agent, other = make(["Hi."], of=Shop), make(["Hi."], of=House)
    for moment in ("pre_reply", "post_reply"):
        agent.add_hook(moment, named("one"))
        agent.add_hook(moment, named("two"))
    await agent.run("Hello.")
    assert order == ["house", "shop", "one", "two", "two", "one", "shop", "house"]
    order.clear()
    await other.run("Hello.")
    assert order == ["house", "house"]
    await make(["Hi."]).run("Hello.")
    assert order == ["house", "house"]


async def test_hooks_are_added_and_removed_while_an_agent_works(make: Any) -> None:
    def answer(request: ModelRequest) -> str:
        return list(request.messages)[-1].text

    agent = make(answer)
    async with agent, agent.session() as session:
        assert (await session.run("a")).output == "a"
        agent.add_hook("pre_reply", lambda text: f"{text}!", name="louder")
        assert (await session.run("b")).output == "b!"
        with pytest.raises(SandburError, match="'louder' for pre_reply exists"):
            agent.add_hook("pre_reply", lambda text: None, name="louder")
        agent.remove_hook("pre_reply", "louder")
        assert (await session.run("c")).output == "c"
        with pytest.raises(SandburError, match="no hook 'louder'"):
            agent.remove_hook("pre_reply", "louder")


async def test_a_hook_of_an_unknown_moment_or_without_a_function_is_refused(make: Any) -> None:
    agent = make([])
    with pytest.raises(SandburError, match="no moment 'before'"):
        agent.add_hook("before", print)
    with pytest.raises(SandburError, match="not a function"):
        agent.add_hook("pre_reply", "print")


async def test_a_message_whose_hook_fails_begins_no_run(make: Any) -> None:
    agent = make(["Hi."])
    agent.add_hook("pre_reply", lambda text: 17)
    with pytest.raises(MiddlewareError, match="returned int, not a Sequence"):
        await agent.run("Hello.", session_id="s")
    agent = make(["Hi."])
    assert (await agent.run("Hello.", session_id="s")).output == "Hi."
    assert [message.text for message in await agent.history("s")] == ["Hello.", "Hi."]


async def test_secrets_that_a_hook_adds_are_masked(make: Any, tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"],
        "SHOP_API_KEY": "hunter2-hunter2-hunter2",
    }  # fmt: skip
    agent = Agent(ScriptedModel(["Hi."]), store=url_of(tmp_path), env=env)
    agent.add_hook("pre_reply", lambda message: f"{message} hunter2-hunter2-hunter2")
    agent.add_hook("post_reply", lambda text: f"{text} hunter2-hunter2-hunter2")
    result = await agent.run("Hello.", session_id="s")
    assert "hunter2" not in str(result.output)
    assert not [message for message in await agent.history("s") if "hunter2" in message.text]
