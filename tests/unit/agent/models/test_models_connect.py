"""From a model's name and the environment to where requests go and with which key."""

import subprocess
import sys
from contextlib import suppress

import pytest
from support.models.server import ModelServer, say
from support.models.talk import QUICK, connect_to_model, environment, talk

from sandbur.agent.models.connect import connect, prewarm
from sandbur.agent.models.providers import PROFILES, ProviderOverride
from sandbur.state.errors import ConfigError, CredentialsError, SandburError, UsageError


def test_a_name_is_split_at_its_first_slash():
    model = connect("openrouter/vendor/name:free", env={"OPENROUTER_API_KEY": "k"})
    assert model.name == "openrouter/vendor/name:free"


@pytest.mark.parametrize("name", ["nonsense/model", "gpt-4o", "nonsense", "OPENAI/x"])
def test_an_unknown_provider_lists_the_known_ones(name: str):
    with pytest.raises(UsageError, match="There is no provider") as caught:
        connect(name, env={}, providers={"mine": ProviderOverride("http://h/v1")})
    assert all(known in caught.value.hint for known in (*PROFILES, "mine", "demo"))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-4o", "openai/gpt-4o"),
        ("GPT-6.1-mini", "openai/GPT-6.1-mini"),
        ("o4-mini", "openai/o4-mini"),
        ("codex-mini", "openai/codex-mini"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("gemini-4-argon", "gemini/gemini-4-argon"),
        ("deepseek-v4-pro", "deepseek/deepseek-v4-pro"),
        ("qwen3.8-max", "dashscope/qwen3.8-max"),
        ("qwen3:8b", "ollama/qwen3:8b"),
        ("gpt-oss:20b", "ollama/gpt-oss:20b"),
        ("llama3.3", "ollama/llama3.3"),
        ("opnai/gpt-4o", "openai/gpt-4o"),
        ("OPENAI/x", "openai/x"),
        ("claude/opus", "anthropic/opus"),
        ("google/gemini-4-argon", "gemini/gemini-4-argon"),
        ("deepsek", "deepseek/MODEL"),
        ("lap/any", "lab/any"),
    ],
)
def test_a_name_without_its_provider_is_told_the_one_that_is_meant(name: str, meant: str):
    with pytest.raises(UsageError) as caught:
        connect(name, env={}, providers={"lab": ProviderOverride("http://h/v1")})
    assert caught.value.hint.startswith(f"Did you mean -m {meant}?")
    # What is suggested is a name that is understood.
    with suppress(CredentialsError):
        connect(meant, env={}, providers={"lab": ProviderOverride("http://h/v1")})


@pytest.mark.parametrize("name", ["x", "my-model", "nonsense/model"])
def test_nothing_is_suggested_for_what_resembles_nothing(name: str):
    with pytest.raises(UsageError) as caught:
        connect(name, env={})
    assert "Did you mean" not in caught.value.hint


@pytest.mark.parametrize("name", ["", " ", "/", "/x", " / x"])
def test_a_name_without_a_provider_is_a_usage_error(name: str):
    with pytest.raises(UsageError, match="No model is named") as caught:
        connect(name, env={})
    assert "-m PROVIDER/MODEL" in caught.value.hint


def test_the_demo_is_one_model():
    with pytest.raises(UsageError) as caught:
        connect("demo/large", env={})
    assert str(caught.value) == "The demo is a single model, without a name behind a slash. Use -m demo."


@pytest.mark.parametrize("name", ["openai", "openai/", "ollama/ "])
def test_a_missing_model_is_a_usage_error(name: str):
    with pytest.raises(UsageError, match="names no model"):
        connect(name, env={"OPENAI_API_KEY": "k"})


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("dashscope", "DASHSCOPE_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ],
)
@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_missing_key_names_its_variable(provider: str, variable: str, value: str | None):
    with pytest.raises(CredentialsError, match=variable):
        connect(f"{provider}/m", env={} if value is None else {variable: value})


