"""Pictures and documents are known by their bytes, and refused with one sentence."""

import base64
import json
import os
from pathlib import Path

import pytest
from support.models.files import JPEG, PDF, png

import sandbur
from sandbur.state.conversation.content import (
    MAX_TEXT_BYTES,
    attachment_from_bytes,
    attachment_from_path,
    format_attachment_size,
)
from sandbur.state.conversation.messages import Document, Image, Message, ToolResult, person_message
from sandbur.state.errors import UsageError
from sandbur.state.store.deltas import encode_message, parse_message

GIF, WEBP = b"GIF89a" + bytes(20), b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(20)


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (png(), "image/png"),
        (JPEG, "image/jpeg"),
        (GIF, "image/gif"),
        (WEBP, "image/webp"),
        (PDF, "application/pdf"),
        ("Grüße\n".encode(), "text/plain"),
    ],
)
def test_a_file_is_what_its_bytes_say_whatever_its_name(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    path = tmp_path / "named.txt.png.pdf"
    path.write_bytes(content)
    found = attachment_from_path(path)
    assert (found.media_type, found.size, found.read()) == (media_type, len(content), content)
    assert type(found) is (Image if media_type.startswith("image/") else Document)


def test_the_public_names_make_them(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png())
    (tmp_path / "b.pdf").write_bytes(PDF)
    picture, paper = (
        sandbur.Image.from_path(tmp_path / "a.png"),
        sandbur.Document.from_path(tmp_path / "b.pdf"),
    )
    assert picture == sandbur.Image.from_bytes(png())
    assert paper == sandbur.Document.from_bytes(PDF, "b.pdf")
    assert picture.label == f"[image/png, {len(png())} bytes]"
    assert paper.label == f"[b.pdf, application/pdf, {len(PDF)} bytes]"
    assert hash(picture) != hash(paper)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a.bin is empty"),
        (b"PK\x03\x04\x00\xff", "a.bin cannot be attached: models take PNG, JPEG"),
        (b"x" * (MAX_TEXT_BYTES + 1), "a.bin is too large to be attached: 1.0 MB, with a limit of 1.0 MB."),
        (png() + bytes(20_000_000), "a.bin is too large to be attached: 20 MB, with a limit of 20 MB."),
    ],
)  # fmt: skip
def test_what_cannot_be_attached_is_refused_with_a_sentence(content: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace(".", r"\.")):
        attachment_from_bytes(content, "a.bin")


def test_a_picture_is_no_document_and_a_document_no_picture() -> None:
    with pytest.raises(UsageError, match="no picture that models take"):
        Image.from_bytes(PDF)
    with pytest.raises(UsageError, match="no document that models take"):
        Document.from_bytes(png(), "a.png")


def test_what_is_no_readable_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**12)
    for name, problem in (
        ("none", "cannot be read: No such file"),
        (".", "is a folder"),
        ("pipe", "is no file"),
        ("large", "too large"),
    ):
        with pytest.raises(UsageError, match=problem):
            attachment_from_path(tmp_path / name)
    with pytest.raises(UsageError, match="is no path"):
        attachment_from_path("a\0b")


def test_a_stored_message_holds_no_bytes_and_reads_them_when_they_are_wanted() -> None:
    asked: list[str] = []

    def stored(digest: str) -> bytes:
        asked.append(digest)
        return png()

    message = person_message([Image.from_bytes(png()), "look"])
    back = parse_message(encode_message(message), stored)
    assert back is not None
    assert (back, asked) == (message, [])
    [file] = back.files
    assert (file.bytes_in_memory, file.read(), asked) == (None, png(), [file.sha256])


def test_a_message_of_before_with_the_bytes_in_it_still_opens() -> None:
    block = {"kind": "image", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    paper = {"kind": "document", "name": "a.pdf", "media_type": "application/pdf", "data": "JVBERi0="}
    old = json.dumps({"role": "user", "origin": "person", "blocks": [block, paper]})
    message = parse_message(old)
    assert message is not None
    assert [file.read() for file in message.files] == [png(), b"%PDF-"]
    assert message.blocks[0] == Image.from_bytes(png())


def test_a_result_without_files_is_stored_as_it_always_was() -> None:
    result = ToolResult(call_id="a", tool="t", outcome="ok", content="x", duration_ms=1)
    assert "blocks" not in result.model_dump_json()
    assert Message(role="tool", origin="tool", blocks=(result,)).tool_results[0].display_text == "x"


@pytest.mark.parametrize(
    ("size", "words"),
    [(1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (12_345, "12 kB"), (999_499, "999 kB"),
     (999_500, "1.0 MB"), (5_242_880, "5.2 MB"), (32_000_000, "32 MB")],
)  # fmt: skip
def test_sizes_are_said_for_people(size: int, words: str) -> None:
    assert format_attachment_size(size) == words
