"""Builds a model from `provider/model` and the environment."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from threading import Thread
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from ...state.errors import ConfigError, CredentialsError, UsageError
from ...state.session import Effort
from ..config.settings import DEFAULT_MODELS
from .model import RetryPolicy, Transport, TryLimits, WireModel
from .prices.pricing import PriceOf
from .providers import (
    AMBIENT_VARIABLES,
    PROFILES,
    Endpoint,
    Profile,
    ProviderOverride,
    TransportName,
    suggest,
)
from .providers import context_window as family_window
from .requests import Dialect
from .transport.clients import Clients
from .transport.clouds import find_cloud_variables, usual_address

DEMO = "demo"

SET_UP = "".join(f"\n  export {variable}=..." for variable, _ in DEFAULT_MODELS) + "\n  ollama serve"
"""The commands that make a model available: one line per provider, valid in any shell."""
DEMO_NOTICE = (
    "No model is set up, so this is the demo: a fixed program with real tools, no language model. Ask it "
    "why this machine is slow, or what is in this folder. For a real model leave, run one line of these with "
    f"your key, and come back:{SET_UP}"
)

_OLLAMA_PORT = 11434
_CONNECT_TIMEOUT_S = 0.15
_PROBE_TIMEOUT_S = 0.4
_MAX_ANSWER_BYTES = 1 << 20


class Address(NamedTuple):
    host: str
    port: int
    encrypted: bool


def choose_model(
    requested: str | None, env: Mapping[str, str], or_demo: bool = True
) -> tuple[str, list[str]]:
    """Return the name of the model to use, and notices for the user about the choice.

    Raises `CredentialsError` if no model is available and `or_demo` is false.
    """
    if requested:
        return requested, []
    for _, model in DEFAULT_MODELS:
        if any(env.get(variable, "").strip() for variable in PROFILES[model.partition("/")[0]].key_env):
            return model, []
    local = ollama_model(env)
    if local:
        return local, [
            f"No key is set; using {local} of the Ollama on this machine (-m names another model)."
        ]
    if not or_demo:
        raise CredentialsError(
            "No model is set up: no key is set, and no Ollama answers here.",
            "What works now: `-m demo`, a fixed program with real tools, no language model. For a real model "
            f"run one line of these with your key, then this again:{SET_UP}",
        )
    return DEMO, [DEMO_NOTICE]


def ollama_model(env: Mapping[str, str]) -> str | None:
    """Return the first chat model of a local Ollama server, or None if no server answers at once."""
    address = ollama_address(env.get("OLLAMA_HOST", ""))
    if address is None:
        return None
    found: list[str] = []
    # A thread limits the whole probe: a socket timeout covers neither DNS nor a server that sends byte by
    # byte.
    probe = Thread(target=lambda: found.extend(_chat_models(_tags(address))), daemon=True)
    probe.start()
    probe.join(_PROBE_TIMEOUT_S)
    return f"ollama/{found[0]}" if found else None


def ollama_address(value: str) -> Address | None:
    """Parse `OLLAMA_HOST` as Ollama does: host, host:port, :port or URL. Return None for any other form."""
    text = value.strip()
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host.isprintable() or " " in host:
        return None
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    default = _OLLAMA_PORT if "://" not in text else (443 if parts.scheme == "https" else 80)
    return Address(host, port or default, parts.scheme == "https")


def _tags(address: Address) -> Any:
    """Return the server's list of models, or None if the answer is not valid."""
    kind = http.client.HTTPSConnection if address.encrypted else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=_CONNECT_TIMEOUT_S)
    try:
        connection.request("GET", "/api/tags")
        answer = connection.getresponse()
        return json.loads(answer.read(_MAX_ANSWER_BYTES)) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()


def _chat_models(tags: Any) -> list[str]:
    listed = cast(dict[str, Any], tags).get("models") if isinstance(tags, dict) else None
    entries = cast(list[Any], listed) if isinstance(listed, list) else []
    names = [cast(dict[str, Any], entry).get("name") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and _is_chat_model(name)]


def _is_chat_model(name: str) -> bool:
    return bool(name) and name.isprintable() and " " not in name and "embed" not in name


_NO_KEY = "no-key"
"""The key for servers that need none: the header has to contain some key, even if the server ignores it."""


