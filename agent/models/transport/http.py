"""Sends encoded requests directly over HTTP, without a provider's library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import httpcore2
from httpcore2 import AsyncConnectionPool

from ....actions.tools.web.inflate import Damaged, Inflater, UnknownEncoding
from ....actions.tools.web.tls import tls_context
from ..failures import (
    Refusal,
    Transient,
    classify_connection_error,
    judge,
    make_truncation_error,
    unusable_settings,
)
from ..providers import Endpoint, Profile
from .clients import Clients, PooledClient
from .headers import CONNECT_TIMEOUT_S, WRITE_TIMEOUT_S, request_headers
from .proxies import basic_authorization, describe_proxy, find_proxy, parse_proxy, read_credentials

_MAX_CONNECTIONS = 1000
_MAX_IDLE_CONNECTIONS = 100
_KEPT_IDLE_S = 60
"""How long an idle connection is kept, in seconds. Most tools take less; a new connection costs a
handshake."""
_MAX_REFUSAL_BYTES = 1 << 20
_MAX_PIECE_BYTES = 64 << 20
"""The most bytes that one received piece may have after decompression."""
# The time limits for reading are separate: one per piece, and one in total.
_TIMEOUTS = {"connect": CONNECT_TIMEOUT_S, "write": WRITE_TIMEOUT_S}
_LOST = httpcore2.ReadError, httpcore2.RemoteProtocolError, httpcore2.WriteError
_FAILED = (
    httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError, httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
)  # fmt: skip


class HttpTransport:
    def __init__(self, endpoint: Endpoint, clients: Clients) -> None:
        self._endpoint = endpoint
        self._encrypted = is_encrypted(endpoint.base_url)
        proxy = find_proxy(urlsplit(endpoint.base_url))
        start = partial(_start_client, endpoint, self._encrypted, proxy)
        self._client: PooledClient[AsyncConnectionPool] = PooledClient(
            clients, ("http", self._encrypted, proxy), start
        )
        self._headers: list[tuple[bytes, bytes]] | None = None

    async def post(self, path: str, content: bytes) -> HttpResponse:
        """Send a request and return the unread response.

        Raises `Transient` or a `SandburError` if the connection fails, and for every error status.
        """
        client = await self._client.client()
        try:
            response = await self._send(client, path, content)
        except httpcore2.TimeoutException:
            by = describe_proxy(self._endpoint)
            through = f" through {by}" if by else ""
            raise Transient(f"{self._endpoint.display_url} does not answer{through}") from None
        except (*_FAILED, ValueError) as error:  # `ValueError`: the text of a header is not ASCII
            raise classify_connection_error(error, self._endpoint, describe_proxy(self._endpoint)) from error
        answer = HttpResponse(response, self._endpoint.provider)
        if not 200 <= response.status < 300:
            refusal = await self._refusal(response.status, answer)
            raise judge(refusal, self._endpoint, describe_proxy(self._endpoint))
        return answer

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _send(self, client: AsyncConnectionPool, path: str, content: bytes) -> httpcore2.Response:
        """Send the request. If the server had already closed the connection, repeat it once."""
        url = _request_url(f"{self._endpoint.base_url.rstrip('/')}{path}")
        self._headers = self._headers or _encode_headers(self._endpoint)
        headers = [*self._headers, (b"Content-Length", b"%d" % len(content))]
        connection = _Connection()
        extensions = {"timeout": _TIMEOUTS, "trace": connection.trace}
        while True:
            request = httpcore2.Request("POST", url, headers=headers, content=content, extensions=extensions)
            try:
                return await client.handle_async_request(request)
            except _LOST:
                if connection.is_new or connection.was_lost:
                    raise
                connection.was_lost = True

    async def _refusal(self, status: int, response: HttpResponse) -> Refusal:
        """Read an error answer, up to a size limit."""
        body = bytearray()
        try:
            async with aclosing(response.pieces()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > _MAX_REFUSAL_BYTES:
                        break
        finally:
            await response.aclose()
        details = _parse_error_body(body.decode("utf-8", "replace"))
        if isinstance(details, dict) and self._endpoint.profile.wire != "messages":
            details = cast(dict[str, Any], details).get("error", details)
        return Refusal(status, details, response.headers)


class HttpResponse:
    """A response over HTTP. It implements `Response`."""

    def __init__(self, response: httpcore2.Response, provider: str) -> None:
        self._response = response
        self._provider = provider
        self.headers: Mapping[str, str] = _decode_headers(response.headers)

    async def pieces(self) -> AsyncGenerator[bytes]:
        try:
            inflater = Inflater(self.headers.get("content-encoding", ""))
            async with aclosing(self._response.aiter_stream()) as chunks:
                async for chunk in chunks:
                    yield inflater.feed(chunk, _MAX_PIECE_BYTES)
        except (*_FAILED, Damaged, UnknownEncoding) as error:
            raise make_truncation_error(self._provider) from error

    async def aclose(self) -> None:
        await self._response.aclose()


class _Connection:
    """The connection of one request."""

    def __init__(self) -> None:
        self.is_new = False
        self.was_lost = False
        """Whether a kept connection was used that the server closed without an answer."""

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """Handle a trace event of httpcore2."""
        self.is_new = self.is_new or name == "connection.connect_tcp.started"


def _request_url(address: str) -> httpcore2.URL:
    url = urlsplit(address)
    target = url.path + (f"?{url.query}" if url.query else "")
    return httpcore2.URL(scheme=url.scheme, host=url.hostname or "", port=url.port, target=target)


def _encode_headers(endpoint: Endpoint) -> list[tuple[bytes, bytes]]:
    """Return the headers of every request. Raises `ValueError` for a text that is not ASCII."""
    url = urlsplit(endpoint.base_url)
    host = {"Host": url.netloc.rpartition("@")[2], "Accept-Encoding": "identity"}
    headers = host | request_headers(endpoint)
    if (credentials := read_credentials(url)) is not None:
        headers["Authorization"] = basic_authorization(credentials)
    return [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]


def _decode_headers(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    decoded: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        decoded[key] = f"{decoded[key]}, {text}" if key in decoded else text
    return decoded


def _parse_error_body(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def is_encrypted(base_url: str) -> bool:
    return base_url.lower().startswith("https:")


def warm_http(profile: Profile, base_url: str) -> None:
    """Load certificates and the event loop's back end, which the first request to this address needs."""
    if is_encrypted(base_url):
        tls_context()
    # The asyncio part of anyio is imported when its first loop runs.
    anyio.run(anyio.sleep, 0)


async def _start_client(endpoint: Endpoint, encrypted: bool, proxy: str) -> AsyncConnectionPool:
    try:
        # Reading the certificates takes 30 ms, so it runs in a thread.
        tls = await asyncio.to_thread(tls_context) if encrypted else None
        return AsyncConnectionPool(
            tls,
            parse_proxy(proxy) if proxy else None,
            max_connections=_MAX_CONNECTIONS,
            max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
            keepalive_expiry=_KEPT_IDLE_S,
        )
    except (OSError, ValueError, ImportError) as error:
        if (refused := unusable_settings(error, endpoint)) is None:
            raise
        raise refused from error
