"""Counts the tokens of a request at the provider's own endpoint, where it has one."""

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
"""Failures in a row after which the endpoint is asked no more."""


class CountTransport(Protocol):
    """Sends prepared bytes to a model server."""

    async def post(self, path: str, content: bytes) -> Response:
        """Send and return the unread response; raises `Transient` or one of our errors."""
        ...

    async def aclose(self) -> None: ...


class CountFormat(Protocol):
    """Makes the request that asks for the count of another request."""

    def __call__(self, request: ModelRequest) -> CountRequest: ...


class ProviderTokenCounter:
    """Implements `TokenCounter`: each count is a request of its own to the provider, before the model call.

    What cannot be counted is estimated instead: a failure costs one count, several in a row end the asking.
    """

    def __init__(self, transport: CountTransport, make_request: CountFormat) -> None:
        self._transport = transport
        self._make_request = make_request
        self._failures = 0

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the tokens of the whole request; None if the provider did not count them."""
        if self._failures >= _MAX_FAILURES:
            return None
        asked = self._make_request(request)
        answer: Mapping[str, Any] = {}
        try:
            async with asyncio.timeout(_TOTAL_S):
                answer = await self._ask(asked)
        except (TimeoutError, Transient, CredentialsError, ModelError):
            # The model call itself will say what is wrong.
            pass
        counted = answer.get(asked.answer_field)
        is_count = isinstance(counted, int) and counted > 0
        self._failures = 0 if is_count else self._failures + 1
        return counted if is_count else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _ask(self, asked: CountRequest) -> Mapping[str, Any]:
        """Return the answer as an object; an empty one if it is no JSON object."""
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
