"""An own model class, for a server whose format Sandbur does not know.

The example is Ollama's native format: JSON lines over HTTP. Start Ollama and run

    python examples/own_model.py qwen3:8b "Which of my files is the largest?"
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from sandbur import (
    Agent,
    ContextFull,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Overloaded,
    Reply,
    Text,
    TextDelta,
    ToolUse,
    Unreachable,
    Usage,
    workspace_tools,
)


class OllamaModel:
    """Implements `sandbur.Model`; the type checker checks this where the object is passed to `Agent`."""

    def __init__(self, model: str, url: str = "http://127.0.0.1:11434", context_window: int = 32_768) -> None:
        self.name = f"own/{model}"
        self.context_window = context_window
        self._model = model
        self._client = httpx2.AsyncClient(base_url=url, timeout=httpx2.Timeout(120, connect=5))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Yield the pieces of text, then one complete reply. Raises Sandbur's errors if a request fails."""
        text, calls, end = "", list[dict[str, Any]](), dict[str, Any]()
        async for line in self._lines(self._body(request)):
            said = line.get("message", {})
            if piece := said.get("content"):
                text += piece
                yield TextDelta(piece)
            calls += said.get("tool_calls", [])
            end = line if line.get("done") else end
        if not end:
            # A stream that was cut off is an error, because no tool may run with half of its arguments.
            raise Overloaded(f"The answer of {self.name} was cut off.")
        yield self._reply(request, text, calls, end)

    async def _lines(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        try:
            async with self._client.stream("POST", "/api/chat", json=body) as response:
                if response.status_code != 200:
                    raise self._refusal(response.status_code, (await response.aread()).decode())
                async for line in response.aiter_lines():
                    if line.strip():
                        yield json.loads(line)
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self._client.base_url} does not answer ({error}).", "Start it.") from error

    def _refusal(self, status: int, detail: str) -> ModelError:
        if status in (429, 503):
            return Overloaded(f"{self.name} is busy ({status}).")
        if "context length" in detail:
            return ContextFull(f"The request does not fit into the window of {self.name}.")
        return ModelError(f"{self.name} refused the request ({status}): {detail[:200]}")

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": tool.name, "description": tool.description,
                                              "parameters": dict(tool.parameters)}}
            for tool in request.tools
        ]  # fmt: skip
        messages = [{"role": "system", "content": request.system}]
        messages += [sent for message in request.messages for sent in as_ollama(message)]
        return {"model": self._model, "messages": messages, "tools": tools, "stream": True}

    def _reply(
        self, request: ModelRequest, text: str, calls: list[dict[str, Any]], end: dict[str, Any]
    ) -> Reply:
        # Ollama gives calls no ids, so the position in the conversation makes a unique id.
        place = sum(len(history) for history in request.histories)
        uses = [
            ToolUse(
                call_id=f"call_{place}_{number}",
                tool=call["function"]["name"],
                arguments=json.dumps(call["function"].get("arguments", {})),
            )
            for number, call in enumerate(calls)
        ]
        blocks = (*((Text(text=text),) if text else ()), *uses)
        message = Message(role="assistant", origin="model", blocks=blocks)
        usage = Usage(
            llm_calls=1, input_tokens=end.get("prompt_eval_count"), output_tokens=end.get("eval_count")
        )
        if end.get("done_reason") == "length":
            return Reply(message, "length", usage)
        return Reply(message, "tool_calls" if uses else "stop", usage)


def as_ollama(message: Message) -> list[dict[str, Any]]:
    """Return a message in Ollama's format: one message for each result, otherwise one message."""
    if message.tool_results:
        return [
            {"role": "tool", "tool_name": result.tool, "content": result.content}
            for result in message.tool_results
        ]
    said: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_uses:
        said["tool_calls"] = [
            {"function": {"name": use.tool, "arguments": json.loads(use.arguments)}}
            for use in message.tool_uses
        ]
    return [said]


async def main(model: str, question: str, url: str = "http://127.0.0.1:11434") -> None:
    own = OllamaModel(model, url)
    agent = Agent(own, instructions="You answer questions about files.", tools=workspace_tools())
    try:
        result = await agent.run(question)
    finally:
        # The program created the model, so the program closes it.
        await own.aclose()
    print(result.raise_for_status().output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
