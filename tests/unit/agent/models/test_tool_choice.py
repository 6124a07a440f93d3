"""The tool choice of a run reaches the model in the words of each wire."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.models.server import Answer, ModelServer, Request, call, say

from sandbur import Agent, tool

MODELS = ("openai-chat/m", "openai-responses/m", "anthropic/m")
SENT: dict[tuple[str, str], Any] = {
    ("openai-chat/m", "required"): "required",
    ("openai-chat/m", "none"): "none",
    ("openai-chat/m", "total"): {"type": "function", "function": {"name": "total"}},
    ("openai-responses/m", "required"): "required",
    ("openai-responses/m", "none"): "none",
    ("openai-responses/m", "total"): {"type": "function", "name": "total"},
    ("anthropic/m", "required"): {"type": "any"},
    ("anthropic/m", "none"): {"type": "none"},
    ("anthropic/m", "total"): {"type": "tool", "name": "total"},
}


@dataclass
class Sum:
    total: int


@tool(effect="read")
def total() -> str:
    """Return the total."""
    return "5"


def reply(request: Request) -> Answer:
    choice = request.body.get("tool_choice", "none")
    is_forced = choice not in ("none", "auto", {"type": "none"}, {"type": "auto"})
    return call("total") if is_forced else say("5")


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str, ModelServer], Agent]:
    def make_agent(model: str, server: ModelServer) -> Agent:
        env = {
            "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url,
        }  # fmt: skip
        return Agent(model, tools=[total], store=f"sqlite:///{tmp_path}/s.db", env=env)

    return make_agent


@pytest.mark.parametrize(("model", "choice"), SENT)
async def test_the_choice_is_sent_as_the_wire_has_it(
    make: Callable[[str, ModelServer], Agent], model: str, choice: str
) -> None:
    with ModelServer(reply) as server:
        result = await make(model, server).run("Add up.", tool_choice=choice)
    assert result.output == "5"
    first, *rest = [request.body for request in server.requests]
    assert first["tool_choice"] == SENT[model, choice]
    # A forced call is for the first request alone: the model answers when it has the result.
    assert len(rest) == (0 if choice == "none" else 1)
    assert all(body.get("tool_choice") in (None, "auto", {"type": "auto"}) for body in rest)
    assert not server.rejections


@pytest.mark.parametrize("model", MODELS)
async def test_a_tool_is_forced_beside_the_format_of_the_answer(
    make: Callable[[str, ModelServer], Agent], model: str
) -> None:
    def answer(request: Request) -> Answer:
        return reply(request) if request.body.get("tool_choice") else say('{"total": 5}')

    with ModelServer(answer) as server:
        await make(model, server).run("Add up.", tool_choice="total", output=Sum)
    assert server.requests[0].body["tool_choice"] == SENT[model, "total"]


@pytest.mark.parametrize("model", MODELS)
async def test_without_a_choice_nothing_is_sent(
    make: Callable[[str, ModelServer], Agent], model: str
) -> None:
    with ModelServer(reply) as server:
        await make(model, server).run("Hello.")
    assert server.requests[0].body.get("tool_choice") in (None, "auto", {"type": "auto"})
