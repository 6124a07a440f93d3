"""What is particular to OpenAI Responses."""

import json
from typing import Any

import pytest
from support.models.server import ModelServer, ToolCall, Turn, calls, fail, say, stream_of
from support.models.talk import connect_to_model, converse, talk

from sandbur.state.errors import ContextFull, ModelError, Overloaded


def events(*listed: dict[str, Any]) -> Any:
    return stream_of("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in listed))


def completed(**fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", **fields}}


async def test_nothing_is_stored_and_reasoning_comes_encrypted():
    async with (
        ModelServer([say("a")]) as server,
        connect_to_model(server, "openai-responses/gpt-6.1-sol") as model,
    ):
        await talk(model)
        body = server.requests[0].body
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"summary": "auto"}
    assert body["instructions"]
    assert body["tools"][0]["strict"] is False


async def test_reasoning_items_stay_next_to_what_followed_them():
    script = [
        calls(ToolCall("a", "{}"), ToolCall("b", "{}"), reasoning="hm"),
        say("x", reasoning="so"),
        say("y"),
    ]
    async with ModelServer(script) as server, connect_to_model(server, "responses") as model:
        await converse(model, 3)
        kinds = [item.get("type") or item["role"] for item in server.requests[2].body["input"]]
        assert server.rejections == []
    assert kinds == [
        "user", "reasoning", "function_call", "function_call", "function_call_output", "function_call_output",
        "reasoning", "message", "user",
    ]  # fmt: skip


async def test_fields_that_the_neutral_form_does_not_know_are_sent_back():
    async with ModelServer([say("a", extra={"phase": "commentary"}), say("b")]) as server:
        async with connect_to_model(server, "responses") as model:
            await converse(model, 2)
        assert server.requests[1].body["input"][1]["phase"] == "commentary"


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Your organization must be verified to generate reasoning summaries", "reasoning"),
    ],
)
async def test_a_field_that_the_model_does_not_take_is_left_out(message: str, field: str):
    async with ModelServer([fail(400, message), say("a"), say("b")]) as server:
        async with connect_to_model(server, "openai-responses/gpt-6.1-sol") as model:
            await talk(model)
            await talk(model)
        assert [field in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "oops"}, Overloaded),
        ({"code": "rate_limit_exceeded", "message": "slow"}, Overloaded),
        ({"code": "context_length_exceeded", "message": "Your input exceeds"}, ContextFull),
        ({"code": "invalid_prompt", "message": "bad"}, ModelError),
    ],
)
async def test_a_failed_response_is_what_its_code_says(error: dict[str, Any], kind: type[ModelError]):
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    flat = {"type": "error", **error}
    for answer in (events(failed), events(flat)):
        async with ModelServer([answer] * 3) as server, connect_to_model(server, "responses") as model:
            with pytest.raises(ModelError) as caught:
                await talk(model)
        assert type(caught.value) is kind or (kind is ModelError and not isinstance(caught.value, Overloaded))


async def test_items_are_taken_from_the_end_if_they_did_not_come_before():
    part = {"type": "output_text", "text": "late"}
    output = [
        {"type": "message", "role": "assistant", "content": [part]},
        {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"},
    ]
    async with (
        ModelServer([events(completed(output=output))]) as server,
        connect_to_model(server, "responses") as model,
    ):
        reply = (await talk(model)).reply
    assert (reply.message.text, reply.message.tool_uses[0].call_id) == ("late", "c1")
    assert reply.finish == "tool_calls"


async def test_a_stream_that_ends_without_its_last_event_is_no_reply():
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "half"}
    async with (
        ModelServer([events(delta), say("whole")]) as server,
        connect_to_model(server, "responses") as model,
    ):
        heard = await talk(model)
    assert heard.reply.message.text == "whole"
    assert len(heard.notices) == 2


async def test_a_refusal_part_finishes_as_refusal():
    item = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    listed = [
        {"type": "response.refusal.delta", "output_index": 0, "delta": "No."},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        completed(),
    ]
    async with ModelServer([events(*listed)]) as server, connect_to_model(server, "responses") as model:
        heard = await talk(model)
    assert (heard.answer, heard.reply.message.text, heard.reply.finish) == ("No.", "No.", "refusal")


async def test_text_at_the_output_limit_is_kept_from_its_deltas():
    async with (
        ModelServer([Turn("I was about to", finish="max_output_tokens")]) as server,
        connect_to_model(server, "responses") as model,
    ):
        reply = (await talk(model)).reply
    assert (reply.message.text, reply.finish) == ("I was about to", "length")
