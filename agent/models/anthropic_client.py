"""The anthropic SDK as a transport, and its errors in our terms."""

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
    from anthropic import APIError, AsyncAnthropic
    from httpx2 import Response


def load() -> None:
    """Import the SDK, which takes about two seconds."""
    import anthropic  # noqa: F401  # pyright: ignore[reportUnusedImport]


class AnthropicTransport:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: AsyncAnthropic | None = None
        self._headers: dict[str, Any] = {"Accept": "text/event-stream"}

    async def post(self, path: str, body: Body) -> "Response":
        await asyncio.to_thread(load) if self._client is None else None
        from anthropic import APIError, AsyncStream
        from httpx2 import Response

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

    def _connect(self) -> "AsyncAnthropic":
        from anthropic import AsyncAnthropic, omit
        from httpx2 import Timeout

        endpoint = self._endpoint
        if not endpoint.sends_ambient_headers:
            self._headers |= {name: omit for name in ambient_header_names("ANTHROPIC_CUSTOM_HEADERS")}
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
            # The API itself takes the bearer key; compatible servers may only know the older header.
            self._headers["x-api-key"] = endpoint.api_key
        return AsyncAnthropic(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=Timeout(None, connect=CONNECT_TIMEOUT_S, write=WRITE_TIMEOUT_S),
            open_telemetry=False,
        )

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def translated(error: "APIError", endpoint: Endpoint) -> Exception:
    """Say an error of the anthropic library in our terms."""
    from anthropic import APIConnectionError, APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return judge(Refusal(error.status_code, error.body, plain(error.response.headers)), endpoint)
    if isinstance(error, APITimeoutError):
        return Transient(f"{endpoint.base_url} does not answer")
    if isinstance(error, APIConnectionError):
        cause = readable(str(error.__cause__ or ""), endpoint)
        return Transient(f"cannot reach {endpoint.base_url} ({cause})")
    return Transient(f"{endpoint.provider} failed ({readable(error.message, endpoint)})")