def test_a_key_with_strange_characters_is_refused_and_not_shown():
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY") as caught:
        connect("openai/m", env={"OPENAI_API_KEY": "sk-one\nsk-two"})
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "http://", "http://a b/v1", "http://[::1"])
def test_an_address_that_is_none_names_its_variable(url: str):
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        connect("openai/m", env={"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url})


async def test_openai_speaks_chat_completions_to_any_other_base_url():
    async with ModelServer([say("a")]) as server, connect_to_model(server, "openai/gpt-6.1-sol") as model:
        await talk(model)
        assert server.requests[0].path == "/v1/chat/completions"


def test_openai_speaks_responses_to_openai_itself():
    env = {"OPENAI_API_KEY": "k"}
    for url in (
        "",
        "https://api.openai.com/v1",
        "https://api.openai.com/v1/",
        "https://eu.api.openai.com/v1",
    ):
        model = connect("openai/gpt-6.1-sol", env={**env, "OPENAI_BASE_URL": url})
        assert model.wire == "responses"
    assert connect("openai-chat/gpt-6.1-sol", env=env).wire == "chat"
    for url in ("https://api.openai.com.evil.org/v1", "https://notapi.openai.com.org/v1"):
        assert connect("openai/gpt-6.1-sol", env={**env, "OPENAI_BASE_URL": url}).wire == "chat"


@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/"])
async def test_the_anthropic_base_url_may_end_with_its_version_or_not(suffix: str):
    async with ModelServer([say("a")]) as server:
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url + suffix}
        async with connect_to_model(server, "messages", env=env) as model:
            await talk(model)
        assert server.requests[0].path == "/v1/messages"


async def test_the_token_of_a_gateway_is_a_key_of_anthropic():
    async with ModelServer([say("a")]) as server:
        env = {"ANTHROPIC_AUTH_TOKEN": "token", "ANTHROPIC_BASE_URL": server.url}
        async with connect_to_model(server, "messages", env=env) as model:
            await talk(model)
        assert server.requests[0].headers["authorization"] == "Bearer token"


async def test_a_server_of_ones_own_needs_no_key():
    async with ModelServer([say("a"), say("b")]) as server:
        async with connect_to_model(
            server, "openai/local", env={"OPENAI_BASE_URL": server.base_url}
        ) as model:
            await talk(model)
        mine = {"mine": ProviderOverride(server.base_url)}
        async with connect_to_model(server, "mine/some/model", env={}, providers=mine) as model:
            assert model.name == "mine/some/model"
            await talk(model)
        assert server.requests[1].body["model"] == "some/model"


async def test_ollama_is_found_by_its_own_variable_and_needs_no_key():
    async with ModelServer([say("a")]) as server:
        env = {"OLLAMA_HOST": f"127.0.0.1:{server.port}"}
        async with connect_to_model(server, "ollama/qwen3:8b", env=env) as model:
            await talk(model)
            assert model.context_window == 32_768
        assert server.requests[0].path == "/v1/chat/completions"
        assert server.requests[0].body["model"] == "qwen3:8b"


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
async def test_a_configured_provider_has_its_own_wire_and_key(wire: str):
    async with ModelServer([say("a")]) as server:
        mine = {"mine": ProviderOverride(server.base_url, "MY_KEY", wire)}  # pyright: ignore[reportArgumentType]
        with pytest.raises(CredentialsError, match="MY_KEY"):
            connect("mine/m", env={"OPENAI_API_KEY": "other"}, providers=mine)
        async with connect_to_model(server, "mine/m", env={"MY_KEY": "mine-key"}, providers=mine) as model:
            await talk(model)
        request = server.requests[0]
    assert request.wire == wire
    assert request.headers["authorization"] == "Bearer mine-key"


async def test_headers_of_the_vendor_do_not_leak_to_other_hosts(monkeypatch: pytest.MonkeyPatch):
    said = {
        "OPENAI_ORG_ID": "org-secret",
        "OPENAI_PROJECT_ID": "proj-secret",
        "OPENAI_CUSTOM_HEADERS": "X-Secret: yes\nAuthorization: Bearer other",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Secret: yes",
    }
    for variable, value in {**said, "OPENAI_API_KEY": "ambient"}.items():
        monkeypatch.setenv(variable, value)
    for name in ("openai/m", "openai-responses/m", "deepseek/m", "anthropic/m"):
        async with ModelServer([say("a")]) as server:
            async with connect_to_model(server, name, env={**environment(server), **said}) as model:
                await talk(model)
            headers = server.requests[0].headers
        assert "secret" not in str(headers).lower()
        assert headers["authorization"] == "Bearer sk-test-key"


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("anthropic/claude-sonnet-5-5", 1_000_000),
        ("anthropic/claude-sonnet-4-6", 1_000_000),
        ("anthropic/claude-sonnet-4-20250514", 200_000),
        ("anthropic/claude-haiku-4-5", 200_000),
        ("openrouter/anthropic/claude-sonnet-5.5", 1_000_000),
        ("openai/gpt-6.1-sol", 1_050_000),
        ("openai/gpt-5", 400_000),
        ("openai/gpt-4o", 128_000),
        ("openai/o3", 200_000),
        ("gemini/gemini-4-argon", 1_048_576),
        ("deepseek/deepseek-v4-pro", 1_000_000),
        ("dashscope/unheard-of", 128_000),
        ("ollama/gpt-5-lookalike", 32_768),
    ],
)
def test_the_context_window_is_known_by_family(name: str, window: int):
    env = {"OPENAI_API_KEY": "k"} | {f"{p.upper()}_API_KEY": "k" for p in PROFILES}
    assert connect(name, env=env).context_window == window
    assert connect(name, env=env, context_window=777).context_window == 777


async def test_a_known_provider_at_another_address_keeps_its_properties():
    async with ModelServer([say("a"), say("b")]) as server:
        override = ProviderOverride(server.base_url)
        for name, path in (("anthropic/m", "/v1/messages"), ("openai/m", "/v1/chat/completions")):
            async with connect_to_model(server, name, providers={name.partition("/")[0]: override}) as model:
                await talk(model)
            assert server.requests[-1].path == path


def test_connecting_imports_no_sdk():
    code = (
        "import sys\nfrom sandbur.agent.models.connect import connect\n"
        "connect('openai/m', env={'OPENAI_API_KEY': 'k'})\n"
        "connect('anthropic/m', env={'ANTHROPIC_API_KEY': 'k'})\n"
        "print(sorted({'openai', 'anthropic', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        ("'openai/m', {}", "['anyio._backends._asyncio', 'httpcore2']"),
        ("'anthropic/m', {}, {}, 'http'", "['anyio._backends._asyncio', 'httpcore2']"),
        ("'openai/m', {}, {}, 'sdk'", "['httpcore2', 'httpx2', 'openai']"),
    ],
)
def test_prewarming_imports_what_asks_the_model(arguments: str, imported: str):
    names = {"openai", "anthropic", "httpx2", "httpcore2", "anyio._backends._asyncio"}
    code = (
        "import sys\nfrom sandbur.agent.models.connect import prewarm\n"
        f"prewarm({arguments})\nprint(sorted({names} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == imported
    with pytest.raises(SandburError):
        prewarm("nonsense/m", {})


async def test_a_key_is_not_in_the_representation_of_anything():
    async with ModelServer() as server, connect_to_model(server, "chat", retry=QUICK) as model:
        assert "sk-test-key" not in repr(vars(model))
        assert environment(server)["OPENAI_API_KEY"] == "sk-test-key"
