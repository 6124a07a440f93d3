"""Anthropic Messages: how a history becomes its `messages`, roles in turn, results first."""

import re
from collections.abc import Mapping
from typing import Any, cast

from actions.model_port import ToolSpec
from agent.models.endpoint import Endpoint
from agent.models.families import claude
from agent.models.messages_reply import MAX_ID_CHARS, MessagesReply
from agent.models.wire_json import encode, legal_id, legal_name, opened, sendable_object
from state.messages import Block, Document, Image, Message, Text, ToolResult, ToolUse

_CACHED = {"type": "ephemeral"}


class MessagesDialect:
    path = "/v1/messages"
    binds_prefix = True
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        "wire": re.compile(r"signature|thinking.{0,20}block|redacted_thinking", re.IGNORECASE),
        "thinking": re.compile(r"thinking", re.IGNORECASE),
        "cache_control": re.compile(r"cache_control"),
    }

    def __init__(self, endpoint: Endpoint, max_output_tokens: int | None = None) -> None:
        self._endpoint = endpoint
        self._claude = claude(endpoint.model)
        self._max_output_tokens = max_output_tokens or self._claude.max_output_tokens
        self.key = f"messages {endpoint.name}"

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {
            "model": self._endpoint.model,
            "max_tokens": self._max_output_tokens,
            "stream": True,
        }
        caches = "cache_control" not in without
        if caches:
            # Marks the newest message without a mark in it, so the history stays the same bytes.
            fields["cache_control"] = _CACHED
        if self._thinks(without):
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        if tools:
            fields["tools"] = [_tool(tool) for tool in tools]
        if system:
            fields["system"] = [
                {"type": "text", "text": system, **({"cache_control": _CACHED} if caches else {})}
            ]
        return opened(fields, "messages")

    def _thinks(self, without: frozenset[str]) -> bool:
        return self._claude.thinks_adaptively and "thinking" not in without

    def role(self, message: Message) -> str:
        return "assistant" if message.role == "assistant" else "user"

    def glue(self, before: str | None, role: str) -> bytes:
        if before == role:
            return b","
        end = b"]}," if before is not None else b""
        return end + b'{"role":"' + role.encode() + b'","content":['

    def tail(self, last_role: str | None, forced_tool: str | None, without: frozenset[str]) -> bytes:
        end = b"]}]" if last_role is not None else b"]"
        # A model that thinks refuses a forced choice.
        if forced_tool is None or "tool_choice" in without or self._thinks(without):
            return end + b"}"
        return end + b',"tool_choice":' + encode({"type": "tool", "name": forced_tool}) + b"}"

    def can_replay(self, message: Message) -> bool:
        return self._endpoint.said(message.wire) and isinstance(message.wire and message.wire.body, list)

    def fragment(self, message: Message, replay: bool) -> bytes:
        if replay and message.wire is not None:
            return encode(cast(list[Any], message.wire.body))[1:-1]
        return encode([sent for block in message.blocks if (sent := _block(block))])[1:-1]

    def reader(self) -> MessagesReply:
        return MessagesReply(self._endpoint)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text.strip():
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image", "source": _source(block.media_type, block.data)}
        case Document():
            source = _source(block.media_type, block.data)
            return {"type": "document", "title": block.name, "source": source}
        case ToolUse():
            return {
                "type": "tool_use",
                "id": _id(block.call_id),
                "name": legal_name(block.tool),
                "input": sendable_object(block.arguments),
            }
        case ToolResult():
            result = {"type": "tool_result", "tool_use_id": _id(block.call_id), "content": block.content}
            return result if block.outcome == "ok" else {**result, "is_error": True}
        case _:
            return None


def _source(media_type: str, data: str) -> dict[str, str]:
    return {"type": "base64", "media_type": media_type, "data": data}


def _id(call_id: str) -> str:
    return legal_id(call_id, MAX_ID_CHARS, is_strict=True)
