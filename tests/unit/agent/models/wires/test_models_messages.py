"""What is particular to Anthropic Messages."""

import json
from typing import Any

import pytest
from support.models.server import ModelServer, ToolCall, Turn, calls, fail, say, stream_of
from support.models.talk import SYSTEM, TOOLS, ask_model, connect_to_model, converse, talk

from sandbur.actions.ports import ModelRequest
from sandbur.state.conversation.messages import (
    Message,
    Text,
    ToolResult,
    ToolUse,
    person_message,
    runtime_message,
    tool_message,
)
from sandbur.state.conversation.transcript import Transcript
from sandbur.state.errors import ContextFull, Overloaded

THINKER = "anthropic/claude-sonnet-5-5"


def events(*listed: dict[str, Any]) -> Any:
    return stream_of("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in listed))


def ending(reason: str = "end_turn") -> tuple[dict[str, Any], dict[str, Any]]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}


async def test_results_come_first_and_roles_alternate():
    uses = tuple(ToolUse(call_id=f"c{n}", tool="t", arguments="{}") for n in range(2))
    outcomes = ("ok", "timeout")
    history = [
        person_message("one"),
        runtime_message("two"),
        Message(role="assistant", origin="model", blocks=(Text(text=" "), *uses)),
        *(
            tool_message(ToolResult(call_id=use.call_id, tool="t", outcome=outcome, content=outcome))
            for use, outcome in zip(uses, outcomes, strict=True)
        ),
        runtime_message("three"),
    ]
    async with ModelServer([say("ok")]) as server, connect_to_model(server, "messages") as model:
        await talk(model, ask_model(*history))
        first, second, third = server.requests[0].body["messages"]
    assert [block["text"] for block in first["content"]] == ["one", "two"]
    assert [block["type"] for block in second["content"]] == ["tool_use", "tool_use"]
    assert third["content"] == [
        {"type": "tool_result", "tool_use_id": "c0", "content": "ok"},
        {"type": "tool_result", "tool_use_id": "c1", "content": "timeout", "is_error": True},
        {"type": "text", "text": "three"},
    ]


async def test_the_prompt_cache_is_used_without_touching_the_history():
    async with ModelServer([say("a"), say("b")]) as server, connect_to_model(server, "messages") as model:
        await converse(model, 2)
        body = server.requests[1].body
    assert body["cache_control"] == {"type": "ephemeral"}
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in json.dumps(body["messages"])


async def test_a_server_without_cache_control_is_not_asked_again():
    refusal = fail(400, "cache_control: Extra inputs are not permitted", type="invalid_request_error")
    async with (
        ModelServer([refusal, say("a"), say("b")]) as server,
        connect_to_model(server, "messages") as model,
    ):
        await talk(model)
        await talk(model)
        assert [b"cache_control" in r.raw for r in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "max_tokens", "thinks"),
    [
        ("anthropic/claude-sonnet-5-5", 32_000, True),
        ("anthropic/claude-opus-4-6", 32_000, True),
        ("anthropic/claude-sonnet-4-20250514", 32_000, False),
        ("anthropic/claude-haiku-4-5-20251001", 32_000, False),
        ("anthropic/claude-3-5-haiku-latest", 8_192, False),
        ("anthropic/some-other-model", 8_192, False),
    ],
)
async def test_output_limit_and_thinking_fit_the_model(name: str, max_tokens: int, thinks: bool):
    async with ModelServer([say("a")]) as server, connect_to_model(server, name) as model:
        await talk(model)
        body = server.requests[0].body
    assert body["max_tokens"] == max_tokens
    assert ("thinking" in body) == thinks


async def test_a_model_that_thinks_is_not_forced():
    async with ModelServer([say("a")]) as server, connect_to_model(server, THINKER) as model:
        await talk(model, ask_model(person_message("plan"), forced="submit_plan"))
        assert "tool_choice" not in server.requests[0].body
        assert server.rejections == []


async def test_a_model_that_cannot_think_after_all_is_forced_again():
    refusal = fail(400, "thinking.type: adaptive is not supported on this model")
    async with ModelServer([refusal, say("a")]) as server, connect_to_model(server, THINKER) as model:
        await talk(model, ask_model(person_message("plan"), forced="submit_plan"))
        last = server.requests[1].body
    assert "thinking" not in last
    assert last["tool_choice"] == {"type": "tool", "name": "submit_plan"}