def connect(
    name: str,
    *,
    env: Mapping[str, str],
    providers: Mapping[str, ProviderOverride] = {},
    aliases: Iterable[str] = (),
    retry: RetryPolicy | None = None,
    price: PriceOf | None = None,
    context_window: int | None = None,
    max_output_tokens: int | None = None,
    effort: Effort | None = None,
    limits: TryLimits | None = None,
    clients: Clients | None = None,
    transport: TransportName = "http",
) -> WireModel:
    """Return the model called `name`. No request is sent yet.

    Without `clients`, the model shares its connections with no other model. Raises `UsageError` for an
    unknown name, with the known `aliases` in its message, `CredentialsError` for a missing key, and
    `ConfigError` for an invalid address.
    """
    endpoint = _endpoint(*_find(name, providers, aliases), env)
    profile, model = endpoint.profile, endpoint.model
    clients = clients or Clients()
    sending = _transport(endpoint, _transport_name(name, providers, transport), clients)
    return WireModel(
        endpoint,
        _dialect(endpoint, max_output_tokens, effort),
        sending,
        context_window=context_window or profile.context_window or family_window(model),
        limits=limits or TryLimits(idle_s=profile.idle_s),
        retry=retry or RetryPolicy(),
        price=price,
        count_transport=_count_transport(endpoint, sending, clients),
    )


def find_endpoint(
    name: str, env: Mapping[str, str], providers: Mapping[str, ProviderOverride] = {}
) -> Endpoint:
    """Return the address and the key for `provider/model`; raises the errors of `connect`."""
    return _endpoint(*_find(name, providers), env)


def _count_transport(endpoint: Endpoint, sending: Transport, clients: Clients) -> Transport | None:
    """Return the transport for the provider's endpoint for token counts, or None if there is no such
    endpoint."""
    profile = endpoint.profile
    if profile.cloud is not None:
        return None
    if profile.name == "gemini":
        # This endpoint uses Gemini's own format. The key is the same, but in another header.
        own = replace(profile, key_header="x-goog-api-key")
        base_url = endpoint.base_url.removesuffix("/openai")
        return _transport(replace(endpoint, profile=own, base_url=base_url), "http", clients)
    return None if profile.wire == "chat" else sending


def _endpoint(profile: Profile, model: str, env: Mapping[str, str]) -> Endpoint:
    if profile.cloud is not None:
        return _cloud_endpoint(profile, model, env)
    profile, base_url, is_custom = _locate(profile, env)
    key, key_env = _key(profile, env, is_custom)
    return Endpoint(
        profile=profile,
        model=model,
        base_url=base_url,
        api_key=key,
        key_env=key_env,
        sends_ambient_headers=profile.owns(base_url),
        env={name: value for name in AMBIENT_VARIABLES if (value := env.get(name))},
    )


def _cloud_endpoint(profile: Profile, model: str, env: Mapping[str, str]) -> Endpoint:
    key, key_env = _key(profile, env, is_custom=not profile.needs_key)
    named = next((name for name in profile.url_env if env.get(name, "").strip()), "")
    own = env[named].strip() if named else profile.base_url
    return Endpoint(
        profile=profile,
        model=model,
        base_url=_check_url(own, named or "The configured base_url") if own else usual_address(profile, env),
        api_key="" if key == _NO_KEY else key,
        key_env=key_env,
        sends_ambient_headers=False,
        has_own_address=bool(own),
        env=find_cloud_variables(profile.cloud or "azure", env),
    )


def _dialect(endpoint: Endpoint, max_output_tokens: int | None, effort: Effort | None) -> Dialect:
    # Import only the wire format that this model uses.
    match endpoint.profile.wire:
        case "chat":
            from .wires.openai_chat import OpenAIChatDialect as Spoken
        case "responses":
            from .wires.openai_responses import OpenAIResponsesDialect as Spoken
        case "messages":
            from .wires.anthropic_messages import AnthropicMessagesDialect as Spoken
    return Spoken(endpoint, max_output_tokens, effort)


def _transport_name(
    name: str, providers: Mapping[str, ProviderOverride], usual: TransportName
) -> TransportName:
    override = providers.get(name.strip().partition("/")[0])
    return override.transport or usual if override is not None else usual


def _load_transport(
    is_sdk: bool,
) -> tuple[Callable[[Endpoint, Clients], Transport], Callable[[Profile, str], None]]:
    """Return the class of a transport, and the function that imports the modules for its first request."""
    if is_sdk:
        from .transport.sdk import SdkTransport, warm_sdk

        return SdkTransport, warm_sdk
    from .transport.http import HttpTransport, warm_http

    return HttpTransport, warm_http


def _transport(endpoint: Endpoint, name: TransportName, clients: Clients) -> Transport:
    # The requests to a cloud need the cloud's own client, which signs them and chooses their address.
    transport, _ = _load_transport(name == "sdk" or endpoint.profile.cloud is not None)
    return transport(endpoint, clients)


