"""What all three wire formats must do alike, against a local server that checks histories strictly."""

import itertools
import json

import pytest
from support.models.server import ModelServer, Raw, ToolCall, Turn, bytewise, call, calls, fail, say
from support.models.talk import SYSTEM, TOOLS, WIRES, ask_model, connect_to_model, converse, talk

from sandbur.actions.ports import ModelRequest
from sandbur.state.application import Usage
from sandbur.state.conversation.messages import person_message
from sandbur.state.errors import ModelError

every_wire = pytest.mark.parametrize("wire", WIRES)


@every_wire
async def test_text_streams_in_and_ends_in_one_reply(wire: str):
    async with ModelServer([say("Hello, world.")]) as server, connect_to_model(server, wire) as model:
        heard = await talk(model)
    assert heard.answer == heard.reply.message.text == "Hello, world."
    assert len(heard.events) > 2
    assert heard.reply.finish == "stop"
    assert heard.reply.message.wire is None


@every_wire
async def test_a_tool_call_keeps_its_arguments_as_the_model_wrote_them(wire: str):
    written = '{"command" :  "ls -l",\n "n": 1.50}'
    script = [calls(ToolCall("run_shell_command", written))]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        reply = (await talk(model)).reply
    (use,) = reply.message.tool_uses
    assert (use.tool, use.arguments, reply.finish) == ("run_shell_command", written, "tool_calls")
    assert use.call_id


@every_wire
async def test_a_call_without_arguments_has_an_empty_object(wire: str):
    async with (
        ModelServer([calls(ToolCall("finish_step", ""))]) as server,
        connect_to_model(server, wire) as model,
    ):
        (use,) = (await talk(model)).reply.message.tool_uses
    assert use.arguments == "{}"


@every_wire
async def test_text_and_parallel_calls_come_in_one_message_and_order(wire: str):
    script = [
        Turn("Both:", (ToolCall("a", "{}"), ToolCall("b", '{"x": 1}'), ToolCall("c", "{}"))),
        say("done"),
    ]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        history = await converse(model, 2)
        assert server.rejections == []
    first = next(iter(m for m in history if m.role == "assistant"))
    assert [getattr(b, "tool", None) for b in first.blocks] == [None, "a", "b", "c"]
    assert first.text == "Both:"


