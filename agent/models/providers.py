"""The known providers: where they are, which key they want, what they understand."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal
from urllib.parse import urlsplit

from ...state.conversation.messages import Wire

WireFormat = Literal["chat", "responses", "messages"]
Cloud = Literal["azure", "bedrock", "vertex"]
TransportName = Literal["http", "sdk"]
"""Whether requests go straight over HTTP, or through the library of the company whose format it is."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    wire: WireFormat
    base_url: str
    key_env: tuple[str, ...] = ()
    """The first one that is set holds the key; empty: no key is needed."""
    url_env: tuple[str, ...] = ()
    """The first one that is set replaces `base_url`."""
    own_hosts: tuple[str, ...] = ()
    """Hosts of the company itself; headers from its SDK's environment go nowhere else."""
    foreign_wire: WireFormat | None = None
    """What any other host is spoken to with, if not `wire`."""
    output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    max_id_chars: int = 256
    rebuilt_call_extra: Mapping[str, Any] | None = None
    """Added to tool calls whose own extras are not replayed."""
    call_message_extra: Mapping[str, Any] | None = None
    """Added to messages with tool calls that lack these fields."""
    formats_output: bool = False
    """Answers have the form of a schema, and the model calls tools all the same."""
    idle_s: float = 120
    """How long the stream may be silent."""
    context_window: int | None = None
    """Of every model, where the server decides and not the model."""
    start_command: str = ""
    """Starts the server, where that is up to the person."""
    cloud: Cloud | None = None
    """Whose client of the SDK it takes to sign requests and to address models."""
    needs_key: bool = True
    """Whether the key has to be in one of `key_env`; clouds have other ways to sign in."""

    def owns(self, url: str) -> bool:
        """Tell whether the address is the company's own, also a regional one."""
        host = urlsplit(url).hostname or ""
        return any(host == own or host.endswith(f".{own}") for own in self.own_hosts)


@dataclass(frozen=True, slots=True)
class ProviderOverride:
    """A provider that the configuration defines or redirects."""

    base_url: str
    api_key_env: str | None = None
    wire: WireFormat | None = None
    """None: as the provider of this name is known to speak, else Chat Completions."""
    takes_known_key: bool = True
    """Whether the key of the provider of this name goes there without `api_key_env`."""
    transport: TransportName | None = None
    """None: as all other providers."""


def key_names(overrides: Mapping[str, ProviderOverride]) -> frozenset[str]:
    """Return the variables that hold a key of a known or configured provider."""
    configured = (one.api_key_env for one in overrides.values() if one.api_key_env)
    return frozenset((*configured, *(name for profile in PROFILES.values() for name in profile.key_env)))


def _openai(name: str, wire: WireFormat, **differs: Any) -> Profile:
    return Profile(
        name=name,
        wire=wire,
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        url_env=("OPENAI_BASE_URL",),
        own_hosts=("api.openai.com",),
        formats_output=True,
        **differs,
    )


def _compatible(name: str, base_url: str, *key_env: str, **differs: Any) -> Profile:
    """Return a provider that speaks Chat Completions and is named in its variables."""
    prefix = name.upper()
    return Profile(
        name=name,
        wire="chat",
        base_url=base_url,
        key_env=(f"{prefix}_API_KEY", *key_env),
        url_env=(f"{prefix}_BASE_URL",),
        **differs,
    )


def _azure(name: str, wire: WireFormat, **differs: Any) -> Profile:
    """Return a provider whose models are deployments of one's own, under names of one's own."""
    return Profile(
        name=name,
        wire=wire,
        base_url="",
        key_env=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        url_env=("AZURE_OPENAI_ENDPOINT",),
        cloud="azure",
        **differs,
    )


# Gemini refuses calls without a signature; for calls it did not make itself it documents this value.
_NO_SIGNATURE = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/openai"

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        _openai("openai", "responses", foreign_wire="chat"),
        _openai("openai-chat", "chat", output_limit_field="max_completion_tokens", max_id_chars=40),
        _openai("openai-responses", "responses"),
        Profile(
            name="anthropic",
            wire="messages",
            base_url="https://api.anthropic.com",
            key_env=("ANTHROPIC_API_KEY",),
            url_env=("ANTHROPIC_BASE_URL",),
            own_hosts=("api.anthropic.com",),
            formats_output=True,
        ),
        Profile(
            name="ollama",
            wire="chat",
            base_url="http://127.0.0.1:11434/v1",
            idle_s=600,
            context_window=32_768,
            start_command="ollama serve",
        ),
        _compatible("deepseek", "https://api.deepseek.com/v1", call_message_extra={"reasoning_content": ""}),
        _compatible("dashscope", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        _compatible("gemini", _GEMINI_URL, "GOOGLE_API_KEY", rebuilt_call_extra=_NO_SIGNATURE),
        _compatible("openrouter", "https://openrouter.ai/api/v1"),
        _azure("azure", "chat", output_limit_field="max_completion_tokens", max_id_chars=40),
        _azure("azure-responses", "responses"),
        Profile(
            name="bedrock",
            wire="messages",
            base_url="",
            key_env=("AWS_BEARER_TOKEN_BEDROCK",),
            url_env=("ANTHROPIC_BEDROCK_BASE_URL",),
            cloud="bedrock",
            needs_key=False,
        ),
        Profile(
            name="vertex",
            wire="messages",
            base_url="",
            url_env=("ANTHROPIC_VERTEX_BASE_URL",),
            cloud="vertex",
            needs_key=False,
        ),
    )
}


