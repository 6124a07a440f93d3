"""The client of the anthropic SDK."""

from agent.models.endpoint import Endpoint
from agent.models.transport import Sdk, connect_timeout, headers_without


def load() -> None:
    import anthropic  # noqa: F401  # pyright: ignore[reportUnusedImport]


def start(endpoint: Endpoint) -> Sdk:
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
