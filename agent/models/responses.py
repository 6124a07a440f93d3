"""OpenAI Responses: how a history becomes its `input`."""

import re
from collections.abc import Mapping
from typing import Any, cast

from actions.model_port import ToolSpec
from agent.models.endpoint import Endpoint
from agent.models.families import reasons
from agent.models.responses_reply import MAX_ID_CHARS, ResponsesReply
from agent.models.wire_json import encode, legal_id, legal_name, opened, sendable_text
from state.messages import Block, Document, Image, Message, Text, ToolResult, ToolUse


class ResponsesDialect:
    path = "/responses"
    binds_prefix = False
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        "wire": re.compile(
            r"encrypted content .*(verified|decrypt|parsed)|reasoning item|'(rs|msg|fc)_|of type 'reasoning'",
            re.IGNORECASE,
        ),
        "include": re.compile(r"\binclude\b|encrypted[ _]content", re.IGNORECASE),
        "reasoning": re.compile(r"reasoning|summar", re.IGNORECASE),
        "output_limit": re.compile(r"max_output_tokens"),
    }

    def __init__(self, endpoint: Endpoint, max_output_tokens: int | None = None) -> None:
        self._endpoint = endpoint
        self._max_output_tokens = max_output_tokens
        self.key = f"responses {endpoint.name}"

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True, "store": False}
        if "include" not in without:
            fields["include"] = ["reasoning.encrypted_content"]
        if reasons(self._endpoint.model) and "reasoning" not in without:
            fields["reasoning"] = {"summary": "auto"}
        if self._max_output_tokens and "output_limit" not in without:
            fields["max_output_tokens"] = self._max_output_tokens
        if system:
            fields["instructions"] = system
        if tools:
            fields["tools"] = [_tool(tool) for tool in tools]
        return opened(fields, "input")

    def role(self, message: Message) -> str:
        return message.role

    def glue(self, before: str | None, role: str) -> bytes:
        return b"" if before is None else b","

    def tail(self, last_role: str | None, forced_tool: str | None, without: frozenset[str]) -> bytes:
        if forced_tool is None or not self._endpoint.profile.forces_tools or "tool_choice" in without:
            return b"]}"
        return b'],"tool_choice":' + encode({"type": "function", "name": forced_tool}) + b"}"

    def can_replay(self, message: Message) -> bool:
        return self._endpoint.said(message.wire) and isinstance(message.wire and message.wire.body, list)

    def fragment(self, message: Message, replay: bool) -> bytes:
        if replay and message.wire is not None:
            return _items(cast(list[Any], message.wire.body))
        if message.role == "user":
            return _items([{"role": "user", "content": _user_content(message)}] if message.blocks else [])
        return _items([item for block in message.blocks if (item := _item(block))])

    def reader(self) -> ResponsesReply:
        return ResponsesReply(self._endpoint)


def _items(items: list[Any]) -> bytes:
    return encode(items)[1:-1]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    parameters = dict(tool.parameters)
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    if all(isinstance(block, Text) for block in message.blocks):
        return message.text
    return [part for block in message.blocks if (part := _part(block))]


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text:
            return {"type": "input_text", "text": block.text}
        case Image():
            url = f"data:{block.media_type};base64,{block.data}"
            return {"type": "input_image", "image_url": url}
        case Document():
            data = f"data:{block.media_type};base64,{block.data}"
            return {"type": "input_file", "filename": block.name, "file_data": data}
        case _:
            return None


def _item(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text:
            return {"role": "assistant", "content": block.text}
        case ToolUse():
            return {
                "type": "function_call",
                "call_id": _id(block.call_id),
                "name": legal_name(block.tool),
                "arguments": sendable_text(block.arguments),
            }
        case ToolResult():
            return {
                "type": "function_call_output",
                "call_id": _id(block.call_id),
                "output": block.content,
            }
        case _:
            return None


def _id(call_id: str) -> str:
    return legal_id(call_id, MAX_ID_CHARS, is_strict=True)
