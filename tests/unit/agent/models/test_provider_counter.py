"""Providers count the tokens of requests where that is asked for; what they do not count is estimated."""

from pathlib import Path
from typing import Any

import pytest
from support.models.files import png
from support.models.server import ModelServer, fail, say
from support.models.talk import SYSTEM, TOOLS, connect_to_model, environment
from support.models.turns import Raw

from sandbur import Agent, Image, ModelRequest, TokenCounter, connect_model, provider_token_counter
from sandbur.agent.models.fallback import FallbackModel, NoModel, find_counter
from sandbur.state.conversation.messages import (
    Message,
    ToolResult,
    ToolUse,
    assistant_message,
    person_message,
    tool_message,
)
from sandbur.state.conversation.transcript import Transcript
from sandbur.state.errors import UsageError

CALL = Message(
    role="assistant", origin="model", blocks=(ToolUse(call_id="c", tool="t", arguments='{"a":1}'),)
)
RESULT = tool_message(ToolResult(call_id="c", tool="t", outcome="ok", content="done"))
HISTORY = Transcript.of(
    person_message([Image.from_bytes(png()), "look"]),
    CALL,
    RESULT,
    assistant_message("Yes."),
    person_message("?"),
)
REQUEST = ModelRequest(SYSTEM, TOOLS, (HISTORY,))


@pytest.mark.parametrize(
    ("name", "path", "fields"),
    [
        ("anthropic/claude-test", "/v1/messages/count_tokens",
         {"model", "messages", "system", "tools", "cache_control"}),
        ("openai-responses/gpt-test", "/v1/responses/input_tokens",
         {"model", "input", "instructions", "tools"}),
        ("gemini/gemini-4", "/v1/models/gemini-4:countTokens", {"generateContentRequest"}),
    ],
)  # fmt: skip
async def test_each_provider_is_asked_at_its_own_endpoint(name: str, path: str, fields: set[str]) -> None:
    async with ModelServer() as server, connect_to_model(server, name) as model:
        counter = find_counter(model)
        assert counter is not None
        tokens = await counter.count_tokens(REQUEST)
        (asked,) = server.requests
    assert asked.path.replace("/v1/v1", "/v1") == path
    assert asked.body.keys() == fields
    assert tokens == len(asked.raw) // 4


async def test_gemini_is_asked_in_its_own_format_with_the_key_in_a_header_alone() -> None:
    async with ModelServer() as server, connect_to_model(server, "gemini/gemini-4") as model:
        counter = find_counter(model)
        assert counter is not None
        await counter.count_tokens(REQUEST)
        (asked,) = server.requests
    inner: dict[str, Any] = asked.body["generateContentRequest"]
    assert asked.headers["x-goog-api-key"] == "sk-test-key"
    assert "authorization" not in asked.headers
    assert [content["role"] for content in inner["contents"]] == ["user", "model", "user", "model", "user"]
    parts = [part for content in inner["contents"] for part in content["parts"]]
    assert [next(iter(part)) for part in parts] == [
        "inlineData", "text", "functionCall", "functionResponse", "text", "text"
    ]  # fmt: skip
    assert inner["systemInstruction"] == {"parts": [{"text": SYSTEM}]}
    assert inner["tools"][0]["functionDeclarations"][0]["name"] == TOOLS[0].name


@pytest.mark.parametrize(
    "answer",
    [fail(404, "no such path"), fail(401, "bad key"), fail(529, "busy"), Raw(b"no JSON"), Raw(b"{}")],
)
async def test_a_failure_leaves_it_to_the_estimate_and_three_end_the_asking(answer: Raw) -> None:
    async with ModelServer() as server, connect_to_model(server, "anthropic/claude-test") as model:
        server.counts = lambda request: answer
        counter = find_counter(model)
        assert counter is not None
        assert [await counter.count_tokens(REQUEST) for _ in range(5)] == [None] * 5
        assert len(server.requests) == 3


@pytest.mark.parametrize("name", ["openai-chat/gpt-test", "deepseek/x", "ollama/x", "openrouter/x/y"])
async def test_a_provider_without_an_endpoint_has_no_counter(name: str) -> None:
    async with ModelServer() as server, connect_to_model(server, name) as model:
        assert find_counter(model) is None
        assert find_counter(FallbackModel([model, NoModel("x/y")])) is None


def settings(folder: Path, server: ModelServer, **more: str) -> dict[str, str]:
    home = {"HOME": str(folder), "SANDBUR_HOME": str(folder / "data")}
    return {**environment(server), "ANTHROPIC_BASE_URL": server.url, **home, **more}


async def paths_of_a_run(server: ModelServer, folder: Path, **more: Any) -> list[str]:
    async with Agent("anthropic/claude-test", cwd=folder, store=f"sqlite:///{folder}/s.db", **more) as agent:
        assert (await agent.run("hello")).output == "hi"
    return [request.path for request in server.requests]


async def test_an_agent_asks_its_provider_only_where_the_setting_says_so(tmp_path: Path) -> None:
    counted = ["/v1/messages/count_tokens", "/v1/messages"]
    async with ModelServer([say("hi")]) as server:
        assert await paths_of_a_run(server, tmp_path, env=settings(tmp_path, server)) == ["/v1/messages"]
    async with ModelServer([say("hi")]) as server:
        env = settings(tmp_path, server, SANDBUR_TOKEN_COUNTING="provider")
        assert await paths_of_a_run(server, tmp_path, env=env) == counted
    async with ModelServer([say("hi")]) as server:
        env = settings(tmp_path, server)
        counter = provider_token_counter("anthropic/claude-test", env=env)
        assert isinstance(counter, TokenCounter)
        assert await paths_of_a_run(server, tmp_path, env=env, token_counter=counter) == counted
        await counter.aclose()


async def test_a_formatter_of_an_agent_formats_its_requests(tmp_path: Path) -> None:
    class Loud:
        def format(self, message: Any, wire: str, render: Any) -> Any:
            return [
                {**entry, "content": [{"type": "text", "text": message.text.upper()}]}
                for entry in render(message)
            ]

    async with ModelServer([say("hi")]) as server:
        await paths_of_a_run(server, tmp_path, env=settings(tmp_path, server), formatter=Loud())
        assert b"HELLO" in server.requests[0].raw
        model = connect_model("anthropic/claude-test", env=settings(tmp_path, server), formatter=Loud())
        assert model.name == "anthropic/claude-test"
        await model.aclose()


def test_a_counter_of_a_provider_that_has_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no endpoint that counts tokens"):
        provider_token_counter("deepseek/x", env={"DEEPSEEK_API_KEY": "sk", "HOME": str(tmp_path)})