@every_wire
async def test_200_parallel_calls_stay_200_calls(wire: str):
    script = [calls(*(ToolCall("t", json.dumps({"n": n})) for n in range(200))), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        history = await converse(model, 2)
        assert server.rejections == []
    uses = [use for message in history for use in message.tool_uses]
    assert [json.loads(use.arguments)["n"] for use in uses] == list(range(200))
    assert len({use.call_id for use in uses}) == 200


@every_wire
async def test_usage_is_reported_with_cached_tokens_as_part_of_the_input(wire: str):
    def price(usage: Usage) -> float | None:
        return 0.5 if usage.output_tokens == 10 else None

    async with ModelServer([say("hi")]) as server, connect_to_model(server, wire, price=price) as model:
        usage = (await talk(model)).reply.usage
        sent = len(server.requests[0].raw)
    assert usage.llm_calls == 1
    assert usage.input_tokens == pytest.approx(sent // 4, abs=3)
    assert usage.output_tokens == 10
    assert usage.cache_read_tokens
    assert usage.cost_usd == 0.5


@every_wire
async def test_usage_that_is_missing_or_absurd_is_unknown_and_not_zero(wire: str):
    absurd = {
        "prompt_tokens": "many", "completion_tokens": -5, "input_tokens": "many", "output_tokens": -5,
    }  # fmt: skip
    script = [say("hi", usage={}), say("hi", usage=absurd)]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        for _ in script:
            usage = (await talk(model)).reply.usage
            assert usage == Usage(
                llm_calls=1,
                input_tokens=None,
                output_tokens=None,
                cache_read_tokens=None,
                cache_write_tokens=None,
                cost_usd=None,
            )


@every_wire
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
async def test_a_stream_in_single_bytes_is_read_whatever_its_line_ends(wire: str, line_end: str):
    turn = bytewise(Turn("Grüße, 世界 🎉", (ToolCall("t", '{"a": "ä🎉"}'),)), line_end)
    async with ModelServer([turn]) as server, connect_to_model(server, wire) as model:
        message = (await talk(model)).reply.message
    assert message.text == "Grüße, 世界 🎉"
    assert message.tool_uses[0].arguments == '{"a": "ä🎉"}'


@every_wire
async def test_surrogate_halves_are_joined_across_deltas_and_lone_ones_replaced(wire: str):
    turn = Turn("a\ud83d\ude00b\ud800c", pieces=6)
    async with ModelServer([turn]) as server, connect_to_model(server, wire) as model:
        heard = await talk(model)
    assert heard.answer == heard.reply.message.text == "a😀b\ufffdc"


@every_wire
async def test_one_connection_serves_a_whole_session(wire: str):
    script = [call("run_shell_command", command="ls")] * 5 + [say("done")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        await converse(model, 6)
        assert {request.connection for request in server.requests} == {1}


@every_wire
async def test_each_request_extends_the_bytes_of_the_one_before(wire: str):
    script = [call("run_shell_command", command=f"echo {n}") for n in range(4)] + [say("Grüße"), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        await converse(model, 6)
        raws = [request.raw for request in server.requests]
        assert server.rejections == []
    for earlier, later in itertools.pairwise(raws):
        assert later.startswith(earlier.rstrip(b"]}"))


@every_wire
async def test_a_forced_tool_only_changes_what_comes_behind_the_messages(wire: str):
    script = [say("free"), call("submit_plan", steps=[])]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        await talk(model)
        await talk(model, ask_model(person_message("hello"), forced="submit_plan"))
        free, forced = server.requests
    assert forced.raw.startswith(free.raw.rstrip(b"}"))
    assert "submit_plan" in json.dumps(forced.body["tool_choice"])
    assert "tool_choice" not in free.body


@every_wire
async def test_a_server_that_refuses_a_forced_choice_gets_it_offered_from_then_on(wire: str):
    refusal = fail(400, "Invalid tool_choice: this model does not support it", type="invalid_request_error")
    script = [refusal, say("a plan"), say("another")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        heard = await talk(model, ask_model(person_message("hello"), forced="submit_plan"))
        again = await talk(model, ask_model(person_message("hello"), forced="submit_plan"))
        assert ["tool_choice" in request.body for request in server.requests] == [True, False, False]
    assert (heard.reply.message.text, again.reply.message.text) == ("a plan", "another")


@every_wire
async def test_any_other_400_is_raised_and_not_sent_again(wire: str):
    script = [fail(400, "the moon is in the wrong phase")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        with pytest.raises(ModelError, match="wrong phase"):
            await talk(model)
        assert server.served == 1


@every_wire
async def test_a_refusal_has_words_even_if_the_model_gave_none(wire: str):
    finish = {"chat": "content_filter", "responses": "content_filter", "messages": "refusal"}[wire]
    script = [Turn(finish=finish)]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        reply = (await talk(model)).reply
    assert reply.finish == "refusal"
    assert reply.message.text


@every_wire
async def test_an_answer_at_the_output_limit_says_so_and_keeps_what_was_said(wire: str):
    finish = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens"}[wire]
    turn = Turn("I write", (ToolCall("t", '{"path": "a", "content": "cut he'),), finish=finish)
    async with ModelServer([turn, say("again")]) as server, connect_to_model(server, wire) as model:
        history = await converse(model, 1)
        reply_message = list(history)[1]
        assert reply_message.text == "I write"
        assert reply_message.tool_uses[0].arguments == '{"path": "a", "content": "cut he'
        again = await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
        assert again.reply.message.text == "again"
        assert server.rejections == []


@every_wire
async def test_finish_length_is_reported_even_if_the_cut_call_parses(wire: str):
    finish = {"chat": "length", "responses": "max_output_tokens", "messages": "max_tokens"}[wire]
    turn = Turn(calls=(ToolCall("t", '{"path": "a"}'),), finish=finish)
    async with ModelServer([turn]) as server, connect_to_model(server, wire) as model:
        assert (await talk(model)).reply.finish == "length"


@every_wire
async def test_nothing_follows_a_redirect_to_another_host(wire: str):
    async with ModelServer([say("mine now")]) as thief:
        moved = Raw(b"", 307, {"Location": f"{thief.url}/v1/messages"})
        async with ModelServer([moved]) as server, connect_to_model(server, wire) as model:
            with pytest.raises(ModelError, match="redirects elsewhere"):
                await talk(model)
        assert thief.served == 0
