"""The headers and time limits that all requests to model servers share."""

from collections.abc import Mapping

from ...runtime.version import VERSION
from ..providers import Endpoint

CONNECT_TIMEOUT_S = 10
WRITE_TIMEOUT_S = 120
_ANTHROPIC_VERSION = "2026-10-21"
_OPENAI_VARIABLES = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


def request_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the headers of every request, without those that HTTP itself adds."""
    is_anthropic = endpoint.profile.wire == "messages"
    headers = {
        "User-Agent": f"sandbur/{VERSION}",
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        **({"anthropic-version": _ANTHROPIC_VERSION} if is_anthropic else {}),
        **key_headers(endpoint),
    }
    return (
        _merge_headers(headers, _read_ambient_headers(is_anthropic, endpoint.env))
        if endpoint.sends_ambient_headers
        else headers
    )


def key_headers(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.profile.key_header:
        return {endpoint.profile.key_header: endpoint.api_key}
    bearer = {"Authorization": f"Bearer {endpoint.api_key}"}
    if endpoint.profile.wire == "messages" and not endpoint.sends_ambient_headers:
        # The API accepts the key as a bearer token. Compatible servers may know only the older header.
        return {**bearer, "x-api-key": endpoint.api_key}
    return bearer


def custom_headers(is_anthropic: bool, env: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that the provider's library would add from its environment variables."""
    lines = env.get("ANTHROPIC_CUSTOM_HEADERS" if is_anthropic else "OPENAI_CUSTOM_HEADERS", "")
    fields = (line.partition(":") for line in lines.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in fields}


def _read_ambient_headers(is_anthropic: bool, env: Mapping[str, str]) -> dict[str, str]:
    named = {} if is_anthropic else _OPENAI_VARIABLES
    headers = {header: value for name, header in named.items() if (value := env.get(name))}
    return {**headers, **custom_headers(is_anthropic, env)}


def _merge_headers(headers: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    replaced = {name.lower() for name in more}
    return {name: value for name, value in headers.items() if name.lower() not in replaced} | more
