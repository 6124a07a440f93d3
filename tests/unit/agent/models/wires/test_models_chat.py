"""Chat Completions of servers that are compatible in their own ways."""

import json
from typing import Any

import pytest
from support.models.server import ModelServer, ToolCall, Turn, call, calls, fail, say, stream_of
from support.models.talk import SYSTEM, TOOLS, ask_model, connect_to_model, converse, results, talk

from sandbur.actions.ports import ModelRequest
from sandbur.state.conversation.messages import Message, person_message
from sandbur.state.conversation.transcript import Transcript
from sandbur.state.errors import ModelError

CALL = '{"command": "ls"}'


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


def streamed(*chunks: dict[str, Any] | str, end: str = "data: [DONE]\n\n") -> Any:
    lines = [one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in chunks]
    return stream_of("".join(lines) + end)


async def reply_of(*chunks: dict[str, Any] | str, end: str = "data: [DONE]\n\n") -> Message:
    async with ModelServer([streamed(*chunks, end=end)]) as server, connect_to_model(server, "chat") as model:
        return (await talk(model)).reply.message


async def calls_of(*pieces: dict[str, Any]) -> list[tuple[str, str]]:
    chunks = [delta(tool_calls=[one]) for one in pieces]
    message = await reply_of(*chunks, delta("tool_calls"))
    assert len({use.call_id for use in message.tool_uses}) == len(message.tool_uses)
    assert all(use.call_id for use in message.tool_uses)
    return [(use.tool, use.arguments) for use in message.tool_uses]


async def test_pieces_without_index_belong_to_the_last_call():
    first, *rest = piece("ls", '{"a":', id="1"), piece(None, " 1"), piece(None, "}")
    assert await calls_of(first, *rest, piece("cat", '{"b"', id="2"), piece(None, ":2}")) == [
        ("ls", '{"a": 1}'),
        ("cat", '{"b":2}'),
    ]


async def test_id_type_and_name_may_be_repeated_in_every_piece():
    parts = [piece("ls", text, id="1", index=0, type="function") for text in ('{"a', '": ', '"}"}')]
    assert await calls_of(*parts) == [("ls", '{"a": "}"}')]


async def test_a_name_may_come_in_pieces():
    first, *rest = (
        piece("run_", "", id="1", index=0),
        piece("shell_", "", index=0),
        piece("command", "", index=0),
    )
    assert await calls_of(first, *rest, piece(None, CALL, index=0)) == [("run_shell_command", CALL)]


async def test_name_and_role_may_be_repeated_after_the_arguments_are_whole():
    assert await calls_of(piece("ls", CALL, id="1", index=0), piece("ls", "", id="1", index=0)) == [
        ("ls", CALL)
    ]


async def test_parallel_calls_may_all_have_index_0():
    parts = [piece(name, CALL, id=name, index=0) for name in ("a", "b", "c")]
    assert await calls_of(*parts) == [("a", CALL), ("b", CALL), ("c", CALL)]


async def test_whole_calls_without_id_and_index_stay_apart():
    assert await calls_of(piece("a", CALL), piece("a", '{"n": 2}'), piece("b", "")) == [
        ("a", CALL),
        ("a", '{"n": 2}'),
        ("b", "{}"),
    ]


async def test_whole_calls_with_the_same_id_stay_apart():
    assert await calls_of(piece("a", CALL, id="x"), piece("a", '{"n": 2}', id="x")) == [
        ("a", CALL),
        ("a", '{"n": 2}'),
    ]


async def test_an_id_that_changes_with_every_piece_does_not_split_a_call():
    first = piece("ls", "", id="r1", index=0)
    assert await calls_of(
        first, piece(None, '{"a":', id="r2", index=0), piece(None, "1}", id="r3", index=0)
    ) == [("ls", '{"a":1}')]


async def test_interleaved_calls_are_told_apart_by_index():
    assert await calls_of(
        piece("a", '{"n":', id="1", index=0),
        piece("b", '{"m":', id="2", index=1),
        piece(None, "1}", index=0),
        piece(None, "2}", index=1),
    ) == [("a", '{"n":1}'), ("b", '{"m":2}')]


async def test_arguments_may_come_as_an_object():
    assert await calls_of(piece("ls", {"command": "ls"}, id="1", index=0)) == [("ls", CALL)]


