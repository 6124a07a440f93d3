"""Sends encoded requests with the openai or the anthropic library, and translates the library's errors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from httpx2 import HTTPError, InvalidURL, StreamError, Timeout
from httpx2 import Response as LibraryResponse

from ....actions.tools.web.tls import tls_context
from ....state.lazy_dataclass import dataclass
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
from .clouds import credentials_error, sign_in_errors, start_client
from .headers import CONNECT_TIMEOUT_S, WRITE_TIMEOUT_S, custom_headers, key_headers
from .proxies import describe_proxy


@dataclass(frozen=True, slots=True)
class Sdk:
    """One of the two libraries. Their clients and errors have the same names, because both are generated."""

    module: Any
    client: Any
    headers: dict[str, Any]
    """The headers of every request. A value `omit` of the module removes a header."""
    sign_in_errors: tuple[type[Exception], ...] = ()
    """The types of the exceptions that mean that a request cannot be signed."""

    async def aclose(self) -> None:
        await self.client.close()


def _identity(endpoint: Endpoint) -> tuple[Any, ...]:
    """Return the settings in which two clients must not differ to be shared."""
    profile = endpoint.profile
    address = profile.cloud, endpoint.base_url, endpoint.has_own_address, endpoint.sends_ambient_headers
    surroundings = tuple(sorted(endpoint.env.items()))
    return profile.wire == "messages", endpoint.api_key, endpoint.key_env, address, surroundings


class SdkTransport:
    def __init__(self, endpoint: Endpoint, clients: Clients) -> None:
        self._endpoint = endpoint
        self._seat = PooledClient(clients, _identity(endpoint), partial(_start_sdk, endpoint))

    async def post(self, path: str, content: bytes) -> SdkResponse:
        """Send a request and return the unread response.

        Raises `Transient` or a `SandburError` for every error of the library, and for every error status.
        """
        sdk = await self._seat.client()
        # The client of a cloud needs some fields of the body for the address and the signature.
        is_cloud = self._endpoint.profile.cloud is not None
        body: dict[str, Any] = {"body": json.loads(content)} if is_cloud else {"content": content}
        try:
            response = await sdk.client.post(
                path,
                cast_to=LibraryResponse,
                options={"headers": sdk.headers},
                stream=True,
                stream_cls=sdk.module.AsyncStream[Any],
                **body,
            )
        except sdk.sign_in_errors as error:
            raise credentials_error(self._endpoint, error) from error
        except sdk.module.APIError as error:
            raise translate_error(error, sdk.module, self._endpoint) from error
        except HTTPError as error:
            # The libraries read the body of an error answer without a size limit.
            raise make_truncation_error(self._endpoint.provider) from error
        return SdkResponse(response, self._endpoint.provider)

    async def aclose(self) -> None:
        await self._seat.aclose()


class SdkResponse:
    """A response through a library. It implements `Response`."""

    def __init__(self, response: LibraryResponse, provider: str) -> None:
        self._response = response
        self._provider = provider
        self.headers: Mapping[str, str] = response.headers

    async def pieces(self) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(self._response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    yield piece
        except (HTTPError, StreamError) as error:
            raise make_truncation_error(self._provider) from error

    async def aclose(self) -> None:
        await self._response.aclose()


def translate_error(error: Any, module: Any, endpoint: Endpoint) -> Exception:
    """Return the error of the openai or the anthropic library as `Transient` or a `SandburError`."""
    if isinstance(error, module.APIStatusError):
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return judge(Refusal(error.status_code, error.body, headers), endpoint, describe_proxy(endpoint))
    if isinstance(error, module.APITimeoutError):
        return Transient(f"{endpoint.display_url} does not answer")
    return classify_connection_error(error, endpoint, describe_proxy(endpoint))


def load_sdk(profile: Profile) -> ModuleType:
    """Import the library of this provider, which takes one or two seconds."""
    return import_module("anthropic" if profile.wire == "messages" else "openai")


def warm_sdk(profile: Profile, base_url: str) -> None:
    """Import the library of this provider before its first request."""
    load_sdk(profile)


async def _start_sdk(endpoint: Endpoint) -> Sdk:
    await asyncio.to_thread(load_sdk, endpoint.profile)
    try:
        # The search for credentials may read files and call servers.
        is_slow = endpoint.profile.cloud is not None
        return await asyncio.to_thread(_start, endpoint) if is_slow else _start(endpoint)
    except (OSError, ValueError, ImportError, InvalidURL) as error:
        if (refused := unusable_settings(error, endpoint)) is None:
            raise
        raise refused from error


def _start(endpoint: Endpoint) -> Sdk:
    module: Any = load_sdk(endpoint.profile)
    is_anthropic = endpoint.profile.wire == "messages"
    options: dict[str, Any] = {
        **({"open_telemetry": False} if is_anthropic else {}),
        "max_retries": 0,
        # The time limits for reading are separate: one per piece, and one in total.
        "timeout": Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
        # Redirects are not followed, because the key and the messages are only for this address.
        "http_client": module.DefaultAsyncHttpxClient(follow_redirects=False, verify=tls_context()),
    }
    cloud = endpoint.profile.cloud
    if cloud is not None:
        client = start_client(endpoint, module, options)
    else:
        kind = module.AsyncAnthropic if is_anthropic else module.AsyncOpenAI
        client = kind(api_key=endpoint.api_key, base_url=endpoint.base_url, **options)
    headers: dict[str, Any] = {"Accept": "text/event-stream"}
    if not endpoint.sends_ambient_headers:
        # The library would send the values of these variables to any host.
        headers |= dict.fromkeys(custom_headers(is_anthropic, os.environ), module.omit)
        if not is_anthropic:
            client.organization = client.project = None
        if cloud is None:
            headers |= key_headers(endpoint)
    return Sdk(module, client, headers, sign_in_errors(cloud) if cloud is not None else ())
