"""Answers that mean harm or are broken: each ends in a sentence, in time and in memory."""

import asyncio
import gzip
import resource
import time
import zlib

import pytest
from support.network.web_site import Seen, WebSite, page, run_call, silence

from sandbur.actions.tools.web.client import WebClient, WebLimits
from sandbur.actions.tools.web.http_request import HttpRequest
from sandbur.actions.tools.web.web_fetch import WebFetch

pytestmark = pytest.mark.slow


async def fetched(site: WebSite, path: str = "/", **limits: float) -> str:
    client = WebClient(limits=WebLimits(**limits))  # pyright: ignore[reportArgumentType]
    ended = await run_call(WebFetch(client), f"web_fetch({site.url}/*)", url=site.url + path)
    return f"{ended.outcome}: {ended.content}"


async def drip(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def drip_headers(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: x\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def endless_headers(seen: Seen, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


@pytest.mark.parametrize("say", [drip, drip_headers, silence])
async def test_a_server_that_never_ends_is_left(say: object) -> None:
    async with WebSite({"/": say}) as site:  # pyright: ignore[reportArgumentType]
        said = await fetched(site, total_s=0.5)
    assert "took longer than 0.5 s" in said


async def test_a_body_without_end_is_left_at_the_limit() -> None:
    async with WebSite({"/": endless}) as site:
        assert "larger than 1.0 MB" in await fetched(site, most_bytes=1_000_000)


async def test_headers_without_end_are_left() -> None:
    async with WebSite({"/": endless_headers}) as site:
        assert (await fetched(site)).startswith("error: ")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_is_not_unpacked_beyond_the_limit(encoding: str) -> None:
    packed = zlib.compressobj(9, wbits=zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))
    megabyte = bytes(1_000_000)
    bomb = b"".join(packed.compress(megabyte) for _ in range(1000)) + packed.flush()
    assert len(bomb) < 1_100_000
    async with WebSite({"/": page(bomb, Content_Encoding=encoding)}) as site:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "larger than 10.0 MB" in await fetched(site)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize(("encoding", "body"), [
    ("gzip", gzip.compress(b"a long story", mtime=0)), ("x-gzip", gzip.compress(b"a long ",
    mtime=0) + gzip.compress(b"story", mtime=0)),
    ("deflate", zlib.compress(b"a long story")),
    ("deflate", RAW_DEFLATE.compress(b"a long story") + RAW_DEFLATE.flush()),
    ("identity", b"a long story"), ("GZIP", gzip.compress(b"a long story", mtime=0) + b"rubbish"),
])  # fmt: skip
async def test_what_is_packed_is_unpacked(encoding: str, body: bytes) -> None:
    async with WebSite({"/": page(body, Content_Encoding=encoding)}) as site:
        said = await fetched(site)
    assert "a long story" in said
    assert "rubbish" not in said


@pytest.mark.parametrize(("body", "headers", "said"), [
    (gzip.compress(b"x" * 1000, mtime=0)[:-20], {"Content_Encoding": "gzip"}, "in the middle"),
    (b"no gzip at all", {"Content_Encoding": "gzip"}, "damaged"),
    (b"anything", {"Content_Encoding": "br"}, "not requested"),
    (b"anything", {"Content_Encoding": "gzip, gzip, br"}, "not requested"),
    (b"short", {"Content_Length": "500"}, "could not be read"),
    (b"odd", {"Content_Length": "abc"}, "could not be read"),
    (b"smuggled", {"Transfer_Encoding": "chunked"}, "could not be read"),
])  # fmt: skip
async def test_a_broken_answer_is_an_error_in_a_sentence(
    body: bytes, headers: dict[str, str], said: str
) -> None:
    async with WebSite({"/": page(body, **headers)}) as site:
        found = await fetched(site)
    assert found.startswith("error: ")
    assert said in found


async def test_more_than_was_promised_is_not_read() -> None:
    async with WebSite({"/": page(b"12345 and more", Content_Length="5")}) as site:
        said = await fetched(site)
    assert "12345" in said
    assert "more" not in said


@pytest.mark.parametrize("raw", [b"", b"\x00\x01\x02", b"SSH-2.0-OpenSSH\r\n", b"HTTP/9.9 abc\r\n\r\n"])
async def test_what_is_no_http_is_an_error_in_a_sentence(raw: bytes) -> None:
    async with WebSite({"/": raw}) as site:
        assert (await fetched(site)).startswith("error: ")


async def test_nobody_there_is_an_error_in_a_sentence() -> None:
    async with WebSite() as site:
        pass
    said = await fetched(site)
    assert said.startswith(f"error: {site.url} could not be read")


async def test_a_name_that_nobody_knows_is_said() -> None:
    ended = await run_call(WebFetch(), "web_fetch", url="http://nobody.invalid/")
    assert ended.outcome == "error"
    assert "nobody.invalid was not found" in ended.content


async def test_a_call_that_is_cancelled_closes_its_connection() -> None:
    opened, closed = asyncio.Event(), asyncio.Event()

    async def wait(seen: Seen, writer: asyncio.StreamWriter) -> None:
        opened.set()
        try:
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    async with WebSite({"/": wait}) as site:
        task = asyncio.create_task(fetched(site))
        async with asyncio.timeout(60):
            await opened.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await closed.wait()


async def test_a_head_request_has_no_body_to_wait_for() -> None:
    async with WebSite({"/": page(b"x" * 50)}) as site:
        began = time.monotonic()
        ended = await run_call(HttpRequest(), f"http_request({site.url}/*)", url=site.url, method="head")
        assert time.monotonic() - began < 25
    assert "HTTP 200" in ended.content
    assert site.seen[0].method == "HEAD"
