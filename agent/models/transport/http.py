"""Sends prepared bytes directly over HTTP, without a provider's library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ....actions.tools.web.tls import tls_context
from ...version import VERSION
from ..failures import (
    Refusal,
    Transient,
    classify_connection_error,
    judge,
    make_truncation_error,
    unusable_settings,
)
from ..providers import Endpoint
from .clients import Clients, PooledClient

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

CONNECT_TIMEOUT_S = 10
WRITE_TIMEOUT_S = 120
_MAX_CONNECTIONS = 1000
_MAX_IDLE_CONNECTIONS = 100
_KEPT_IDLE_S = 60
"""About the time of most tools: a new connection costs a handshake."""
_MAX_REFUSAL_BYTES = 1 << 20
_ANTHROPIC_VERSION = "2026-10-21"
_OPENAI_VARIABLES = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


class HttpTransport:
    def __init__(self, endpoint: Endpoint, clients: Clients) -> None:
        self._endpoint = endpoint
        encrypted = is_encrypted(endpoint.base_url)
        start = partial(_start_client, endpoint, encrypted)
        self._seat: PooledClient[AsyncClient] = PooledClient(clients, ("http", encrypted), start)
        self._prepared: tuple[Any, Any] | None = None
        """The address and the headers, which are the same for all requests."""

    async def post(self, path: str, content: bytes) -> Response:
        """Send and return the unread response.

        Raises `Transient` or one of our errors for a connection that fails, and for every error status.
        """
        client = await self._seat.client()
        from httpx2 import HTTPError, InvalidURL, TimeoutException

        try:
            response = await self._send(client, path, content)
        except TimeoutException:
            raise Transient(f"{self._endpoint.base_url} does not answer") from None
        except (HTTPError, InvalidURL, ValueError) as error:  # an invalid host name or header text
            raise classify_connection_error(error, self._endpoint) from error
        if not response.is_success:
            raise judge(await self._refusal(response), self._endpoint)
        return response

    async def aclose(self) -> None:
        await self._seat.aclose()

    async def _send(self, client: AsyncClient, path: str, content: bytes) -> Response:
        """Send once; repeat once if the server had already closed the connection."""
        from httpx2 import ByteStream, ReadError, RemoteProtocolError, Request, WriteError

        url, headers = self._prepared or self._prepare(client, path)
        connection = _Connection()
        while True:
            extensions = {"trace": connection.trace}
            request = Request("POST", url, headers=headers, stream=ByteStream(content), extensions=extensions)
            request.headers["Content-Length"] = str(len(content))
            try:
                return await client.send(request, stream=True)
            except (ReadError, RemoteProtocolError, WriteError):
                if connection.is_new or connection.was_lost:
                    raise
                connection.was_lost = True

    def _prepare(self, client: AsyncClient, path: str) -> tuple[Any, Any]:
        from httpx2 import URL, Headers

        url = URL(f"{self._endpoint.base_url.rstrip('/')}{path}")
        host = {"Host": url.netloc.decode("ascii"), "Accept-Encoding": client.headers["Accept-Encoding"]}
        self._prepared = url, Headers({**host, **headers_of(self._endpoint)})
        return self._prepared

    async def _refusal(self, response: Response) -> Refusal:
        """Read an error answer, up to a size limit."""
        from httpx2 import HTTPError, StreamError

        body = bytearray()
        try:
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > _MAX_REFUSAL_BYTES:
                        break
        except (HTTPError, StreamError) as error:
            raise make_truncation_error(self._endpoint.provider) from error
        finally:
            await response.aclose()
        headers = {name.lower(): value for name, value in response.headers.items()}
        details = _parse_error_body(body.decode("utf-8", "replace"))
        if isinstance(details, dict) and self._endpoint.profile.wire != "messages":
            details = cast(dict[str, Any], details).get("error", details)
        return Refusal(response.status_code, details, headers)


class _Connection:
    """The connection of one request."""

    def __init__(self) -> None:
        self.is_new = False
        self.was_lost = False
        """True if a kept connection was used and closed without an answer."""

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """Receive the trace events of httpcore."""
        self.is_new = self.is_new or name == "connection.connect_tcp.started"


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """Return the headers of every request, except those of HTTP itself."""
    is_anthropic = endpoint.profile.wire == "messages"
    headers = {
        "User-Agent": f"sandbur/{VERSION}",
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        **({"anthropic-version": _ANTHROPIC_VERSION} if is_anthropic else {}),
        **key_headers(endpoint),
    }
    return (
        _merge_headers(headers, _ambient(is_anthropic, endpoint.env))
        if endpoint.sends_ambient_headers
        else headers
    )


def key_headers(endpoint: Endpoint) -> dict[str, str]:
    bearer = {"Authorization": f"Bearer {endpoint.api_key}"}
    if endpoint.profile.wire == "messages" and not endpoint.sends_ambient_headers:
        # The API accepts the bearer key; compatible servers may only know the older header.
        return {**bearer, "x-api-key": endpoint.api_key}
    return bearer


def custom_headers(is_anthropic: bool, env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that the company's library adds from its environment variables."""
    lines = env.get("ANTHROPIC_CUSTOM_HEADERS" if is_anthropic else "OPENAI_CUSTOM_HEADERS", "")
    fields = (line.partition(":") for line in lines.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in fields}


def _ambient(is_anthropic: bool, env: Mapping[str, str]) -> dict[str, str]:
    named = {} if is_anthropic else _OPENAI_VARIABLES
    headers = {header: value for name, header in named.items() if (value := env.get(name))}
    return {**headers, **custom_headers(is_anthropic, env)}


def _merge_headers(headers: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: value for name, value in headers.items() if name.lower() not in replaced} | more


def _parse_error_body(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def is_encrypted(base_url: str) -> bool:
    return base_url.lower().startswith("https:")


def load_http(encrypted: bool) -> None:
    """Import what a client needs, and load certificates for encrypted connections."""
    # Otherwise the first client imports it.
    for name in ("httpx2", "httpcore2"):
        import_module(name)
    if encrypted:
        tls_context()


def warm_http(base_url: str) -> None:
    """Import everything for the first request to this address; takes 0.1 to 0.2 seconds."""
    load_http(is_encrypted(base_url))
    import anyio

    # Its asyncio part is imported with the first loop.
    anyio.run(anyio.sleep, 0)


async def _start_client(endpoint: Endpoint, encrypted: bool) -> AsyncClient:
    try:
        await asyncio.to_thread(load_http, encrypted)
        return _client(encrypted)
    except (OSError, ValueError, ImportError) as error:
        if (refused := unusable_settings(error, endpoint)) is None:
            raise
        raise refused from error


def _client(encrypted: bool) -> AsyncClient:
    import ssl
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    from httpx2 import AsyncClient, InvalidURL, Limits, Timeout

    try:
        return AsyncClient(
            # Without encryption no certificates are needed.
            verify=tls_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            # Reading has separate limits, per piece and in total.
            timeout=Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
            limits=Limits(
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
                keepalive_expiry=_KEPT_IDLE_S,
            ),
            # Follow no redirects: key and messages are for this address only.
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
    except InvalidURL as error:
        raise ValueError(str(error)) from error
