"""Middleware around model calls: what streams passes through, and whatever they do wrong is one sentence."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, act, collect, open_session

from sandbur.actions.ports import ModelEvent, ModelRequest, Reply
from sandbur.actions.ports.events import Event, MessageAdded, Notice, TextDelta
from sandbur.agent.extensions.middleware.middleware import Middleware
from sandbur.agent.history.replay.replay import Replayed, replay
from sandbur.agent.history.replay.walk import Today
from sandbur.state.application import Usage
from sandbur.state.conversation.messages import runtime_message
from sandbur.state.errors import Overloaded
from sandbur.state.store.store import Store


class Noting(Middleware):
    def __init__(self, name: str, heard: list[str], priority: int = 500) -> None:
        self.name, self.heard, self.priority = name, heard, priority

    async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
        self.heard.append(f"{self.name} in")
        reply = await next(request)
        self.heard.append(f"{self.name} out")
        return reply


class Pieces(ScriptedModel):
    """Streams word by word, and waits for `go_on` before the last one."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if isinstance(event, TextDelta):
                *first, last = event.delta.split(" ")
                for word in first:
                    yield TextDelta(f"{word} ")
                await self.go_on.wait()
                yield TextDelta(last)
            else:
                yield event


def texts(events: list[Event]) -> list[str]:
    return [event.delta for event in events if isinstance(event, TextDelta)]


def notices(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Notice)]


async def test_the_lower_priority_is_further_out(store: Store) -> None:
    heard: list[str] = []
    layers = [
        Noting("b", heard),
        Noting("feature", heard, 100),
        Noting("c", heard),
        Noting("system", heard, 0),
    ]
    session = await open_session(store, ScriptedModel("hi"), middleware=layers)
    await collect(session.send("go"))
    order = ["system", "feature", "b", "c"]
    assert heard == [*(f"{name} in" for name in order), *(f"{name} out" for name in reversed(order))]


async def test_text_is_shown_while_middleware_waits_for_the_reply(store: Store) -> None:
    heard: list[str] = []
    model = Pieces("one two three")
    session = await open_session(store, model, middleware=[Noting(name, heard) for name in "abc"])
    seen: list[Event] = []
    async for event in session.send("go"):
        seen.append(event)
        if texts(seen) and not model.go_on.is_set():
            assert not [one for one in heard if one.endswith("out")]
            model.go_on.set()
    assert "".join(texts(seen)) == "one two three"
    assert len(heard) == 6


async def test_an_interrupted_call_ends_the_middleware_too(store: Store) -> None:
    ended: list[str] = []

    class Waiting(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            try:
                return await next(request)
            finally:
                ended.append("ended")

    session = await open_session(store, Pieces("one two"), middleware=[Waiting()])
    async for event in session.send("go"):
        if isinstance(event, TextDelta):
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(session.interrupt()))
    assert ended == ["ended"]
    assert session.state.turn_open


