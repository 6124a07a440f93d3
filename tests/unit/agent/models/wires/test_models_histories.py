"""Histories from anywhere: every provider gets them in a form that it accepts."""

import json

import pytest
from support.models.files import PDF, base64_of, png
from support.models.server import ModelServer, ToolCall, calls, say
from support.models.talk import SYSTEM, TOOLS, WIRES, ask_model, connect_to_model, converse, talk

from sandbur.actions.ports import ModelRequest, Reply
from sandbur.state.conversation.messages import (
    Document,
    Image,
    Message,
    Outcome,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    Wire,
    assistant_message,
    person_message,
    runtime_message,
    tool_message,
    user_command_message,
)
from sandbur.state.conversation.transcript import Transcript

every_wire = pytest.mark.parametrize("wire", WIRES)


@every_wire
async def test_what_a_model_confuses_is_sent_back_in_a_legal_form(wire: str):
    confused = [
        ToolCall("no such tool!", "{not json"),
        ToolCall("", "[1, 2]"),
        ToolCall("t", '{"a": NaN}'),
        ToolCall("ünï", "[" * 100_000),
    ]
    async with (
        ModelServer([calls(*confused), say("sorry")]) as server,
        connect_to_model(server, wire) as model,
    ):
        history = await converse(model, 2)
        assert server.rejections == []
    uses = next(m for m in history if m.tool_uses).tool_uses
    assert [use.arguments for use in uses] == [one.arguments for one in confused]
    assert [use.tool for use in uses] == [one.name for one in confused]


@every_wire
async def test_duplicated_call_ids_of_one_reply_are_renamed(wire: str):
    script = [calls(ToolCall("a", "{}", id="same"), ToolCall("b", "{}", id="same"), reasoning="hm"), say("x")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        history = await converse(model, 2)
        assert server.rejections == []
    message = next(m for m in history if m.tool_uses)
    assert [use.tool for use in message.tool_uses] == ["a", "b"]
    assert len({use.call_id for use in message.tool_uses}) == 2
    assert message.wire is None


@every_wire
async def test_a_history_of_another_provider_is_rebuilt_in_legal_form(wire: str):
    ids = ["functions.shell:0", "x" * 90, "chatcmpl-tool-00112233445566778899aabbccddeeff"]
    foreign = Message(
        role="assistant",
        origin="model",
        blocks=(
            Thinking(text="secret thought"),
            Text(text=""),
            *(ToolUse(call_id=one, tool="t", arguments="{}") for one in ids),
        ),
        wire=Wire(provider="elsewhere", model="m", body={"secret": "thought"}),
    )
    answers = [tool_message(ToolResult(call_id=i, tool="t", outcome="error", content="")) for i in ids]
    history = [person_message("hello"), foreign, *answers, runtime_message("note"), person_message("more")]
    async with ModelServer([say("fine")]) as server, connect_to_model(server, wire) as model:
        await talk(model, ask_model(*history))
        assert server.rejections == []
        assert b"thought" not in server.requests[0].raw


@every_wire
async def test_a_command_of_the_person_is_told_in_words_that_every_provider_takes(wire: str):
    def ran(number: int, outcome: Outcome = "ok") -> Message:
        use = ToolUse(call_id=f"own-{number}", tool="run_shell_command", arguments='{"command": "ls -la"}')
        answer = ToolResult(
            call_id=use.call_id, tool=use.tool, outcome=outcome, content="a.txt\nexit code: 0"
        )
        return user_command_message(use, answer)

    history = [
        ran(0),
        person_message("hello"),
        assistant_message("hi"),
        ran(1),
        ran(2, "denied"),
        person_message("so?"),
    ]
    async with ModelServer([say("fine")]) as server, connect_to_model(server, wire) as model:
        await talk(model, ask_model(*history))
        assert server.rejections == []
        sent = json.dumps(server.requests[0].body)
    assert sent.count("I ran this shell command myself:\\n```\\nls -la\\n```") == 3
    assert "a.txt\\nexit code: 0" in sent
    assert "own-" not in sent


@every_wire
async def test_images_and_documents_are_sent(wire: str):
    blocks = (
        Text(text="look"),
        Image.from_bytes(png()),
        Document.from_bytes(PDF, "a.pdf"),
    )
    message = Message(role="user", origin="person", blocks=blocks)
    async with ModelServer([say("seen")]) as server, connect_to_model(server, wire) as model:
        await talk(model, ask_model(message))
        raw = server.requests[0].raw
    assert base64_of(png()) in raw
    assert base64_of(PDF) in raw
    assert b"image/png" in raw


@every_wire
async def test_lone_surrogates_and_nul_are_replaced_in_requests(wire: str):
    text = "c\x00\x00d \\u0000 \\\x00"
    request = ModelRequest("a\ud800b", TOOLS, (Transcript.of(person_message(text)),))
    async with ModelServer([say("ok")]) as server, connect_to_model(server, wire) as model:
        await talk(model, request)
        sent = json.dumps(server.requests[0].body)
    assert "a\\ufffdb" in sent
    assert "c\\ufffd\\ufffdd \\\\u0000 \\\\\\ufffd" in sent


@every_wire
async def test_reasoning_is_shown_kept_and_replayed_verbatim(wire: str):
    script = [calls(ToolCall("t", "{}"), reasoning="Let me think."), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        history = await converse(model, 2)
        assert server.rejections == []
        replayed = server.requests[1].raw
    message = next(m for m in history if m.tool_uses)
    assert isinstance(message.blocks[0], Thinking)
    assert message.blocks[0].text == "Let me think."
    assert message.wire is not None
    sent = json.dumps(message.wire.body, separators=(",", ":")).encode().strip(b"[]")
    assert sent in replayed


@every_wire
async def test_reasoning_of_another_model_is_not_replayed(wire: str):
    script = [say("one", reasoning="private"), say("two")]
    async with ModelServer(script) as server:
        async with connect_to_model(server, wire) as model:
            reply = (await talk(model)).reply
        name = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic"}[wire]
        async with connect_to_model(server, f"{name}/another") as other:
            await talk(other, ask_model(person_message("hello"), reply.message, person_message("more")))
        assert b"private" not in server.requests[1].raw
        assert b"one" in server.requests[1].raw
        assert server.rejections == []


@every_wire
async def test_step_summaries_and_notes_make_a_history_that_providers_accept(wire: str):
    def answered(use: ToolUse) -> list[Message]:
        said = Message(role="assistant", origin="model", blocks=(use,))
        result = ToolResult(call_id=use.call_id, tool=use.tool, outcome="denied", content="no")
        return [said, tool_message(result)]

    chat_history = Transcript.of(
        person_message("goal"),
        *answered(ToolUse(call_id="p1", tool="start_plan", arguments='{"goal": "x"}')),
        *answered(ToolUse(call_id="p2", tool="submit_plan", arguments='{"steps": []}')),
        assistant_message("Step 1 completed: fine", "runtime"),
        assistant_message("Step 2 failed: bad", "runtime"),
    )
    step = Transcript.of(
        runtime_message("Work on step 3."),
        person_message("and hurry"),
        *answered(ToolUse(call_id="p3", tool="run_shell_command", arguments="{}")),
        runtime_message("  "),
        person_message("now"),
    )
    async with ModelServer([say("ok")]) as server, connect_to_model(server, wire) as model:
        reply = (await talk(model, ModelRequest(SYSTEM, TOOLS, (chat_history, step)))).reply
        assert server.rejections == []
    assert isinstance(reply, Reply)
