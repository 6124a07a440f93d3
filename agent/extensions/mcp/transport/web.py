"""Messages to and from a server at a web address, by streamable HTTP or SSE, with limits of sizes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from .....actions.tools.web.tls import tls_context
from .border import MOST_MESSAGE_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CONNECT_S = 10.0
_SILENT_S = 300.0
"""The longest time without data on an event stream, in seconds."""


@asynccontextmanager
async def address(
    kind: Literal["http", "sse"], url: str, headers: Mapping[str, str], auth: httpx2.Auth | None = None
) -> AsyncGenerator[TransportStreams]:
    """Connect to the server at an address and yield the read and write streams.

    `auth` adds tokens to each request. The library follows a redirect only within the origin of `url`, so
    that no header goes to another host. Raises `httpx2.HTTPError`.
    """
    if kind == "sse":
        async with sse_client(url, dict(headers), _CONNECT_S, _SILENT_S, _client, auth) as streams:
            yield streams
        return
    timeout = httpx2.Timeout(_CONNECT_S, read=_SILENT_S)
    async with (
        _client(dict(headers), timeout, auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _client(
    headers: dict[str, Any] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Make a client that limits the size of each response to that of the largest message."""
    return httpx2.AsyncClient(
        headers={**(headers or {}), "accept-encoding": "identity"},
        timeout=timeout,
        auth=auth,
        follow_redirects=False,
        verify=tls_context(),
        event_hooks={"response": [_limit_body]},
    )


async def _limit_body(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.DecodingError(
            "the server compressed its answer, which was not requested", request=response.request
        )
    stream = response.stream
    if isinstance(stream, httpx2.AsyncByteStream):
        is_endless = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _BoundedStream(stream, is_endless)


class _BoundedStream(httpx2.AsyncByteStream):
    """The bytes of a response, with a size limit. In a stream of events, the limit applies to each event."""

    def __init__(self, inner: httpx2.AsyncByteStream, is_endless: bool) -> None:
        self._inner = inner
        self._is_endless = is_endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._inner:
            taken += len(chunk)
            if self._is_endless and (b"\n\n" in chunk or b"\r\n\r\n" in chunk):
                taken = 0
            if taken > MOST_MESSAGE_BYTES:
                raise httpx2.ReadError(f"the answer has more than {MOST_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