async def test_a_middleware_may_change_the_request_and_the_reply(store: Store) -> None:
    class Shouting(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            reply = await next(replace(request, system="Be loud."))
            return replace(self.reply(reply.message.text.upper()), usage=reply.usage)

    model = ScriptedModel("hi", cost_usd=0.5)
    session = await open_session(store, model, middleware=[Shouting()])
    events, end = await collect(session.send("go"))
    assert (end.result, model.requests[0].system) == ("HI", "Be loud.")
    assert (end.usage.llm_calls, end.usage.cost_usd) == (1, 0.5)
    assert texts(events) == ["hi", "HI"]


async def test_an_answer_of_its_own_asks_no_model_and_costs_nothing(store: Store) -> None:
    class Canned(Middleware):
        def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            return self.reply("from memory")

    model = ScriptedModel()
    session = await open_session(store, model, middleware=[Canned()])
    events, end = await collect(session.send("go"))
    assert (end.status, end.result, model.requests) == ("done", "from memory", [])
    assert (end.usage.llm_calls, end.usage.cost_usd) == (0, 0.0)
    assert texts(events) == ["from memory"]


async def test_a_second_call_is_told_and_both_are_paid_for(store: Store) -> None:
    class Twice(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            await next(request)
            return await next(request)

    model = ScriptedModel("first", "second", cost_usd=0.25)
    session = await open_session(store, model, middleware=[Twice()])
    events, end = await collect(session.send("go"))
    assert (end.result, end.usage.llm_calls, end.usage.cost_usd) == ("second", 1, 0.5)
    assert notices(events) == [
        "The partial answer above is discarded.",
        "The middleware Twice asks the model again.",
    ]
    assert store.show("s1").state.usage.output_tokens == 10


async def test_a_reply_that_is_thrown_away_for_an_own_one_is_paid_for(store: Store) -> None:
    class Instead(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            await next(request)
            return self.reply("mine")

    session = await open_session(store, ScriptedModel("theirs", cost_usd=0.25), middleware=[Instead()])
    _, end = await collect(session.send("go"))
    assert (end.result, end.usage.llm_calls, end.usage.cost_usd) == ("mine", 1, 0.25)


async def test_what_a_failing_middleware_had_spent_is_told(store: Store) -> None:
    class Late(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            await next(request)
            raise KeyError("gone")

    session = await open_session(store, ScriptedModel("hi", cost_usd=0.25), middleware=[Late()])
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert end.error.message == "The middleware Late failed in wrap_model_call: KeyError: 'gone'."
    assert end.usage.cost_usd == 0.25


class Raises(Middleware):
    def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
        raise ValueError("no")


class ReturnsNothing(Middleware):
    async def wrap_model_call(self, request: ModelRequest, next: Any) -> Any:
        await next(request)


class SpeaksAsRuntime(Middleware):
    async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
        return Reply(runtime_message("x"), "stop", Usage())


class AsksAtOnce(Middleware):
    async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
        both = await asyncio.gather(next(request), next(request))
        return both[0]


class CancelsItself(Middleware):
    async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
        raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("middleware", "said"),
    [
        (Raises(), "The middleware Raises failed in wrap_model_call: ValueError: no."),
        (
            ReturnsNothing(),
            "The middleware ReturnsNothing returned NoneType from wrap_model_call, not a Reply.",
        ),
        (
            SpeaksAsRuntime(),
            "The middleware SpeaksAsRuntime returned a reply that is not a message of a model.",
        ),
        (AsksAtOnce(), "A middleware asks the model twice at once."),
        (CancelsItself(), "A middleware cancelled the model call that it waits for."),
    ],
)
async def test_what_a_middleware_does_wrong_is_one_sentence_and_no_lost_step(
    store: Store, middleware: Middleware, said: str
) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.01)
        return "slow"

    session = await open_session(store, ScriptedModel(slow, slow), middleware=[middleware])
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert (end.error.code, end.error.message) == ("middleware", said)
    again = await open_session(store, ScriptedModel("done"))
    _, end = await collect(again.carry_on())
    assert (end.status, end.result) == ("done", "done")


async def test_an_error_of_the_model_passes_through_as_it_is(store: Store) -> None:
    session = await open_session(
        store, ScriptedModel(Overloaded("busy")), middleware=[Noting("a", []), Noting("b", [])]
    )
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert (end.status, end.error.message) == ("rate_limited", "busy")


async def test_a_middleware_may_ask_another_model(store: Store) -> None:
    other = ScriptedModel("from the other")
    other.name = "scripted/other"

    class Elsewhere(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            return await next(replace(request, model=other))

    main = ScriptedModel()
    session = await open_session(store, main, middleware=[Elsewhere()])
    events, end = await collect(session.send("go"))
    assert (end.result, main.requests, len(other.requests)) == ("from the other", [], 1)
    assert notices(events) == ["Asking scripted/other in place of scripted/one."]


async def replayed(store: Store) -> Replayed:
    today = Today({"act": Recorder()}, gate_of=lambda _: AllowAll())
    return await replay(store, "s1", today=today, ignores_tools=True)


class AllowAll:
    def judge(self, tool: Any, arguments: Any, mode: Any, paths: Any = None, plan: Any = None) -> Any:
        from sandbur.actions.ports import Verdict

        return Verdict("allow", "")


async def test_a_replay_takes_what_middleware_did_from_the_record(store: Store) -> None:
    ran: list[str] = []

    class Changing(Middleware):
        async def wrap_model_call(self, request: ModelRequest, next: Any) -> Reply:
            ran.append("model")
            reply = await next(request)
            return reply if reply.message.tool_uses else replace(self.reply("changed"), usage=reply.usage)

        async def wrap_tool_call(self, call: Any, next: Any) -> Any:
            ran.append("tool")
            outcome = await next(call)
            return replace(outcome, content=f"{outcome.content}, says the middleware")

    tool = Recorder()
    session = await open_session(
        store, ScriptedModel(act("a"), "plain"), tool, middleware=[Changing()], gate=AllowAll()
    )
    events, end = await collect(session.send("go"))
    assert (end.result, ran) == ("changed", ["model", "tool", "model"])
    assert [event.content for event in events if isinstance(event, MessageAdded)][-1] == "changed"
    assert (await replayed(store)).is_same
    assert (ran, tool.done) == (["model", "tool", "model"], ["a"])
