"""The known providers: their addresses, keys and abilities."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import Any, Literal
from urllib.parse import urlsplit

from ...actions.ports.formatter import WireFormat
from ...state.conversation.messages import Wire
from ...state.lazy_dataclass import dataclass

FileKind = Literal["image", "document", "audio", "video"]
Cloud = Literal["azure", "bedrock", "vertex"]
TransportName = Literal["http", "sdk"]
"""How requests are sent: directly over HTTP (`http`), or through the provider's own library (`sdk`)."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    wire: WireFormat
    base_url: str
    key_env: tuple[str, ...] = ()
    """The names of the variables for the key; the first one that is set counts. Empty: no key is needed."""
    url_env: tuple[str, ...] = ()
    """The names of the variables that replace `base_url`; the first one that is set counts."""
    own_hosts: tuple[str, ...] = ()
    """The hosts of the provider's company. Only these hosts get the headers that its library reads from
    variables."""
    foreign_wire: WireFormat | None = None
    """The wire format for hosts of other companies. None: the same as `wire`."""
    output_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    max_id_chars: int = 256
    rebuilt_call_extra: Mapping[str, Any] | None = None
    """Extra fields for a tool call that has no fields from an earlier reply."""
    call_message_extra: Mapping[str, Any] | None = None
    """Fields that are added to messages with tool calls if they lack them."""
    formats_output: bool = False
    """Whether the model can call tools while a schema restricts its answers."""
    has_strict_tools: bool = False
    """Whether the provider can enforce the schemas of tools."""
    idle_s: float = 120
    """The longest silence of the stream, in seconds."""
    context_window: int | None = None
    """The context window of all models, if the server decides it."""
    start_command: str = ""
    """The command with which the user starts the server."""
    takes_no: frozenset[FileKind] = frozenset()
    """The kinds of files that no model of the provider takes."""
    audio_models: re.Pattern[str] | None = None
    """The pattern of the names of models that take audio. None: the name does not show that."""
    audio_formats: tuple[str, ...] = ()
    """The only audio formats that the provider takes. Empty: all formats."""
    audio_is_address: bool = False
    """Whether audio is sent as a `data:` address instead of bare base64."""
    address_kinds: frozenset[FileKind] = frozenset({"image", "video"})
    """The kinds of files that the provider can read from an address."""
    takes_names: bool = False
    """Whether messages may have the field `name`. If not, the name is written before their text."""
    key_header: str = ""
    """The header that contains only the key. Empty: `Authorization`."""
    cloud: Cloud | None = None
    """The cloud of the models. The cloud's own client signs the requests and chooses their address."""
    needs_key: bool = True
    """Whether the key must be in one of the variables `key_env`. Clouds have other ways to sign in."""

    def owns(self, url: str) -> bool:
        """Return whether the address belongs to the company, including regional hosts."""
        host = urlsplit(url).hostname or ""
        return any(host == own or host.endswith(f".{own}") for own in self.own_hosts)


@dataclass(frozen=True, slots=True)
class ProviderOverride:
    """A provider that the configuration defines or redirects to another address."""

    base_url: str
    api_key_env: str | None = None
    wire: WireFormat | None = None
    """The wire format. None: the format of the known provider of this name, or else Chat Completions."""
    takes_known_key: bool = True
    """Whether the known provider's key is sent to this address if `api_key_env` is not set."""
    transport: TransportName | None = None
    """How requests are sent. None: the same way as for all providers."""


def key_names(overrides: Mapping[str, ProviderOverride]) -> frozenset[str]:
    """Return the names of the variables that hold keys of known or configured providers."""
    configured = (one.api_key_env for one in overrides.values() if one.api_key_env)
    return frozenset((*configured, *(name for profile in PROFILES.values() for name in profile.key_env)))


_NONE: frozenset[FileKind] = frozenset()
_NO_SOUND_OR_PAPER: frozenset[FileKind] = frozenset({"audio", "video", "document"})
_PICTURES_AND_PAPERS: frozenset[FileKind] = frozenset({"image", "document"})
_OPENAI_AUDIO = re.compile(r"\baudio\b")
_ADDRESSES_OF_OPENAI: Mapping[WireFormat, frozenset[FileKind]] = {
    "chat": frozenset({"image"}),
    "responses": _PICTURES_AND_PAPERS,
}


def _openai(name: str, wire: WireFormat, **differs: Any) -> Profile:
    return Profile(
        name=name,
        wire=wire,
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        url_env=("OPENAI_BASE_URL",),
        own_hosts=("api.openai.com",),
        formats_output=True,
        has_strict_tools=True,
        takes_no=frozenset({"video"}),
        audio_models=_OPENAI_AUDIO,
        audio_formats=("wav", "mp3"),
        takes_names=wire == "chat",
        address_kinds=_ADDRESSES_OF_OPENAI[wire],
        **differs,
    )


def _compatible(name: str, base_url: str, *key_env: str, **differs: Any) -> Profile:
    """Return a provider that speaks Chat Completions and whose variables begin with its name."""
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
    """Return a provider whose model names are the user's deployments."""
    return Profile(
        name=name,
        wire=wire,
        base_url="",
        key_env=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        url_env=("AZURE_OPENAI_ENDPOINT",),
        takes_no=frozenset({"video"}),
        takes_names=wire == "chat",
        address_kinds=frozenset({"image"}),
        cloud="azure",
        **differs,
    )


