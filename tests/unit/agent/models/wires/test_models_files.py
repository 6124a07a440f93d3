"""Pictures and documents on the three wires: sent, given back by tools, made by models, and turned down."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from support.models.files import PDF, base64_of, png
from support.models.server import ModelServer, Request, ToolCall, Turn, call, calls, fail, say
from support.models.talk import SYSTEM, TOOLS, WIRES, ask_model, connect_to_model, talk

from sandbur.actions.ports import Model, ModelRequest
from sandbur.actions.turn.model_call import reads, refusal_of
from sandbur.agent.extensions.middleware.lifecycle import Lifecycle
from sandbur.agent.extensions.middleware.middleware import MiddlewareSession
from sandbur.agent.extensions.middleware.model_layers import LayeredModel
from sandbur.agent.models.fallback import FallbackModel, NoModel
from sandbur.state.conversation.messages import (
    Document,
    Image,
    Message,
    Text,
    ToolResult,
    ToolUse,
    assistant_message,
    person_message,
    tool_message,
)
from sandbur.state.conversation.transcript import Transcript
from sandbur.state.errors import ModelError

every_wire = pytest.mark.parametrize("wire", WIRES)
PICTURE, OTHER = Image.from_bytes(png()), Image.from_bytes(png(seed=7))
PAPER = Document.from_bytes(PDF, "/home/me/paper.pdf")
NOTES = Document.from_bytes("Grüße".encode(), "notes.txt")
LOOK = person_message([PICTURE, "What is this?"])


def gave(call_id: str, *blocks: Text | Image | Document, outcome: Any = "ok") -> Message:
    return tool_message(
        ToolResult(call_id=call_id, tool="shoot", outcome=outcome, content="done", blocks=blocks)
    )


def round_of(*results: Message) -> Transcript:
    uses = (
        ToolUse(call_id=one.call_id, tool=one.tool, arguments="{}") for m in results for one in m.tool_results
    )
    asking = Message(role="assistant", origin="model", blocks=tuple(uses))
    return Transcript.of(person_message("shoot"), asking, *results)


async def sent(model: Model, server: ModelServer, *histories: Transcript) -> list[bytes]:
    for history in histories:
        await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))
    assert server.rejections == []
    return [request.raw for request in server.requests]


@every_wire
async def test_a_message_may_be_a_picture_alone(wire: str):
    async with ModelServer([say("a dot")]) as server, connect_to_model(server, wire) as model:
        (raw,) = await sent(model, server, Transcript.of(person_message([PICTURE])))
    assert base64_of(png()) in raw


@every_wire
async def test_a_text_as_a_document_is_sent_as_words(wire: str):
    async with ModelServer([say("read")]) as server, connect_to_model(server, wire) as model:
        (raw,) = await sent(model, server, Transcript.of(person_message([NOTES, "Read this."])))
    assert "Grüße".encode() in raw
    assert b"notes.txt" in raw
    assert b"/home/me" not in raw


@every_wire
async def test_tools_give_pictures_back_and_each_request_extends_the_one_before(wire: str):
    history = round_of(gave("c1", Text(text="a caption"), PICTURE), gave("c2"), gave("c3", OTHER, PAPER))
    longer = history.append(assistant_message("I see.", "model"), person_message("And now?"))
    async with ModelServer([say("one"), say("two")]) as server, connect_to_model(server, wire) as model:
        first, second = await sent(model, server, history, longer)
    for content in (png(), png(seed=7), PDF):
        assert first.count(base64_of(content)) == 1
    assert b"a caption" in first
    opened = first[: -len("]}]}" if wire == "messages" else b"]}")]
    assert second.startswith(opened)


async def test_chat_completions_shows_pictures_after_the_last_result_of_the_round():
    history = round_of(gave("c1", PICTURE), gave("c2"))
    async with ModelServer([say("ok")]) as server, connect_to_model(server, "chat") as model:
        await sent(model, server, history)
        messages = server.requests[0].body["messages"][3:]
    assert [message["role"] for message in messages] == ["tool", "tool", "user"]
    assert messages[0]["content"].startswith("done\n[image/png, ")
    assert messages[2]["content"][0]["text"] == "[What shoot (c1) gave back:]"
    assert messages[2]["content"][1]["type"] == "image_url"


@every_wire
async def test_a_result_that_failed_has_words_alone(wire: str):
    history = round_of(gave("c1", PICTURE, outcome="error"))
    async with ModelServer([say("ok")]) as server, connect_to_model(server, wire) as model:
        (raw,) = await sent(model, server, history)
    assert b"image/png" in raw


REFUSALS = [
    fail(400, "this model does not support image input"),
    fail(400, "messages[1]: unknown variant `image_url`, expected `text`"),
    fail(404, "No endpoints found that support image input"),
    fail(500, "image input is not supported - hint: you may need to provide the mmproj"),
    fail(400, "messages.0.content.0.image.source.base64.data: Could not process image"),
]


@every_wire
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_model_that_turns_pictures_down_is_told_of_them_and_the_session_goes_on(
    wire: str, refusal: Any
):
    def answer(request: Request) -> Any:
        return refusal if base64_of(png()) in request.raw else say("I cannot see it.")

    async with ModelServer(answer) as server, connect_to_model(server, wire) as model:
        first = await talk(model, ask_model(LOOK))
        again = await talk(model, ask_model(LOOK, first.reply.message, person_message("Still there?")))
        assert server.rejections == []
        assert [base64_of(png()) in request.raw for request in server.requests] == [True, False, False]
    assert first.reply.message.text == "I cannot see it."
    assert "did not accept the pictures" in first.notices[0]
    assert again.notices == []
    said = f"[image/png, {len(png())} bytes: not sent. {model.name} refused it.]"
    assert said in json.dumps(server.requests[1].body)
    assert PICTURE.label in LOOK.display_text


@every_wire
async def test_another_refusal_is_not_taken_for_one_of_pictures(wire: str):
    async with (
        ModelServer([fail(400, "no such parameter")]) as server,
        connect_to_model(server, wire) as model,
    ):
        with pytest.raises(ModelError, match="no such parameter"):
            await talk(model, ask_model(LOOK))
        assert len(server.requests) == 1


@every_wire
async def test_documents_that_are_turned_down_leave_pictures_where_they_are(wire: str):
    def answer(request: Request) -> Any:
        return fail(400, "file parts are unknown here") if base64_of(PDF) in request.raw else say("fine")

    async with ModelServer(answer) as server, connect_to_model(server, wire) as model:
        told = await talk(model, ask_model(person_message([PICTURE, PAPER, "Compare."])))
        assert base64_of(png()) in server.requests[-1].raw
    assert "did not accept the documents" in told.notices[0]


BLIND = ["openai-chat/gpt-3.5-turbo", "openrouter/deepseek/deepseek-chat", "ollama/qwen2.5-coder:7b",
         "openai-chat/gpt-4", "openai-responses/o3-mini", "anthropic/claude-2.1"]  # fmt: skip
SEEING = ["openai-chat/gpt-4o", "openai-responses/gpt-5.4", "anthropic/claude-sonnet-5", "ollama/qwen3-vl:8b",
          "openai-chat/gpt-4-turbo", "gemini/gemini-3-pro"]  # fmt: skip


@pytest.mark.parametrize("name", [*BLIND, *SEEING])
async def test_what_the_name_of_a_model_says_is_believed(name: str):
    async with ModelServer() as server, connect_to_model(server, name) as model:
        takes_none = f"{model.name} takes no pictures." if name in BLIND else ""
        assert refusal_of(model, PICTURE) == takes_none
        assert refusal_of(model, NOTES) == ""
        both = FallbackModel([model, NoModel("x/y")])
        for around in (
            both,
            LayeredModel(model, (), Lifecycle((), MiddlewareSession("s", "m", Path()))),
        ):
            assert refusal_of(around, PICTURE) == takes_none


def test_what_a_model_does_not_say_is_not_known_through_what_is_around_it():
    silent = LayeredModel(NoModel("x/y"), (), Lifecycle((), MiddlewareSession("s", "m", Path())))
    assert refusal_of(silent, PICTURE) is None
    assert not reads(silent, PICTURE)


async def test_a_blind_model_is_given_a_line_for_pictures_of_before():
    name = "openai-chat/gpt-3.5-turbo"
    async with ModelServer([say("ok")]) as server, connect_to_model(server, name) as model:
        await sent(model, server, Transcript.of(LOOK))
        content = server.requests[0].body["messages"][-1]["content"]
    assert content == f"{PICTURE.label[:-1]}: not sent. {name} takes no pictures.]\nWhat is this?"


async def test_a_picture_that_one_provider_finds_too_large_is_not_sent_there():
    large = Image.from_bytes(png() + bytes(4_000_000))
    async with ModelServer([say("ok"), say("ok")]) as server:
        async with connect_to_model(server, "messages") as model:
            assert refusal_of(model, large) == "anthropic takes no pictures of more than 3.9 MB."
            await sent(model, server, Transcript.of(person_message([large, "?"])))
        async with connect_to_model(server, "chat") as model:
            assert refusal_of(model, large) == ""


async def test_a_picture_that_the_store_has_lost_leaves_a_line():
    lost = Image.model_validate({"media_type": "image/png", "sha256": "0" * 64, "size": 12_000})
    async with ModelServer([say("ok")]) as server, connect_to_model(server, "chat") as model:
        (raw,) = await sent(model, server, Transcript.of(person_message([lost, "?"])))
    assert b"[image/png, 12 kB: not sent. Its bytes are lost.]" in raw


def drawn(wire: str) -> Turn:
    if wire == "chat":
        url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
        return Turn(text="Here.", extra={"images": [{"type": "image_url", "image_url": {"url": url}}]})
    return Turn(text="Here.", pictures=(base64.b64encode(png()).decode(),))


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_picture_that_a_model_makes_is_part_of_its_reply_and_shown_to_it_again(wire: str):
    async with ModelServer([drawn(wire), say("bluer")]) as server, connect_to_model(server, wire) as model:
        reply = (await talk(model)).reply
        await talk(model, ask_model(person_message("draw"), reply.message, person_message("make it bluer")))
        assert server.rejections == []
        assert base64_of(png()) in server.requests[1].raw
    assert reply.message.blocks == (Text(text="Here."), PICTURE)
    assert reply.message.wire is None
    assert reply.message.display_text == f"Here.\n{PICTURE.label}"


async def test_what_a_server_calls_a_picture_and_is_none_is_left_out():
    images = [
        {"image_url": {"url": "data:image/png;base64,bm90aGluZw=="}},
        {"image_url": {"url": "http://x"}},
    ]
    turn = Turn(text="Here.", extra={"images": images})
    async with ModelServer([turn]) as server, connect_to_model(server, "chat") as model:
        assert (await talk(model)).reply.message.blocks == (Text(text="Here."),)


@every_wire
async def test_calls_and_pictures_of_one_history_keep_their_places(wire: str):
    script = [calls(ToolCall("t", "{}"), ToolCall("t", "{}")), call("t"), say("done")]
    async with ModelServer(script) as server, connect_to_model(server, wire) as model:
        history = Transcript.of(LOOK)
        for _ in range(3):
            reply = (await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))).reply
            answers = [gave(use.call_id, OTHER) for use in reply.message.tool_uses]
            history = history.append(reply.message, *answers)
        assert server.rejections == []
        assert server.requests[2].raw.count(base64_of(png(seed=7))) == 3
