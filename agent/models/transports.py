"""An SDK's client as a way to post prepared bytes, and its errors in our terms."""

import asyncio
import os
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .failures import Refusal, Transient, judge, unreached, unusable_settings
from .providers import Endpoint, Profile
from .streaming import cut

if TYPE_CHECKING:
    from httpx2 import Response

_CONNECT_TIMEOUT_S = 10
_WRITE_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Sdk:
    """One of the two libraries, which are generated alike: clients and errors have the same names in both."""

    module: Any
    client: Any
    headers: dict[str, Any]
    """Sent with every request; the module's `omit` removes one."""


class SdkTransport:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._sdk: Sdk | None = None

    async def post(self, path: str, content: bytes) -> "Response":
        """Send and return the response, not read yet.

        Raises `Transient` or one of our errors for whatever the library raises, and for every error status.
        """
        if self._sdk is None:
            await asyncio.to_thread(load_sdk, self._endpoint.profile)
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
            return _start(self._endpoint)
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


def load_sdk(profile: Profile) -> ModuleType:
    """Import the library that speaks to this provider, which takes a second or two."""
    return import_module("anthropic" if profile.wire == "messages" else "openai")


def _start(endpoint: Endpoint) -> Sdk:
    from httpx2 import Timeout

    module: Any = load_sdk(endpoint.profile)
    is_anthropic = endpoint.profile.wire == "messages"
    options: dict[str, Any] = {"open_telemetry": False} if is_anthropic else {}
    client = (module.AsyncAnthropic if is_anthropic else module.AsyncOpenAI)(
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        max_retries=0,
        # Reading has its own limits, per piece and in all.
        timeout=Timeout(None, connect=_CONNECT_TIMEOUT_S, write=_WRITE_TIMEOUT_S),
        # The key and the conversation are for this address and for no other one that it may point to.
        http_client=module.DefaultAsyncHttpxClient(follow_redirects=False),
        **options,
    )
    headers: dict[str, Any] = {"Accept": "text/event-stream"}
    if not endpoint.sends_ambient_headers:
        # What the SDK takes from these variables it would send to any host.
        variable = "ANTHROPIC_CUSTOM_HEADERS" if is_anthropic else "OPENAI_CUSTOM_HEADERS"
        lines = os.environ.get(variable, "").splitlines()
        headers |= {line.partition(":")[0].strip(): module.omit for line in lines if ":" in line}
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
        if is_anthropic:
            # The API itself takes the bearer key; compatible servers may only know the older header.
            headers["x-api-key"] = endpoint.api_key
        else:
            client.organization = client.project = None
    return Sdk(module, client, headers)
