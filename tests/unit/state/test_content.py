"""Pictures and documents are known by their bytes, and refused with one sentence."""

import base64
import io
import json
import os
import zipfile
from pathlib import Path

import docx
import pytest
from support.models.files import JPEG, MP3, MP4, PDF, WAV, png

import sandbur
from sandbur.state.conversation.attachments import (
    MAX_TEXT_BYTES,
    Audio,
    Video,
    attachment_from_bytes,
    attachment_from_path,
    attachment_from_url,
)
from sandbur.state.conversation.content import format_attachment_size
from sandbur.state.conversation.messages import (
    Document,
    Image,
    Message,
    ToolResult,
    dialect_cache_of,
    person_message,
)
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
        (WAV, "audio/wav"),
        (MP3, "audio/mpeg"),
        (b"\xff\xfb\x90\x64" + bytes(20), "audio/mpeg"),
        (b"\xff\xf1\x50\x80" + bytes(20), "audio/aac"),
        (b"fLaC\x00\x00\x00\x22" + bytes(20), "audio/flac"),
        (b"OggS\x00\x02" + bytes(20), "audio/ogg"),
        (b"\x00\x00\x00\x18ftypM4A \x00" + bytes(20), "audio/mp4"),
        (MP4, "video/mp4"),
        (b"\x00\x00\x00\x14ftypqt  " + bytes(20), "video/quicktime"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm" + bytes(20), "video/webm"),
        (b"\x00\x00\x01\xba" + bytes(20), "video/mpeg"),
        ("Grüße\n".encode(), "text/plain"),
        (b"RIFF, ID3, OggS and fLaC are marks.", "text/plain"),
    ],
)
def test_a_file_is_what_its_bytes_say_whatever_its_name(
    tmp_path: Path, content: bytes, media_type: str
) -> None:
    path = tmp_path / "named.txt.png.pdf"
    path.write_bytes(content)
    found = attachment_from_path(path)
    assert (found.media_type, found.size, found.read()) == (media_type, len(content), content)
    kinds = {"image": Image, "audio": Audio, "video": Video}
    assert type(found) is kinds.get(media_type.partition("/")[0], Document)


@pytest.mark.parametrize(
    "content", ["Grüße".encode("utf-16"), b"\xff\xfe\x00\x00", b"\x00\x00\x00\x18ftypheic"]
)
def test_bytes_of_no_known_kind_are_no_audio_and_no_video(content: bytes) -> None:
    with pytest.raises(UsageError, match="cannot be attached"):
        attachment_from_bytes(content, "a.bin")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("a.CSV", "text/csv"),
        ("a.markdown", "text/markdown"),
        ("a.py", "text/plain"),
    ],
)
def test_the_type_of_a_text_is_refined_by_its_name(name: str, media_type: str) -> None:
    paper = Document.from_bytes(b"a,b", name)
    assert (paper.media_type, paper.is_text, paper.request_bytes) == (media_type, True, 3)