def prewarm(
    name: str,
    env: Mapping[str, str],
    providers: Mapping[str, ProviderOverride] = {},
    transport: TransportName = "http",
) -> None:
    """Import the modules that the model's first call needs. Run in a thread, this saves time later."""
    profile, _ = _find(name, providers)
    url = ""
    if profile.cloud is None:
        profile, url, _ = _locate(profile, env)
    is_sdk = profile.cloud is not None or _transport_name(name, providers, transport) == "sdk"
    _, warm = _load_transport(is_sdk)
    warm(profile, url)


def _find(
    name: str, providers: Mapping[str, ProviderOverride], aliases: Iterable[str] = ()
) -> tuple[Profile, str]:
    provider, slash, model = (part.strip() for part in name.partition("/"))
    known = [*PROFILES, *(extra for extra in providers if extra not in PROFILES)]
    if not provider:
        raise UsageError("No model is named.", "Use -m PROVIDER/MODEL, or -m demo.")
    if provider == DEMO:
        raise UsageError("The demo is a single model, without a name behind a slash.", f"Use -m {DEMO}.")
    if provider not in known:
        raise _make_provider_error(name.strip(), known, aliases)
    if not slash or not model:
        raise UsageError(f"{name!r} names no model.", f"Use -m {provider}/MODEL.")
    if provider in providers:
        return _configure_profile(provider, providers[provider]), model
    return PROFILES[provider], model


def _make_provider_error(name: str, known: list[str], aliases: Iterable[str]) -> UsageError:
    meant = suggest(name, known)
    question = f"Did you mean -m {meant}? " if meant else ""
    provider, slash, _ = name.partition("/")
    own = "" if slash else ", ".join(sorted(aliases))
    if own:
        return UsageError(
            f"There is no model and no alias {provider!r}.",
            f"{question}Use -m PROVIDER/MODEL, demo or an alias: {own}.",
        )
    return UsageError(
        f"There is no provider {provider.strip()!r}.",
        f"{question}Known are: demo, {', '.join(known)}. Use -m PROVIDER/MODEL.",
    )


def _configure_profile(name: str, override: ProviderOverride) -> Profile:
    """Return the profile of a configured provider. A known provider keeps its other properties."""
    known = PROFILES.get(name) or Profile(name=name, wire="chat", base_url=override.base_url)
    return replace(
        known,
        wire=override.wire or known.foreign_wire or known.wire,
        base_url=override.base_url,
        key_env=_keys_of(override, known),
        url_env=(),
        foreign_wire=None,
    )


def _keys_of(override: ProviderOverride, known: Profile) -> tuple[str, ...]:
    if override.api_key_env:
        return (override.api_key_env,)
    return known.key_env if override.takes_known_key else ()


def _locate(profile: Profile, env: Mapping[str, str]) -> tuple[Profile, str, bool]:
    """Return the profile for the base URL in use, that URL, and whether it differs from the default."""
    url, source = profile.base_url, "The configured base_url"
    for variable in profile.url_env:
        if value := env.get(variable, "").strip():
            url, source = value, variable
            break
    else:
        if profile.name == "ollama" and profile == PROFILES["ollama"]:
            url, source = _ollama_url(env), "OLLAMA_HOST"
    url = _check_url(url, source).rstrip("/")
    if profile.wire == "messages":
        url = url.removesuffix("/v1")
    default = PROFILES.get(profile.name)
    is_custom = default is None or url != default.base_url
    if profile.foreign_wire and not profile.owns(url):
        # Most servers that enforce a schema do not accept tool calls at the same time.
        profile = replace(profile, wire=profile.foreign_wire, formats_output=False, has_strict_tools=False)
    return profile, url, is_custom


def _ollama_url(env: Mapping[str, str]) -> str:
    address = ollama_address(env.get("OLLAMA_HOST", ""))
    if address is None:
        return env.get("OLLAMA_HOST", "")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if address.encrypted else 'http'}://{host}:{address.port}/v1"


def _check_url(url: str, source: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not re.fullmatch(r"[!-~]+", url):
        raise ConfigError(
            f"{source} is not the address of a server.", "An address looks like https://HOST/v1."
        )
    return url


def _key(profile: Profile, env: Mapping[str, str], is_custom: bool) -> tuple[str, str]:
    """Return the key, and the name of the variable that holds it or should hold it."""
    for variable in profile.key_env:
        if key := env.get(variable, "").strip():
            if not re.fullmatch(r"[!-~]+", key):
                raise CredentialsError(
                    f"{variable} holds characters that no key has.", "Set it again, without line breaks."
                )
            return key, variable
    default = PROFILES.get(profile.name)
    named = profile.key_env[0] if profile.key_env else ""
    is_named_by_person = named and (default is None or profile.key_env != default.key_env)
    if named and (not is_custom or is_named_by_person):
        raise CredentialsError(f"No key for {profile.name}: {named} is not set.", f"Run: export {named}=...")
    return _NO_KEY, named
