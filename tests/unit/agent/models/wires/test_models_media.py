"""Audio, video, addresses and details: sent where a provider has a form for them, else refused."""

from typing import Any

import pytest
from support.models.files import MP3, MP4, PDF, WAV, base64_of, png
from support.models.server import ModelServer, Request, fail, say
from support.models.talk import ask_model, connect_to_model, talk

from sandbur import Audio, Document, Image, Video
from sandbur.actions.turn.model_call import refusal_of
from sandbur.agent.models.connect import connect
from sandbur.agent.models.model import WireModel
from sandbur.state.conversation.messages import person_message

KEYS = {
    f"{name}_API_KEY": "sk-test"
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "OPENROUTER", "DEEPSEEK", "DASHSCOPE")
}
SOUND, FILM = Audio.from_bytes(WAV), Video.from_bytes(MP4)
PICTURE_AT = Image.from_url("https://example.org/a.png")
PAPER_AT = Document.from_url("https://example.org/a.pdf")


def model_of(name: str) -> WireModel:
    return connect(name, env=KEYS)


async def content_of(server: ModelServer, model: WireModel, *files: Any) -> list[dict[str, Any]]:
    """Send files and return the parts of the message as they arrived."""
    await talk(model, ask_model(person_message([*files, "?"])))
    assert server.rejections == []
    body = server.requests[-1].body
    return (body.get("messages") or body["input"])[-1]["content"]


async def test_chat_completions_gets_audio_and_video_as_parts() -> None:
    async with ModelServer([say("heard")]) as server, connect_to_model(server, "openrouter/x") as model:
        sound, tone, film, _ = await content_of(server, model, SOUND, Audio.from_bytes(MP3), FILM)
    assert sound == {"type": "input_audio", "input_audio": {"data": base64_of(WAV).decode(), "format": "wav"}}
    assert tone["input_audio"]["format"] == "mp3"
    assert film["video_url"]["url"] == f"data:video/mp4;base64,{base64_of(MP4).decode()}"


async def test_a_provider_that_wants_audio_as_an_address_gets_it_so() -> None:
    async with (
        ModelServer([say("heard")]) as server,
        connect_to_model(server, "dashscope/qwen-omni") as model,
    ):
        sound, at, _ = await content_of(server, model, SOUND, Audio.from_url("https://example.org/a.mp3"))
    assert sound["input_audio"]["data"].startswith("data:audio/wav;base64,")
    assert at["input_audio"] == {"data": "https://example.org/a.mp3", "format": "mp3"}


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
async def test_a_picture_at_an_address_is_passed_on_and_never_fetched(wire: str) -> None:
    async with ModelServer([say("seen")]) as server, connect_to_model(server, wire) as model:
        part, _ = await content_of(server, model, PICTURE_AT)
    url = "https://example.org/a.png"
    assert part in (
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
        {"type": "image", "source": {"type": "url", "url": url}},
    )


@pytest.mark.parametrize("wire", ["responses", "messages"])
async def test_a_pdf_at_an_address_is_passed_on(wire: str) -> None:
    async with ModelServer([say("read")]) as server, connect_to_model(server, wire) as model:
        part, _ = await content_of(server, model, PAPER_AT)
    url = "https://example.org/a.pdf"
    assert part in (
        {"type": "input_file", "file_url": url},
        {"type": "document", "title": "a.pdf", "source": {"type": "url", "url": url}},
    )


async def test_the_detail_of_a_picture_goes_to_providers_that_have_it() -> None:
    picture = Image.from_bytes(png(), detail="low")
    async with ModelServer([say("1"), say("2"), say("3")]) as server:
        async with connect_to_model(server, "chat") as model:
            assert (await content_of(server, model, picture))[0]["image_url"]["detail"] == "low"
        async with connect_to_model(server, "responses") as model:
            assert (await content_of(server, model, picture))[0]["detail"] == "low"
        async with connect_to_model(server, "messages") as model:
            assert "detail" not in str(await content_of(server, model, picture))


