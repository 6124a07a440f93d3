"""From `provider/model` and the environment to a model that can be called."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from agent.models import anthropic_client, openai_client
from agent.models.catalogue import ollama_address
from agent.models.chat import ChatDialect
from agent.models.endpoint import Endpoint
from agent.models.families import context_window as family_window
from agent.models.messages import MessagesDialect
from agent.models.profiles import PROFILES, Profile, ProviderOverride
from agent.models.responses import ResponsesDialect
from agent.models.retry import RetryPolicy
from agent.models.transport import Sdk, SdkTransport
from agent.models.wire_model import Limits, PriceOf, WireModel
from state.errors import ConfigError, CredentialsError, UsageError

_NO_KEY = "no-key"
"""The SDKs want some key, also for servers that want none."""


def connect(
    name: str,
    *,
    env: Mapping[str, str],
    providers: Mapping[str, ProviderOverride] = {},
    retry: RetryPolicy | None = None,
    price: PriceOf | None = None,
    context_window: int | None = None,
    max_output_tokens: int | None = None,
    limits: Limits | None = None,
) -> WireModel:
    """Return the model called `name`; nothing is imported or sent yet.

    Raises `UsageError` for a name that means nothing, `CredentialsError` for a missing key, and `ConfigError`
    for an address that is none.
    """
    profile, model = _find(name, providers)
    profile, base_url, is_custom = _locate(profile, env)
    key, key_env = _key(profile, env, is_custom)
    endpoint = Endpoint(
        profile=profile,
        model=model,
        base_url=base_url,
        api_key=key,
        key_env=key_env,
        sends_ambient_headers=profile.owns(base_url),
    )
    return _assemble(
        endpoint,
        retry=retry or RetryPolicy(),
        price=price,
        context_window=context_window or profile.context_window or family_window(model),
        max_output_tokens=max_output_tokens,
        limits=limits or Limits(idle_s=profile.idle_s),
    )


def prewarm(name: str, env: Mapping[str, str], providers: Mapping[str, ProviderOverride] = {}) -> None:
    """Import what the first call of this model needs; meant for a thread, while the person types."""
    profile, _, _ = _locate(_find(name, providers)[0], env)
    load, _ = _sdk(profile)
    load()


def _find(name: str, providers: Mapping[str, ProviderOverride]) -> tuple[Profile, str]:
    provider, slash, model = name.strip().partition("/")
    known = [*PROFILES, *(extra for extra in providers if extra not in PROFILES)]
    if provider not in known:
        raise UsageError(
            f"There is no provider {provider!r}.",
            f"Known are: demo, {', '.join(known)}. Use -m PROVIDER/MODEL.",
        )
    if not slash or not model.strip():
        raise UsageError(f"{name!r} names no model.", f"Use -m {provider}/MODEL.")
    if provider in providers:
        return _defined(provider, providers[provider]), model.strip()
    return PROFILES[provider], model.strip()


def _defined(name: str, override: ProviderOverride) -> Profile:
    """Return the profile of a provider from the configuration; a known name keeps its other properties."""
    known = PROFILES.get(name) or Profile(name=name, wire="chat", base_url=override.base_url)
    return replace(
        known,
        wire=override.wire or known.foreign_wire or known.wire,
        base_url=override.base_url,
        key_env=(override.api_key_env,) if override.api_key_env else known.key_env,
        url_env=(),
        foreign_wire=None,
    )


def _locate(profile: Profile, env: Mapping[str, str]) -> tuple[Profile, str, bool]:
    """Return the profile as it applies to its base URL, the URL, and whether that is not the default one."""
    url, source = profile.base_url, "The configured base_url"
    for variable in profile.url_env:
        if value := env.get(variable, "").strip():
            url, source = value, variable
            break
    else:
        if profile.name == "ollama" and profile == PROFILES["ollama"]:
            url, source = _ollama_url(env), "OLLAMA_HOST"
    url = _checked(url, source).rstrip("/")
    if profile.wire == "messages":
        url = url.removesuffix("/v1")
    default = PROFILES.get(profile.name)
    is_custom = default is None or url != default.base_url
    if profile.foreign_wire and not profile.owns(url):
        profile = replace(profile, wire=profile.foreign_wire)
    return profile, url, is_custom


def _ollama_url(env: Mapping[str, str]) -> str:
    address = ollama_address(env.get("OLLAMA_HOST", ""))
    if address is None:
        return env.get("OLLAMA_HOST", "")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if address.encrypted else 'http'}://{host}:{address.port}/v1"


def _checked(url: str, source: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not re.fullmatch(r"[!-~]+", url):
        raise ConfigError(f"{source} is no address of a server.", "It looks like https://HOST/v1.")
    return url


def _key(profile: Profile, env: Mapping[str, str], is_custom: bool) -> tuple[str, str]:
    """Return the key and the variable it is (to be) in."""
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


def _sdk(profile: Profile) -> tuple[Callable[[], None], Callable[[Endpoint], Sdk]]:
    if profile.wire == "messages":
        return anthropic_client.load, anthropic_client.start
    return openai_client.load, openai_client.start


def _assemble(
    endpoint: Endpoint,
    *,
    retry: RetryPolicy,
    price: PriceOf | None,
    context_window: int,
    max_output_tokens: int | None,
    limits: Limits,
) -> WireModel:
    kinds = {"chat": ChatDialect, "responses": ResponsesDialect, "messages": MessagesDialect}
    dialect = kinds[endpoint.profile.wire](endpoint, max_output_tokens)
    return WireModel(
        endpoint,
        dialect,
        SdkTransport(endpoint, *_sdk(endpoint.profile)),
        context_window=context_window,
        limits=limits,
        retry=retry,
        price=price,
    )