async def test_content_may_be_a_list_of_parts():
    parts = [{"type": "text", "text": "Hello, "}, {"type": "text", "text": "you"}]
    assert (await reply_of(delta(content=parts), delta("stop"))).text == "Hello, you"


@pytest.mark.parametrize("finish", ["stop", "eos", "function_call", "STOP"])
async def test_any_finish_reason_with_calls_means_tool_calls(finish: str):
    chunks = [delta(tool_calls=[piece("ls", CALL, id="1", index=0)]), delta(finish)]
    async with ModelServer([streamed(*chunks)]) as server, connect_to_model(server, "chat") as model:
        assert (await talk(model)).reply.finish == "tool_calls"


@pytest.mark.parametrize("finish", ["stop", "eos_token", "tool_calls"])
async def test_any_finish_reason_without_calls_means_stop(finish: str):
    chunks = [delta(content="hi"), delta(finish)]
    async with ModelServer([streamed(*chunks)]) as server, connect_to_model(server, "chat") as model:
        assert (await talk(model)).reply.finish == "stop"


async def test_null_and_missing_fields_change_nothing():
    message = await reply_of(
        {"choices": None},
        {"choices": [], "usage": None},
        {"choices": [None]},
        {"object": "ping"},
        {"choices": [{"delta": None}]},
        delta(content=None, role=None, tool_calls=None),
        delta(content="hi", tool_calls=[]),
        delta("stop"),
    )
    assert message.text == "hi"


async def test_comments_event_names_and_missing_blank_lines_are_read_over():
    one, two, end = (json.dumps(chunk) for chunk in (delta(content="a"), delta(content="b"), delta("stop")))
    message = await reply_of(
        ": OPENROUTER PROCESSING\n\n",
        f"event: message\nid: 7\nretry: 10\ndata:{one}\n\n",
        f"data: {two}\ndata: {end}\n\n",
        ": bye\n\n",
        end="data: [DONE]",
    )
    assert message.text == "ab"


async def test_a_missing_done_mark_does_not_matter_after_a_finish_reason():
    assert (await reply_of(delta(content="hi"), delta("stop"), end="")).text == "hi"


async def test_bad_utf8_is_replaced():
    body = b'data: {"choices":[{"delta":{"content":"a\xff\xfeb"},"finish_reason":"stop"}]}\n\n'
    async with ModelServer([stream_of(body)]) as server, connect_to_model(server, "chat") as model:
        assert (await talk(model)).reply.message.text == "a\ufffd\ufffdb"


async def test_a_server_that_does_not_stream_is_read_all_the_same():
    from support.models.server import Raw

    message = {"role": "assistant", "content": "whole", "tool_calls": [piece("ls", CALL, id="1")]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 7}}
    async with (
        ModelServer([Raw(json.dumps(body).encode())]) as server,
        connect_to_model(server, "chat") as model,
    ):
        reply = (await talk(model)).reply
    assert (reply.message.text, reply.message.tool_uses[0].arguments) == ("whole", CALL)
    assert reply.usage.input_tokens == 7


async def test_only_the_first_of_several_choices_counts():
    chunk = {
        "choices": [{"index": i, "delta": {"content": str(i)}, "finish_reason": "stop"} for i in range(3)]
    }
    assert (await reply_of(chunk)).text == "0"


async def test_a_refusal_in_words_is_shown_and_finishes_as_refusal():
    chunks = [delta(refusal="I will"), delta(refusal=" not."), delta("stop")]
    async with ModelServer([streamed(*chunks)]) as server, connect_to_model(server, "chat") as model:
        heard = await talk(model)
    assert (heard.answer, heard.reply.finish) == ("I will not.", "refusal")


async def test_gemini_signatures_go_back_with_their_calls():
    signed = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    script = [calls(ToolCall("t", CALL, extra=signed)), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, "gemini/gemini-x") as model:
        await converse(model, 2)
        (sent,) = server.requests[1].body["messages"][2]["tool_calls"]
    assert sent["extra_content"] == signed["extra_content"]


async def test_gemini_gets_the_documented_sign_for_calls_of_other_models():
    async with ModelServer([calls(ToolCall("t", CALL)), say("x")]) as server:
        async with connect_to_model(server, "chat") as other:
            reply = (await talk(other)).reply
        async with connect_to_model(server, "gemini/gemini-x") as model:
            await talk(model, ask_model(person_message("hi"), reply.message, *results(reply)))
        (sent,) = server.requests[1].body["messages"][2]["tool_calls"]
    assert "skip" in sent["extra_content"]["google"]["thought_signature"]