# Gemini refuses a tool call without a signature. It documents this value for calls of other models.
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
            key_env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            url_env=("ANTHROPIC_BASE_URL",),
            own_hosts=("api.anthropic.com",),
            formats_output=True,
            has_strict_tools=True,
            address_kinds=_PICTURES_AND_PAPERS,
        ),
        Profile(
            name="ollama",
            wire="chat",
            base_url="http://127.0.0.1:11434/v1",
            idle_s=600,
            context_window=32_768,
            start_command="ollama serve",
            takes_no=_NO_SOUND_OR_PAPER,
            address_kinds=_NONE,
        ),
        _compatible(
            "deepseek",
            "https://api.deepseek.com/v1",
            call_message_extra={"reasoning_content": ""},
            takes_no=_NO_SOUND_OR_PAPER,
            address_kinds=_NONE,
            takes_names=True,
        ),
        _compatible(
            "dashscope",
            "https://dashscope.aliyuncs.com/compatible-mode/v1",
            audio_is_address=True,
            address_kinds=frozenset({"image", "audio", "video"}),
        ),
        _compatible(
            "gemini",
            _GEMINI_URL,
            "GOOGLE_API_KEY",
            rebuilt_call_extra=_NO_SIGNATURE,
            address_kinds=_NONE,
        ),
        _compatible(
            "openrouter",
            "https://openrouter.ai/api/v1",
            address_kinds=frozenset({"image", "document", "video"}),
        ),
        _azure("azure", "chat", output_limit_field="max_completion_tokens", max_id_chars=40),
        _azure("azure-responses", "responses"),
        Profile(
            name="bedrock",
            wire="messages",
            base_url="",
            key_env=("AWS_BEARER_TOKEN_BEDROCK",),
            url_env=("ANTHROPIC_BEDROCK_BASE_URL",),
            cloud="bedrock",
            address_kinds=_NONE,
            needs_key=False,
        ),
        Profile(
            name="vertex",
            wire="messages",
            base_url="",
            url_env=("ANTHROPIC_VERTEX_BASE_URL",),
            cloud="vertex",
            address_kinds=_NONE,
            needs_key=False,
        ),
    )
}


_FAMILIES = (
    # Ollama adds a tag after a colon to the names of models.
    (re.compile(r".+:"), "ollama"),
    (re.compile(r"gpt-oss|llama|mistral|mixtral|gemma|phi-?\d"), "ollama"),
    (re.compile(r"gpt|chatgpt|codex|o\d"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "gemini"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"qwen"), "dashscope"),
)
"""Prefix of model names -> the provider to suggest if it is missing."""


def suggest(name: str, known: Sequence[str]) -> str:
    """Return `PROVIDER/MODEL` as probably intended, for an unknown provider; empty if nothing is similar."""
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
    """The name of the variable for the key, which may be unset. Empty: no key is needed."""
    sends_ambient_headers: bool
    """Whether this host may get the headers that the provider's library reads from variables."""
    has_own_address: bool = True
    """False if the cloud's client chooses the address; `base_url` is then unused."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The other variables that matter: those to reach a cloud, or `AMBIENT_VARIABLES`."""

    @property
    def provider(self) -> str:
        return self.profile.name

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def display_url(self) -> str:
        """The base URL for messages: without a user name, a password and a query, which may hold a secret."""
        return _USER.sub("", self.base_url.partition("?")[0])

    @property
    def is_foreign(self) -> bool:
        """Return whether the server at this address belongs to another company than the wire format."""
        return bool(self.profile.own_hosts) and not self.profile.owns(self.base_url)

    def wrote(self, wire: Wire) -> bool:
        """Return whether this same model wrote the message."""
        return (wire.provider, wire.model) == (self.provider, self.model)


_USER = re.compile(r"(?<=://)[^/]*@")
AMBIENT_VARIABLES = (
    "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS",
)  # fmt: skip
"""The variables from which the libraries of providers make headers."""
DEFAULT_WINDOW = 128_000
_DEFAULT_OUTPUT_TOKENS = 8_192
_CLAUDE_OUTPUT_TOKENS = 32_000
"""The output limit in tokens. Every Claude since version 4 can write this much; a higher limit would take too
much of a small context window."""

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
    """The features of the Messages API that one Claude model supports."""

    max_output_tokens: int
    thinks_adaptively: bool
    formats_output: bool = False


def context_window(model: str) -> int:
    """Return the context window in tokens; `DEFAULT_WINDOW` if the name is unknown."""
    name = bare_name(model)
    return next((window for pattern, window in _WINDOWS if pattern.match(name)), DEFAULT_WINDOW)


def claude(model: str) -> Claude:
    found = _CLAUDE.match(bare_name(model))
    if found is None:
        return Claude(_DEFAULT_OUTPUT_TOKENS, thinks_adaptively=False)
    version = (int(found[1]), int(found[2] or 0))
    return Claude(
        _CLAUDE_OUTPUT_TOKENS if version >= (4, 0) else _DEFAULT_OUTPUT_TOKENS,
        thinks_adaptively=version >= (4, 6),
        formats_output=version >= (4, 5),
    )


def summarizes_reasoning(model: str) -> bool:
    """Return whether this is an OpenAI model that can summarize its reasoning."""
    name = bare_name(model)
    return re.match(r"gpt-[5-9]|o[1-9]\b|codex", name) is not None and "-chat" not in name


def bare_name(model: str) -> str:
    """Return the name without the vendor prefix of routers and clouds."""
    return re.sub(r"^.*\banthropic\.", "", model.rpartition("/")[2].lower())