REFUSED = [
    ("anthropic/claude-sonnet-5", SOUND, "anthropic/claude-sonnet-5 takes no audio."),
    ("anthropic/claude-sonnet-5", FILM, "anthropic/claude-sonnet-5 takes no video."),
    ("openai/gpt-6", SOUND, "openai/gpt-6 takes no audio."),
    ("openai/gpt-audio", SOUND,
     "openai/gpt-audio takes no audio over Responses: name it openai-chat/gpt-audio."),
    ("openai-chat/gpt-6", SOUND, "openai-chat/gpt-6 takes no audio."),
    ("openai-chat/gpt-audio", SOUND, ""),
    ("openai-chat/gpt-audio", FILM, "openai-chat/gpt-audio takes no video."),
    ("openai-chat/gpt-audio", Audio.from_bytes(b"OggS\x00" + bytes(20)),
     "openai-chat takes audio as wav or mp3 only, not as audio/ogg."),
    ("gemini/gemini-4", SOUND, ""),
    ("openrouter/x/y", FILM, ""),
    ("openrouter/x/y", PAPER_AT, ""),
    ("ollama/qwen3-vl", FILM, "ollama/qwen3-vl takes no video."),
    ("deepseek/deepseek-v4", PAPER_AT, "deepseek/deepseek-v4 takes no documents."),
    ("gemini/gemini-4", PICTURE_AT, "gemini reads no addresses of pictures: attach the bytes, which a program"
     " can load with sandbur.fetch_attachment."),
    ("openai/gpt-6", Document.from_url("https://h/a.csv"),
     "openai reads no addresses of text/csv, only of PDFs."),
    ("openai-chat/gpt-3.5-turbo", SOUND, "openai-chat/gpt-3.5-turbo takes no audio."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "refusal"), REFUSED)
def test_what_is_known_not_to_be_taken_is_refused_before_it_is_sent(
    name: str, file: Any, refusal: str
) -> None:
    assert refusal_of(model_of(name), file) == refusal


async def test_a_server_that_turns_video_down_gets_a_line_for_it_and_keeps_its_pictures() -> None:
    def answer(request: Request) -> Any:
        return fail(400, "unknown variant `video_url`") if base64_of(MP4) in request.raw else say("fine")

    async with ModelServer(answer) as server, connect_to_model(server, "openrouter/x") as model:
        parts = await content_of(server, model, Image.from_bytes(png()), FILM)
    assert [part["type"] for part in parts] == ["image_url", "text", "text"]
    assert parts[1]["text"] == f"[video/mp4, {len(MP4)} bytes: not sent. {model.name} refused it.]"


async def test_an_address_that_a_provider_cannot_read_leaves_other_pictures_alone() -> None:
    def answer(request: Request) -> Any:
        is_there = b'https://example.org/a.png"' in request.raw
        return fail(400, "Error while downloading the image") if is_there else say("fine")

    async with ModelServer(answer) as server, connect_to_model(server, "chat") as model:
        told = await talk(model, ask_model(person_message([Image.from_bytes(png()), PICTURE_AT, "?"])))
        parts = server.requests[-1].body["messages"][-1]["content"]
    assert "did not accept the addresses of files" in told.notices[0]
    assert [part["type"] for part in parts] == ["image_url", "text", "text"]


async def test_markdown_and_csv_are_sent_as_words() -> None:
    notes = Document.from_bytes(b"# Notes", "notes.md")
    async with ModelServer([say("1"), say("2")]) as server:
        async with connect_to_model(server, "chat") as model:
            await talk(model, ask_model(person_message([notes, "?"])))
        async with connect_to_model(server, "messages") as model:
            await talk(model, ask_model(person_message([notes, Document.from_bytes(PDF, "a.pdf"), "?"])))
        assert server.rejections == []
    assert server.requests[0].body["messages"][-1]["content"] == "notes.md:\n# Notes\n?"
    source = server.requests[1].body["messages"][-1]["content"][0]["source"]
    assert source == {"type": "text", "media_type": "text/plain", "data": "# Notes"}
