"""The openai SDK as a transport, and its errors in our terms."""

import asyncio
from typing import TYPE_CHECKING, Any

from agent.models.body import Body
from agent.models.endpoint import Endpoint
from agent.models.failures import Refusal, Transient, judge, readable
from agent.models.transport import (
    CONNECT_TIMEOUT_S,
    WRITE_TIMEOUT_S,
    ambient_header_names,
    plain,
)

if TYPE_CHECKING:
    from httpx2 import Response
    from openai import APIError, AsyncOpenAI


def load() -> None:
    """Import the SDK, which takes about a second."""
    import openai  # noqa: F401  # pyright: ignore[reportUnusedImport]


class OpenAITransport:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: AsyncOpenAI | None = None
        self._headers: dict[str, Any] = {"Accept": "text/event-stream"}

    async def post(self, path: str, body: Body) -> "Response":
        await asyncio.to_thread(load) if self._client is None else None
        from httpx2 import Response
        from openai import APIError, AsyncStream

        client = self._client = self._client or self._connect()
        try:
            return await client.post(
                path,
                cast_to=Response,
                content=body.content,
                options={"headers": self._headers},
                stream=True,
                stream_cls=AsyncStream[Any],
            )  # pyright: ignore[reportReturnType]
        except APIError as error:
            raise translated(error, self._endpoint) from error

    def _connect(self) -> "AsyncOpenAI":
        from httpx2 import Timeout
        from openai import AsyncOpenAI, omit

        endpoint = self._endpoint
        client = AsyncOpenAI(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            max_retries=0,
            # Reading has its own limits, per piece and in all.
            timeout=Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
        )
        if not endpoint.sends_ambient_headers:
            client.organization = client.project = None
            self._headers |= {name: omit for name in ambient_header_names("OPENAI_CUSTOM_HEADERS")}
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        return client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def translated(error: "APIError", endpoint: Endpoint) -> Exception:
    """Say an error of the openai library in our terms."""
    from openai import APIConnectionError, APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return judge(Refusal(error.status_code, error.body, plain(error.response.headers)), endpoint)
    if isinstance(error, APITimeoutError):
        return Transient(f"{endpoint.base_url} does not answer")
    if isinstance(error, APIConnectionError):
        cause = readable(str(error.__cause__ or ""), endpoint)
        return Transient(f"cannot reach {endpoint.base_url} ({cause})")
    return Transient(f"{endpoint.provider} failed ({readable(error.message, endpoint)})")