_FAMILIES = (
    # A tag behind a colon is how Ollama names what it has pulled.
    (re.compile(r".+:"), "ollama"),
    (re.compile(r"gpt-oss|llama|mistral|mixtral|gemma|phi-?\d"), "ollama"),
    (re.compile(r"gpt|chatgpt|codex|o\d"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "gemini"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"qwen"), "dashscope"),
)
"""How the names of models begin, and the provider that a person means who leaves it out."""


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the `PROVIDER/MODEL` that was probably meant by the name of no known provider; empty: none."""
    provider, slash, model = name.strip().partition("/")
    near = get_close_matches(provider.lower(), known, n=1)
    if near and slash:
        return f"{near[0]}/{model or 'MODEL'}"
    family = _family(model or provider) or _family(provider)
    if family or near:
        return f"{family}/{model or provider}" if family else f"{near[0]}/MODEL"
    return ""


def _family(model: str) -> str:
    return next((provider for pattern, provider in _FAMILIES if pattern.match(model.lower())), "")


@dataclass(frozen=True, slots=True)
class Endpoint:
    profile: Profile
    model: str
    base_url: str
    api_key: str = field(repr=False)
    key_env: str
    """Where the key came from or should come from; empty if none is needed."""
    sends_ambient_headers: bool
    """True if the headers that the SDK reads from its environment may go to this host."""
    has_own_address: bool = True
    """False if the cloud's client knows the address better than `base_url`."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What else of the environment counts: how to reach a cloud, or `AMBIENT_VARIABLES`."""

    @property
    def provider(self) -> str:
        return self.profile.name

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    def wrote(self, wire: Wire) -> bool:
        """Tell whether this very model wrote it."""
        return (wire.provider, wire.model) == (self.provider, self.model)


AMBIENT_VARIABLES = (
    "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS",
)  # fmt: skip
"""What the companies' own libraries make headers of."""
DEFAULT_WINDOW = 128_000
_DEFAULT_OUTPUT_TOKENS = 8_192
_CLAUDE_OUTPUT_TOKENS = 32_000
"""Every Claude since 4 can write this much; more would eat into the window of the smaller ones."""

_NO_PICTURES = re.compile(
    r"gpt-3\.5|gpt-4(-\d{4}|-32k.*)?$|gpt-oss|o1-(mini|preview)|o3-mini|claude-(2|instant)"
    r"|deepseek-(chat|reasoner|coder|r1|v[23])|codellama|starcoder|qwen[\d.]*-?coder"
)
_NO_DOCUMENTS = frozenset({"ollama", "deepseek"})
"""Providers whose servers know no part of a message that is a file."""


def takes(endpoint: Endpoint, kind: Literal["image", "document"]) -> bool | None:
    """Tell whether a model looks at such files; None: its name does not say, so that its server has to."""
    if _NO_PICTURES.match(_bare(endpoint.model)) or (
        kind == "document" and endpoint.provider in _NO_DOCUMENTS
    ):
        return False
    return None


_CLAUDE = re.compile(r"claude-[a-z]+-(\d+)(?:[-.](\d{1,2})(?!\d))?")
_WINDOWS = tuple(
    (re.compile(pattern), window)
    for pattern, window in (
        (r"claude-[a-z]+-(4[-.][6-9]|[5-9])", 1_000_000),
        (r"claude", 200_000),
        (r"gpt-(5\.[4-9]|[6-9])", 1_050_000),
        (r"gpt-5", 400_000),
        (r"gpt-4\.1", 1_000_000),
        (r"gpt-4", 128_000),
        (r"o[1-9]\b", 200_000),
        (r"gemini-", 1_048_576),
        (r"deepseek-v[4-9]", 1_000_000),
    )
)


@dataclass(frozen=True, slots=True)
class Claude:
    """What the Messages API lets this model do."""

    max_output_tokens: int
    thinks_adaptively: bool
    formats_output: bool = False


def context_window(model: str) -> int:
    """Return how many tokens the model takes, as far as its name tells."""
    name = _bare(model)
    return next((window for pattern, window in _WINDOWS if pattern.match(name)), DEFAULT_WINDOW)


def claude(model: str) -> Claude:
    found = _CLAUDE.match(_bare(model))
    if found is None:
        return Claude(_DEFAULT_OUTPUT_TOKENS, thinks_adaptively=False)
    version = (int(found[1]), int(found[2] or 0))
    return Claude(
        _CLAUDE_OUTPUT_TOKENS if version >= (4, 0) else _DEFAULT_OUTPUT_TOKENS,
        thinks_adaptively=version >= (4, 6),
        formats_output=version >= (4, 5),
    )


def reasons(model: str) -> bool:
    """Tell whether this is an OpenAI model that can summarize its reasoning."""
    name = _bare(model)
    return re.match(r"gpt-[5-9]|o[1-9]\b|codex", name) is not None and "-chat" not in name


def _bare(model: str) -> str:
    """Return the name without a vendor in front, as routers and clouds write it."""
    return re.sub(r"^.*\banthropic\.", "", model.rpartition("/")[2].lower())