async def test_a_full_window_in_the_middle_of_an_answer_is_context_full():
    script = [say("half an", finish="model_context_window_exceeded")]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        with pytest.raises(ContextFull):
            await talk(model)


async def test_an_overload_inside_the_stream_is_tried_again():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    some = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}
    script = [events(begin, some, error), say("whole"), *([events(error)] * 3)]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        heard = await talk(model)
        assert heard.reply.message.text == "whole"
        assert "discarded" in heard.notices[0]
        assert "anthropic is overloaded, trying again" in heard.notices[1]
        with pytest.raises(Overloaded, match="overloaded; gave up after 3 tries"):
            await talk(model)


async def test_a_stream_without_message_stop_is_no_reply():
    begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}}
    script = [events(begin, ending()[0]), say("whole")]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        assert (await talk(model)).reply.message.text == "whole"


async def test_unknown_blocks_are_kept_for_the_same_model_and_empty_text_is_dropped():
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    use = {"type": "tool_use", "id": "u1", "name": "t", "input": {"a": 1}}
    blocks = (redacted, {"type": "text", "text": ""}, use)
    listed = [
        {"type": "content_block_start", "index": index, "content_block": block}
        for index, block in enumerate(blocks)
    ]
    listed += ending("tool_use")
    async with ModelServer([events(*listed), say("done")]) as server:
        async with connect_to_model(server, "messages") as model:
            history = await converse(model, 2)
        sent = server.requests[1].body["messages"][1]["content"]
        assert server.rejections == []
    assert list(history)[1].tool_uses[0].arguments == '{"a": 1}'
    assert sent == [redacted, use]


async def test_deltas_without_a_start_and_events_without_a_type_are_read():
    lines = (
        'event: content_block_delta\ndata: {"index": 0, "delta": {"type": "text_delta", "text": "hi"}}\n\n'
        'event: message_delta\ndata: {"delta": {"stop_reason": "end_turn"}}\n\n'
        "event: message_stop\ndata: {}\n\n"
    )
    async with ModelServer([stream_of(lines)]) as server, connect_to_model(server, "messages") as model:
        assert (await talk(model)).reply.message.text == "hi"


async def test_thinking_is_not_replayed_once_other_messages_stand_before_it():
    script = [say("one", reasoning="a"), calls(ToolCall("t", "{}"), reasoning="b"), say("x"), say("y")]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        history = await converse(model, 2)
        await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
        compacted = history.compact(runtime_message("Summary"), keep_last=2)
        await talk(model, ModelRequest(SYSTEM, TOOLS, (compacted,)))
        assert server.rejections == []
        sent = [json.dumps(request.body["messages"]).count("signature") for request in server.requests]
    assert sent == [0, 1, 2, 0]


async def test_thinking_made_after_a_compression_is_replayed():
    script = [say("one", reasoning="a"), say("two", reasoning="b"), say("three")]
    async with ModelServer(script) as server, connect_to_model(server, "messages") as model:
        history = (await converse(model, 1)).compact(runtime_message("Summary"), keep_last=2)
        await converse(model, 2, history)
        sent = [json.dumps(request.body["messages"]).count("signature") for request in server.requests]
    assert sent == [0, 1, 2]


async def test_signatures_that_the_server_refuses_are_left_out_from_then_on():
    refusal = fail(400, "messages.1.content.0: Invalid `signature` in `thinking` block")
    script = [say("one", reasoning="a"), refusal, say("two", reasoning="b"), say("three")]
    async with ModelServer(script) as server, connect_to_model(server, THINKER) as model:
        history = await converse(model, 2)
        await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
        sent = [json.dumps(request.body["messages"]).count("signature") for request in server.requests]
        assert all("thinking" in request.body for request in server.requests)
    assert sent == [0, 1, 0, 1]


async def test_a_foreign_server_gets_the_key_in_both_headers():
    async with ModelServer([say("a")]) as server, connect_to_model(server, "messages") as model:
        await talk(model)
        headers = server.requests[0].headers
    assert headers["x-api-key"] == "sk-test-key"
    assert headers["authorization"] == "Bearer sk-test-key"


async def test_history_of_text_alone_merges_the_same_roles():
    history = Transcript.of(person_message("a"), runtime_message("b"), person_message("c"))
    async with ModelServer([Turn("ok")]) as server, connect_to_model(server, "messages") as model:
        await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
        (only,) = server.requests[0].body["messages"]
    assert [block["text"] for block in only["content"]] == ["a", "b", "c"]
