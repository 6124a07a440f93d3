"""A scripted model says what is written, keeps what it was asked, and says so when it is asked for more."""

import json
from typing import Any

import pytest
from pydantic import BaseModel
from support.models.scripted import Recorder, collect, open_session

from sandbur.actions.ports import ModelRequest, Reply
from sandbur.actions.ports.events import TextDelta, ThinkingDelta
from sandbur.state.application import Usage
from sandbur.state.conversation.messages import assistant_message, person_message
from sandbur.state.conversation.transcript import Transcript
from sandbur.state.errors import Overloaded
from sandbur.state.store.store import Store
from sandbur.testing import Say, ScriptedModel, ScriptEnded, ToolCall


def asks(text: str = "hello") -> ModelRequest:
    return ModelRequest("You are a test.", (), (Transcript.of(person_message(text)),))


async def events(model: ScriptedModel, request: ModelRequest | None = None) -> list[Any]:
    return [event async for event in model.stream(request or asks())]


async def replied(model: ScriptedModel, request: ModelRequest | None = None) -> Reply:
    *_, last = await events(model, request)
    assert isinstance(last, Reply)
    return last


async def test_a_run_on_the_real_graph_follows_the_script(store: Store) -> None:
    model = ScriptedModel(
        [["I look.", ToolCall("act", text="one"), ToolCall("act", text="two")], "All done."]
    )
    tool = Recorder()
    session = await open_session(store, model, tool)
    _, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("done", "All done.")
    assert tool.done == ["one", "two"]
    assert [len(list(request.messages)) for request in model.requests] == [1, 4]
    assert model.left == 0
    model.assert_done()


async def test_a_request_beyond_the_script_fails_the_run_with_a_sentence(store: Store) -> None:
    model = ScriptedModel([ToolCall("act", text="one")])
    session = await open_session(store, model, Recorder())
    _, end = await collect(session.send("go"))
    assert end.error is not None
    assert end.error.code == "script_ended"
    assert (
        "1 replies, and this is request 2, after \"act gave back 'did one'\" of the tool" in end.error.message
    )
    with pytest.raises(AssertionError, match="got 1 requests more"):
        model.assert_done()


async def test_a_script_that_ended_is_a_failed_assertion() -> None:
    with pytest.raises(AssertionError, match="after 'hello' of the user") as failed:
        await events(ScriptedModel([]))
    assert isinstance(failed.value, ScriptEnded)


async def test_what_was_never_asked_for_is_named() -> None:
    model = ScriptedModel(["one", ToolCall("act", text="x")])
    await events(model)
    with pytest.raises(AssertionError, match=r"1 of the 2 replies .* ToolCall\('act', \{\"text\": \"x\"\}\)"):
        model.assert_done()


async def test_texts_are_deltas_and_one_message() -> None:
    seen = await events(ScriptedModel([Say("Hel", "lo", thinking="Greet.")]))
    assert seen[:-1] == [ThinkingDelta("Greet."), TextDelta("Hel"), TextDelta("lo")]
    assert seen[-1].message.text == "Hello"
    assert seen[-1].finish == "stop"


async def test_a_call_has_its_arguments_as_json_and_an_id_of_its_place() -> None:
    model = ScriptedModel(lambda request: [ToolCall("a", x=1, name="n"), ToolCall.of_text("b", "{broken")])
    first = (await replied(model)).message.tool_uses
    assert [use.tool for use in first] == ["a", "b"]
    assert json.loads(first[0].arguments) == {"x": 1, "name": "n"}
    assert first[1].arguments == "{broken"
    longer = ModelRequest(
        "", (), (Transcript.of(person_message("a"), assistant_message("b"), person_message("c")),)
    )
    after = (await replied(model, longer)).message.tool_uses
    assert len({use.call_id for use in (*first, *after)}) == 4
    assert (await replied(model)).message.tool_uses == first


class Report(BaseModel):
    title: str


@pytest.mark.parametrize("reply", [{"title": "t"}, Report(title="t")])
async def test_an_object_is_said_as_json(reply: Any) -> None:
    text = (await replied(ScriptedModel([reply]))).message.text
    assert json.loads(text) == {"title": "t"}


async def test_a_function_sees_the_request_and_may_wait() -> None:
    async def upper(request: ModelRequest) -> str:
        return next(iter(request.messages)).text.upper()

    model = ScriptedModel([upper, lambda request: ToolCall(request.system)])
    assert (await replied(model)).message.text == "HELLO"
    assert (await replied(model)).message.tool_uses[0].tool == "You are a test."


@pytest.mark.parametrize("error", [Overloaded("Busy."), Overloaded, lambda request: Overloaded("Busy.")])
async def test_an_error_of_the_script_is_raised_and_the_script_goes_on(error: Any) -> None:
    model = ScriptedModel([error, "here"])
    with pytest.raises(Overloaded):
        await events(model)
    assert (await replied(model)).message.text == "here"


async def test_a_run_ends_as_the_raised_error_says(store: Store) -> None:
    session = await open_session(store, ScriptedModel([Overloaded("Busy.")]), Recorder())
    _, end = await collect(session.send("go"))
    assert (end.status, end.exit_code) == ("rate_limited", 75)


async def test_usage_and_finish_are_as_the_script_says() -> None:
    own = Usage(llm_calls=1, input_tokens=7, output_tokens=3, cost_usd=0.5)
    usual = Usage(llm_calls=1, input_tokens=1, output_tokens=1, cost_usd=0.1)
    model = ScriptedModel([Say("a", usage=own, finish="length"), "b"], usage=usual)
    first, second = await replied(model), await replied(model)
    assert (first.usage, first.finish) == (own, "length")
    assert (second.usage, second.finish) == (usual, "stop")
    estimated = (await replied(ScriptedModel("text"))).usage
    assert estimated.llm_calls == 1
    assert estimated.input_tokens == 5
    assert estimated.cost_usd == 0


async def test_a_whole_reply_is_given_as_it_is() -> None:
    reply = Reply(assistant_message("mine"), "refusal", Usage(llm_calls=1))
    assert await replied(ScriptedModel([reply])) is reply
    assert (await replied(ScriptedModel([reply.message]))).message is reply.message


@pytest.mark.parametrize("nonsense", [7, [1, 2], [["a"]], None])
async def test_what_no_model_can_say_is_refused_with_what_can_be_written(nonsense: Any) -> None:
    with pytest.raises(TypeError, match="Write a text, a ToolCall, a list of both"):
        ScriptedModel([nonsense])
    with pytest.raises(TypeError, match="Write a text, a ToolCall, a list of both"):
        await events(ScriptedModel(lambda request: nonsense))


async def test_a_single_reply_needs_no_list() -> None:
    assert (await replied(ScriptedModel("hi"))).message.text == "hi"
    assert (await replied(ScriptedModel(ToolCall("a")))).finish == "tool_calls"
