"""The client of the openai SDK."""

from agent.models.endpoint import Endpoint
from agent.models.transport import Sdk, connect_timeout, headers_without


def load() -> None:
    import openai  # noqa: F401  # pyright: ignore[reportUnusedImport]


def start(endpoint: Endpoint) -> Sdk:
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