def word_document() -> bytes:
    """Return a real Word document with a heading, a paragraph, a list and a table."""
    document = docx.Document()
    document.add_heading("Sales", level=1)
    document.add_paragraph("All went well.")
    for item in ("north", "south"):
        document.add_paragraph(item, style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(
        [cell for row in table.rows for cell in row.cells], ["a|x", "b", "1", "2"], strict=True
    ):
        cell.text = text
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def test_a_word_document_becomes_its_text_as_markdown() -> None:
    paper = attachment_from_bytes(word_document(), "report.docx")
    assert isinstance(paper, Document)
    assert (paper.name, paper.media_type) == ("report.docx", "text/markdown")
    assert (paper.read() or b"").decode() == (
        "# Sales\n\nAll went well.\n\n- north\n- south\n\n| a\\|x | b |\n| --- | --- |\n| 1 | 2 |"
    )


def test_a_damaged_word_document_is_refused_with_a_sentence() -> None:
    whole = word_document()
    for damaged in (whole[:-200], b"PK\x03\x04 word/document.xml"):
        with pytest.raises(UsageError, match=r"a\.docx is a damaged Word document"):
            attachment_from_bytes(damaged, "a.docx")


def change_word_document(old: str, new: str) -> bytes:
    """Return the Word document with another text in its main part."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(word_document())) as whole,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as changed,
    ):
        for name in whole.namelist():
            content = whole.read(name)
            if name == "word/document.xml":
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode())
            changed.writestr(name, content)
    return buffer.getvalue()


def test_a_small_word_document_cannot_become_endless() -> None:
    wide = change_word_document("<w:tcPr>", '<w:tcPr><w:gridSpan w:val="1000000"/>')
    with pytest.raises(UsageError, match=r"a\.docx has a table with more than 200 columns"):
        attachment_from_bytes(wide, "a.docx")
    many = change_word_document("<w:tbl>", "<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 900_000 + "<w:tbl>")
    assert len(many) < 200_000
    with pytest.raises(UsageError, match=r"a\.docx is too large to be read: it unpacks to"):
        attachment_from_bytes(many, "a.docx")


def test_merged_cells_have_their_text_in_each_column_and_row() -> None:
    wide = change_word_document("<w:tcPr>", '<w:tcPr><w:gridSpan w:val="2"/>')
    assert "| a\\|x | a\\|x | b | b |" in (attachment_from_bytes(wide, "a.docx").read() or b"").decode()
    high = change_word_document("<w:tcPr>", "<w:tcPr><w:vMerge/>")
    assert (
        "| a\\|x | b |\n| --- | --- |\n| a\\|x | b |"
        in (attachment_from_bytes(high, "a.docx").read() or b"").decode()
    )


def test_a_file_at_an_address_is_stored_as_its_address_alone() -> None:
    picture = Image.from_url("https://example.org/a.png?key=abc", detail="low")
    clip, sound = Video.from_url("https://example.org/v.mp4"), Audio.from_url("https://example.org/s")
    paper = Document.from_url("https://example.org/papers/a.pdf")
    message = person_message([picture, clip, sound, paper, "look"])
    stored = encode_message(message)
    assert "sha256" not in stored
    assert '"size"' not in stored
    assert parse_message(stored, lambda digest: b"") == message
    assert [file.label for file in message.files] == [
        "[image/png, at https://example.org/a.png]",
        "[video/mp4, at https://example.org/v.mp4]",
        "[application/octet-stream, at https://example.org/s]",
        "[a.pdf, application/pdf, at https://example.org/papers/a.pdf]",
    ]
    assert [file.read() for file in message.files] == [None] * 4


@pytest.mark.parametrize(
    "url",
    ["a.png", "file:///etc/passwd", "ftp://h/a.png", "https://", "https://h/a b", "https://h:0/a", "//h/a"],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not a web address"):
        Image.from_url(url)


def test_an_address_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="user name or a password") as refused:
        Image.from_url("https://me:hunter2@example.org/a.png")
    assert "hunter2" not in str(refused.value)


def test_an_address_is_of_the_kind_that_its_suffix_names() -> None:
    assert type(attachment_from_url("https://h/a.JPG?x=1")) is Image
    assert type(attachment_from_url("https://h/a.mp3")) is Audio
    assert type(attachment_from_url("https://h/a.mov")) is Video
    assert type(attachment_from_url("https://h/a.pdf")) is Document
    with pytest.raises(UsageError, match="no suffix of a picture"):
        attachment_from_url("https://h/a")


def test_messages_of_before_are_encoded_to_the_same_bytes() -> None:
    digest = "0" * 64
    image = {"media_type": "image/png", "sha256": digest, "size": 7, "kind": "image"}
    paper = {"media_type": "text/plain", "sha256": digest, "size": 7, "kind": "document", "name": "a.txt"}
    old = json.dumps({"role": "user", "origin": "person", "blocks": [image, paper]})
    message = parse_message(old)
    assert message is not None
    assert encode_message(message).replace(" ", "") == old.replace(" ", "")


def test_a_changed_copy_of_a_message_has_nothing_of_the_old_one() -> None:
    message = person_message("a")
    assert (message.text, dialect_cache_of(message)) == ("a", {})
    dialect_cache_of(message)["x"] = ()
    copied = message.model_copy(update={"blocks": person_message("b").blocks})
    assert (copied.text, dialect_cache_of(copied)) == ("b", {})


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
    with pytest.raises(UsageError, match="not a picture that models take"):
        Image.from_bytes(PDF)
    with pytest.raises(UsageError, match="not a document for models"):
        Document.from_bytes(png(), "a.png")


def test_what_is_no_readable_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**12)
    for name, problem in (
        ("none", "cannot be read: No such file"),
        (".", "is a folder"),
        ("pipe", "is not a file"),
        ("large", "too large"),
    ):
        with pytest.raises(UsageError, match=problem):
            attachment_from_path(tmp_path / name)
    with pytest.raises(UsageError, match="is not the path"):
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