async def test_deepseek_gets_reasoning_with_every_call_even_if_there_was_none():
    script = [calls(ToolCall("t", CALL), reasoning="Why?"), calls(ToolCall("t", CALL)), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, "deepseek/deepseek-x") as model:
        await converse(model, 3)
        said = [m for m in server.requests[2].body["messages"] if m["role"] == "assistant"]
    assert [message["reasoning_content"] for message in said] == ["Why?", ""]


async def test_reasoning_details_are_joined_and_sent_back_with_unknown_extras():
    def detail(text: str, **more: Any) -> list[dict[str, Any]]:
        return [{"type": "reasoning.text", "index": 0, "text": text, **more}]

    chunks = [
        delta(reasoning="Let", reasoning_details=detail("Let")),
        delta(reasoning=" me", reasoning_details=detail(" me", signature="sig")),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "enc"}]),
        delta(content="Hi", extra_content={"google": {"thought_signature": "c2ln"}}),
        delta("stop"),
    ]
    async with ModelServer([streamed(*chunks), say("x")]) as server:
        async with connect_to_model(server, "openrouter/vendor/model") as model:
            heard = await talk(model)
            await talk(model, ask_model(person_message("hello"), heard.reply.message, person_message("more")))
        assert server.requests[0].body["model"] == "vendor/model"
        sent = server.requests[1].body["messages"][2]
    assert heard.thought == "Let me"
    assert sent == {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "Let me",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "Let me", "signature": "sig"},
            {"type": "reasoning.encrypted", "index": 1, "data": "enc"},
        ],
        "extra_content": {"google": {"thought_signature": "c2ln"}},
    }


async def test_a_server_without_stream_options_is_not_asked_again():
    refusal = fail(400, "Unrecognized request argument supplied: stream_options")
    async with (
        ModelServer([refusal, say("a"), say("b")]) as server,
        connect_to_model(server, "chat") as model,
    ):
        await talk(model)
        await talk(model)
        assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "field"), [("openai-chat/x", "max_completion_tokens"), ("deepseek/x", "max_tokens")]
)
async def test_the_output_limit_has_the_field_that_the_provider_knows(name: str, field: str):
    async with (
        ModelServer([say("a")]) as server,
        connect_to_model(server, name, max_output_tokens=99) as model,
    ):
        await talk(model)
        assert server.requests[0].body[field] == 99


async def test_replayed_reasoning_that_a_server_refuses_is_left_out_from_then_on():
    refusal = fail(400, "property 'reasoning_content' is unsupported")
    script = [say("one", reasoning="hm"), refusal, say("two"), say("three")]
    async with ModelServer(script) as server, connect_to_model(server, "chat") as model:
        history = await converse(model, 2)
        await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
        sent = ["reasoning_content" in str(request.body) for request in server.requests]
    assert sent == [False, True, False, False]


async def test_an_empty_reply_is_asked_for_once_more_and_then_an_error():
    script = [Turn(), say("here"), Turn(reasoning="only thoughts"), Turn(finish="length")]
    async with ModelServer(script) as server, connect_to_model(server, "chat") as model:
        heard = await talk(model)
        assert heard.reply.message.text == "here"
        assert len(heard.notices) == 1
        with pytest.raises(ModelError, match="returned nothing") as caught:
            await talk(model)
        assert server.served == 4
    assert caught.value.exit_code == 1


async def test_the_history_may_grow_in_the_middle_between_two_steps():
    chat_history = Transcript.of(person_message("goal"))
    script = [call("run_shell_command", command="ls"), say("step one done"), say("step two done")]
    async with ModelServer(script) as server, connect_to_model(server, "chat") as model:
        step = Transcript.of(person_message("step one"))
        reply = (await talk(model, ModelRequest(SYSTEM, TOOLS, (chat_history, step)))).reply
        step = step.append(reply.message, *results(reply))
        await talk(model, ModelRequest(SYSTEM, TOOLS, (chat_history, step)))
        chat_history = chat_history.append(person_message("Step 1 completed"))
        step = Transcript.of(person_message("step two"))
        await talk(model, ModelRequest(SYSTEM, TOOLS, (chat_history, step)))
        texts = [message["content"] for message in server.requests[2].body["messages"]]
    assert texts == [SYSTEM, "goal", "Step 1 completed", "step two"]
