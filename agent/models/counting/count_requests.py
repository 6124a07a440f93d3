"""Builds the requests that ask a provider for the token count of another request."""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ....actions.ports import ModelRequest, ToolSpec
from ....state.conversation.content import Attachment
from ....state.conversation.messages import Block, Message, Text, ToolResult, ToolUse, parse_json_object
from ....state.lazy_dataclass import dataclass
from ..requests import encode, without_surrogates


@dataclass(frozen=True, slots=True)
class CountRequest:
    """A request for a token count."""

    path: str
    content: bytes
    answer_field: str
    """The field of the answer that contains the count."""


_ANTHROPIC_FIELDS = (
    "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control",
)  # fmt: skip
_RESPONSES_FIELDS = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text")


def make_anthropic_count(body: bytes) -> CountRequest:
    """Return the request for `count_tokens` of Anthropic Messages; `body` is the request to be counted."""
    content = _select_fields(body, _ANTHROPIC_FIELDS)
    return CountRequest("/v1/messages/count_tokens", content, "input_tokens")


def make_responses_count(body: bytes) -> CountRequest:
    """Return the request for `input_tokens` of OpenAI Responses; `body` is the request to be counted."""
    return CountRequest("/responses/input_tokens", _select_fields(body, _RESPONSES_FIELDS), "input_tokens")


def make_gemini_count(request: ModelRequest, model: str) -> CountRequest:
    """Return the request for `countTokens` of Gemini. Its format differs from Chat Completions."""
    counted: dict[str, Any] = {
        "model": f"models/{model}",
        "contents": list(_join_roles(request.messages)),
    }
    if request.system:
        counted["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        counted["tools"] = [{"functionDeclarations": list(map(_declare, request.tools))}]
    content = encode({"generateContentRequest": counted})
    return CountRequest(f"/models/{model}:countTokens", content, "totalTokens")


def _select_fields(body: bytes, names: Iterable[str]) -> bytes:
    given: Mapping[str, Any] = json.loads(body)
    return encode({name: given[name] for name in names if name in given})


def _declare(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": dict(tool.parameters),
    }


def _join_roles(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Yield the contents of messages. Neighbouring messages of the same role become one."""
    role, parts = "", list[dict[str, Any]]()
    for message in messages:
        own = "model" if message.role == "assistant" else "user"
        if own != role and parts:
            yield {"role": role, "parts": parts}
            parts = []
        role = own
        parts += [part for block in message.blocks for part in _parts(block)]
    if parts:
        yield {"role": role, "parts": parts}


def _parts(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Text() if block.text:
            yield {"text": without_surrogates(block.text)}
        case ToolUse():
            arguments = parse_json_object(block.arguments) or {}
            yield {"functionCall": {"name": block.tool, "args": arguments}}
        case ToolResult():
            yield {"functionResponse": {"name": block.tool, "response": {"result": block.content}}}
            for inner in block.blocks:
                yield from _parts(inner)
        case Attachment():
            content = block.read()
            if content is None:
                yield {"text": block.label}
            else:
                data = base64.b64encode(content).decode()
                yield {"inlineData": {"mimeType": block.media_type, "data": data}}
        case _:
            return
