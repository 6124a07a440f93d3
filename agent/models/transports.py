"""An SDK's client as a way to post prepared bytes, and its errors in our terms."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .failures import Refusal, Transient, judge, unreached, unusable_settings
from .providers import Endpoint
from .streaming import cut

if TYPE_CHECKING:
    from httpx2 import Response, Timeout

_CONNECT_TIMEOUT_S = 10
_WRITE_TIMEOUT_S = 120


class Transport(Protocol):
    async def post(self, path: str, content: bytes) -> "Response":
        """Send and return the response, not read yet.

        Raises `Transient` or one of our errors for whatever the library raises, and for every error status.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sdk:
    """One of the two libraries, which are generated alike: clients and errors have the same names in both."""

    module: Any
    client: Any
    headers: dict[str, Any]
    """Sent with every request; the module's `omit` removes one."""


class SdkTransport:
    def __init__(
        self, endpoint: Endpoint, load: Callable[[], None], start: Callable[[Endpoint], Sdk]
    ) -> None:
        """`load` imports the library, which takes a second or two; `start` makes the client."""
        self._endpoint = endpoint
        self._load = load
        self._start = start
        self._sdk: Sdk | None = None

    async def post(self, path: str, content: bytes) -> "Response":
        if self._sdk is None:
            await asyncio.to_thread(self._load)
            self._sdk = self._sdk or self._started()
        sdk = self._sdk
        from httpx2 import HTTPError, Response

        try:
            return await sdk.client.post(
                path,
                cast_to=Response,
                content=content,
                options={"headers": sdk.headers},
                stream=True,
                stream_cls=sdk.module.AsyncStream[Any],
            )
        except sdk.module.APIError as error:
            raise translated(error, sdk.module, self._endpoint) from error
        except HTTPError as error:
            # The SDKs read the body of an error answer unguarded.
            raise cut(self._endpoint.provider) from error

    def _started(self) -> Sdk:
        from httpx2 import InvalidURL

        try:
            return self._start(self._endpoint)
        except (OSError, ValueError, ImportError, InvalidURL) as error:
            if (refused := unusable_settings(error, self._endpoint)) is None:
                raise
            raise refused from error

    async def aclose(self) -> None:
        if self._sdk is not None:
            await self._sdk.client.close()
            self._sdk = None


def translated(error: Any, module: Any, endpoint: Endpoint) -> Exception:
    """Say an error of the openai or the anthropic library in our terms."""
    if isinstance(error, module.APIStatusError):
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return judge(Refusal(error.status_code, error.body, headers), endpoint)
    if isinstance(error, module.APITimeoutError):
        return Transient(f"{endpoint.base_url} does not answer")
    return unreached(error, endpoint)


def connect_timeout() -> "Timeout":
    """Return the SDK's timeouts; reading has its own limits, per piece and in all."""
    from httpx2 import Timeout

    return Timeout(None, connect=_CONNECT_TIMEOUT_S, write=_WRITE_TIMEOUT_S)


def headers_without(variable: str, endpoint: Endpoint, omit: Any) -> dict[str, Any]:
    """Return headers that undo what the SDK takes from `variable` and would send to any host."""
    headers: dict[str, Any] = {"Accept": "text/event-stream"}
    if not endpoint.sends_ambient_headers:
        lines = os.environ.get(variable, "").splitlines()
        headers |= {line.partition(":")[0].strip(): omit for line in lines if ":" in line}
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    return headers


def load_anthropic() -> None:
    import anthropic  # noqa: F401  # pyright: ignore[reportUnusedImport]


def start_anthropic(endpoint: Endpoint) -> Sdk:
    import anthropic

    headers = headers_without("ANTHROPIC_CUSTOM_HEADERS", endpoint, anthropic.omit)
    if not endpoint.sends_ambient_headers:
        # The API itself takes the bearer key; compatible servers may only know the older header.
        headers["x-api-key"] = endpoint.api_key
    client = anthropic.AsyncAnthropic(
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=connect_timeout(),
        # The key and the conversation are for this address and for no other one that it may point to.
        http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
        open_telemetry=False,
    )
    return Sdk(anthropic, client, headers)


def load_openai() -> None:
    import openai  # noqa: F401  # pyright: ignore[reportUnusedImport]


def start_openai(endpoint: Endpoint) -> Sdk:
    import openai

    client = openai.AsyncOpenAI(
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=connect_timeout(),
        # The key and the conversation are for this address and for no other one that it may point to.
        http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
    )
    if not endpoint.sends_ambient_headers:
        client.organization = client.project = None
    return Sdk(openai, client, headers_without("OPENAI_CUSTOM_HEADERS", endpoint, openai.omit))
