"""The tool `web_fetch`: what a page says, a piece at a time."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.network.web_site import Seen, WebSite, page, run_call
from support.required import require_module

from sandbur.actions.ports import ToolOutcome
from sandbur.actions.tools.web import page_text
from sandbur.actions.tools.web.web_fetch import WebFetch

STORY = "".join(
    f"<p>Paragraph {n} of a story that goes on for a while, so that it is a story.</p>" for n in range(20)
)
HTML = f"""<!doctype html><html><head><title>The story</title><style>p {{ color: red }}</style></head><body>
<nav><a href="/a">Home</a><a href="/b">Pricing</a></nav><article><h1>The story</h1>{STORY}
<p>See <a href="https://example.com/more">more</a>.</p><pre>x = 1
    y = 2</pre></article><script>alert("no")</script></body></html>"""


async def fetched(site: WebSite, path: str = "/", **arguments: int) -> ToolOutcome:
    return await run_call(WebFetch(), f"web_fetch({site.url}/*)", url=site.url + path, **arguments)


async def test_a_page_is_its_text_without_menus_scripts_and_styles() -> None:
    require_module("trafilatura")
    async with WebSite({"/": page(HTML, "text/html; charset=utf-8")}) as site:
        ended = await fetched(site)
    assert ended.outcome == "ok"
    assert "# The story" in ended.content
    assert "Paragraph 19" in ended.content
    assert "https://example.com/more" in ended.content
    assert not [word for word in ("alert", "color", "Pricing", "<p>") if word in ended.content]
    assert "with all menus" not in ended.content


def read_without_libraries(body: bytes, kind: str = "html") -> dict[str, str]:
    header = json.dumps({"kind": kind, "url": "https://example.com/", "charset": ""}).encode()
    command = [sys.executable, "-I", "-S", page_text.__file__]
    done = subprocess.run(command, input=header + b"\n" + body, capture_output=True, check=True)
    return json.loads(done.stdout)


def test_without_the_library_a_page_is_read_plainly_and_that_is_said() -> None:
    read = read_without_libraries(HTML.encode())
    assert read["missing"] == "trafilatura"
    assert read["text"].startswith("# The story\n\nParagraph 0")
    assert "x = 1\n    y = 2" in read["text"]
    assert not [word for word in ("alert", "color", "Pricing") if word in read["text"]]


@pytest.mark.parametrize(("html", "text"), [
    ("<p>one<p style='display: none'>hidden<p>two", "one\n\ntwo"), ("<ul><li>a<li>b</ul>", "- a\n- b"),
    ("<head><title>T</title><p>body", "# T\n\nbody"), ("<div hidden>no</div>yes", "yes"), ("a &lt; b",
    "a < b"),
    ("<table><tr><td>1<td>2", "| 1 | 2"), ("<!-- no -->yes<template>no</template>", "yes"), ("", ""),
    ("</p></div>x</li>", "x"), ("<b>bold</b> text", "bold text"),
])  # fmt: skip
def test_broken_html_is_read_as_a_browser_shows_it(html: str, text: str) -> None:
    assert read_without_libraries(html.encode())["text"] == text


@pytest.mark.parametrize(
    "html", ["<div>" * 300_000 + "deep", "<" * 500_000, "<a b='" * 100_000, "&" * 500_000]
)
@pytest.mark.slow
def test_a_page_that_is_made_to_be_slow_is_read_in_time(html: str) -> None:
    assert "text" in read_without_libraries(html.encode())


def pdf(*pages: str) -> bytes:
    import pypdf
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = pypdf.PdfWriter()
    for text in pages:
        added = writer.add_blank_page(200, 200)
        font = DictionaryObject({
            NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        })  # fmt: skip
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        added[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        added[NameObject("/Contents")] = writer._add_object(stream)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


async def test_a_pdf_is_read_page_by_page() -> None:
    async with WebSite({"/": page(pdf("first words", "last words"), "application/pdf")}) as site:
        ended = await fetched(site)
    assert "[page 1 of 2]\nfirst words\n\n[page 2 of 2]\nlast words" in ended.content


async def test_a_pdf_that_is_damaged_is_said() -> None:
    require_module("pypdf")
    async with WebSite({"/": page(b"%PDF-1.7\nrubbish" * 50, "application/pdf")}) as site:
        ended = await fetched(site)
    assert ended.outcome == "error"
    assert "not a readable PDF" in ended.content


def test_without_the_library_a_pdf_is_not_read() -> None:
    assert read_without_libraries(b"%PDF-1.7", "pdf")["missing"] == "pypdf"


@pytest.mark.parametrize(("body", "kind", "text"), [
    ('{"a": [1, 2]}', "application/json", '{"a": [1, 2]}'), ("plain <b>words</b>", "text/plain",
    "plain <b>words</b>"),
    ("größe".encode("latin-1"), "text/plain; charset=iso-8859-1", "größe"), ("wide".encode("utf-16"),
    "text/plain", "wide"),
    ("no type", "", "no type"), ("größe", "text/plain; charset=nonsense", "größe"), ("", "text/plain",
    "[the page has no text]"),
])  # fmt: skip
async def test_what_is_text_already_comes_as_it_is(body: bytes | str, kind: str, text: str) -> None:
    async with WebSite({"/": page(body, kind)}) as site:
        ended = await fetched(site)
    assert (ended.outcome, ended.content.partition("\n")[2]) == ("ok", text)


async def test_html_without_a_type_is_read_as_html() -> None:
    async with WebSite({"/": page(HTML, "")}) as site:
        ended = await fetched(site)
    assert "<p>" not in ended.content


async def test_what_is_not_text_is_named() -> None:
    async with WebSite({"/": page(bytes(100), "application/zip")}) as site:
        ended = await fetched(site)
    assert (ended.outcome, ended.content) == (
        "error",
        f"{site.url}/ is not text: application/zip, 100 bytes.",
    )


async def test_a_long_page_comes_in_pieces_that_say_where_to_go_on() -> None:
    lines = [f"line {number}" for number in range(1, 5001)]
    async with WebSite({"/": page("\n".join(lines))}) as site:
        first = await fetched(site)
        assert first.content.endswith("line 2000\n[lines 1-2000 shown; 3,000 left; go on with offset 2001]")
        last = await fetched(site, offset=4999, limit=50)
        assert last.content.partition("\n")[2] == "line 4999\nline 5000"
        assert "only 5,000 lines; offset 6000 is after its end" in (await fetched(site, offset=6000)).content


async def test_a_line_of_any_length_comes_in_pieces_without_a_gap() -> None:
    text = "".join(chr(97 + number % 26) for number in range(200_000))
    async with WebSite({"/": page(text)}) as site:
        pieces, offset = "", 1
        while True:
            ended = await fetched(site, offset=offset)
            _, *lines = ended.content.split("\n")
            assert len(ended.content) < 52_000
            more = lines[-1].startswith("[lines")
            pieces += "".join(lines[: -1 if more else None])
            if not more:
                break
            offset = int(lines[-1].rpartition(" ")[2].rstrip("]"))
    assert pieces == text


async def test_an_error_page_is_an_error_with_its_text() -> None:
    async with WebSite() as site:
        ended = await fetched(site, "/nowhere")
    assert ended.outcome == "error"
    assert "HTTP 404" in ended.content
    assert "nothing here" in ended.content


async def test_reading_a_page_leaves_no_process_behind_when_it_is_cancelled(tmp_path: Path) -> None:
    opened = asyncio.Event()

    async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(page("<p>word " * 900_000, "text/html"))
        opened.set()

    async with WebSite({"/": slow}) as site:
        task = asyncio.create_task(fetched(site))
        await opened.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    children = Path(f"/proc/self/task/{__import__('os').getpid()}/children")
    if children.exists():
        assert page_text.__file__ not in "".join(
            Path(f"/proc/{child}/cmdline").read_text() for child in children.read_text().split()
        )
