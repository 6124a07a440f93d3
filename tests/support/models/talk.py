"""Lets tests talk to a model of the local model server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support.models.server import ModelServer

from sandbur.actions.ports import Model, ModelEvent, ModelRequest, Reply, ToolSpec
from sandbur.actions.ports.events import Notice, TextDelta, ThinkingDelta
from sandbur.agent.models.connect import connect
from sandbur.agent.models.model import RetryPolicy, TryLimits, WireModel
from sandbur.state.conversation.messages import Message, ToolResult, person_message, tool_message
from sandbur.state.conversation.transcript import Transcript

SHELL = ToolSpec(
    "run_shell_command",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
TOOLS = (SHELL,)
SYSTEM = "You are a test."
QUICK = RetryPolicy(max_tries=3, max_total_s=2, first_delay_s=0.001)
NAMES = {
    "chat": "openai-chat/gpt-test",
    "responses": "openai-responses/gpt-test",
    "messages": "anthropic/claude-test",
}
WIRES = list(NAMES)
ROADS = [*WIRES, *(f"{wire} sdk" for wire in WIRES)]
"""Every wire format with each of the two transports."""


def environment(server: ModelServer, key: str = "sk-test-key") -> dict[str, str]:
    names = ("OPENAI", "ANTHROPIC", "DEEPSEEK", "GEMINI", "DASHSCOPE", "OPENROUTER")
    return {f"{n}_BASE_URL": server.base_url for n in names} | {f"{n}_API_KEY": key for n in names}


@asynccontextmanager
async def connect_to_model(server: ModelServer, name: str, **more: Any) -> AsyncIterator[WireModel]:
    """Connect to a model by wire format or full model name; a suffix ` sdk` selects the SDK transport."""
    name, _, transport = name.partition(" ")
    options = {"env": environment(server), "retry": QUICK, "limits": TryLimits(idle_s=60), **more}
    model = connect(NAMES.get(name, name), **{"transport": transport or "http", **options})
    try:
        yield model
    finally:
        await model.aclose()


@dataclass
class Talk:
    """The events of one model call."""

    events: list[ModelEvent]

    @property
    def reply(self) -> Reply:
        assert isinstance(self.events[-1], Reply)
        assert sum(isinstance(event, Reply) for event in self.events) == 1
        return self.events[-1]

    @property
    def answer(self) -> str:
        return "".join(event.delta for event in self.events if isinstance(event, TextDelta))

    @property
    def thought(self) -> str:
        return "".join(event.delta for event in self.events if isinstance(event, ThinkingDelta))

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]


def ask_model(
    *messages: Message, forced: str | None = None, tools: tuple[ToolSpec, ...] = TOOLS
) -> ModelRequest:
    return ModelRequest(SYSTEM, tools, (Transcript.of(*messages),), forced)


async def talk(model: Model, request: ModelRequest | None = None) -> Talk:
    return Talk([event async for event in model.stream(request or ask_model(person_message("hello")))])


def results(reply: Reply, content: str = "ok") -> list[Message]:
    """Answer every call of a reply."""
    return [
        tool_message(ToolResult(call_id=use.call_id, tool=use.tool, outcome="ok", content=content))
        for use in reply.message.tool_uses
    ]


async def converse(model: Model, turns: int, history: Transcript | None = None) -> Transcript:
    """Answer each call of the model with a result, and each answer with another question."""
    history = history or Transcript.of(person_message("hello"))
    for _ in range(turns):
        reply = (await talk(model, ModelRequest(SYSTEM, TOOLS, (history,)))).reply
        history = history.append(reply.message, *(results(reply) or [person_message("go on")]))
    return history
