"""Counts the tokens of a request at the provider's own endpoint, if the provider has one."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Protocol, cast

from ....actions.ports import ModelRequest
from ....state.errors import CredentialsError, ModelError
from ..failures import Transient
from ..transport.events import Response
from .count_requests import CountRequest

_MAX_ANSWER_BYTES = 1 << 20
_TOTAL_S = 20.0
_MAX_FAILURES = 3
"""The number of failures in a row after which the endpoint is not asked again."""


class CountTransport(Protocol):
    """Sends encoded requests to a model server."""

    async def post(self, path: str, content: bytes) -> Response:
        """Send a request and return the unread response; raises `Transient` or a `SandburError`."""
        ...

    async def aclose(self) -> None: ...


class CountFormat(Protocol):
    """Makes the request that asks for the token count of a model request."""

    def __call__(self, request: ModelRequest) -> CountRequest: ...


class ProviderTokenCounter:
    """Counts tokens by asking the provider before each model call. It implements `TokenCounter`.

    After a failure, the tokens of that request are estimated. After several failures in a row, all are.
    """

    def __init__(self, transport: CountTransport, make_request: CountFormat) -> None:
        self._transport = transport
        self._make_request = make_request
        self._failures = 0

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the tokens of the whole request, or None if the provider did not count them."""
        if self._failures >= _MAX_FAILURES:
            return None
        asked = self._make_request(request)
        answer: Mapping[str, Any] = {}
        try:
            async with asyncio.timeout(_TOTAL_S):
                answer = await self._ask(asked)
        except (TimeoutError, Transient, CredentialsError, ModelError):
            # The model call itself will report the problem.
            pass
        counted = answer.get(asked.answer_field)
        is_count = isinstance(counted, int) and counted > 0
        self._failures = 0 if is_count else self._failures + 1
        return counted if is_count else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _ask(self, asked: CountRequest) -> Mapping[str, Any]:
        """Return the answer as an object; an empty object for any other JSON."""
        response = await self._transport.post(asked.path, asked.content)
        body = bytearray()
        try:
            async with aclosing(response.pieces()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > _MAX_ANSWER_BYTES:
                        return {}
        finally:
            await response.aclose()
        try:
            parsed: Any = json.loads(body)
        except (ValueError, RecursionError):
            return {}
        return cast("Mapping[str, Any]", parsed) if isinstance(parsed, dict) else {}
