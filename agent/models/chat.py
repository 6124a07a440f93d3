"""OpenAI Chat Completions: how a history becomes its `messages`."""

import re
from collections.abc import Mapping
from typing import Any

from actions.model_port import ToolSpec
from agent.models.chat_reply import ChatReply
from agent.models.endpoint import Endpoint
from agent.models.wire_json import encode, legal_id, legal_name, opened, sendable_text
from state.messages import Block, Document, Image, Message, Text, ToolResult, ToolUse


class ChatDialect:
    path = "/chat/completions"
    binds_prefix = False
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        "stream_options": re.compile(r"stream_options|include_usage"),
        "output_limit": re.compile(r"max_tokens|max_completion_tokens"),
        "wire": re.compile(r"reasoning|thought_signature|extra_content"),
    }

    def __init__(self, endpoint: Endpoint, max_output_tokens: int | None = None) -> None:
        self._endpoint = endpoint
        self._profile = endpoint.profile
        self._max_output_tokens = max_output_tokens
        self.key = f"chat {endpoint.name}"

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True}
        if self._profile.reports_usage_on_request and "stream_options" not in without:
            fields["stream_options"] = {"include_usage": True}
        if self._max_output_tokens and "output_limit" not in without:
            fields[self._profile.output_limit_field] = self._max_output_tokens
        if tools:
            fields["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
        start = opened(fields, "messages")
        return start + encode({"role": "system", "content": system}) + b"," if system else start

    def role(self, message: Message) -> str:
        return message.role

    def glue(self, before: str | None, role: str) -> bytes:
        return b"" if before is None else b","

    def tail(self, last_role: str | None, forced_tool: str | None, without: frozenset[str]) -> bytes:
        if forced_tool is None or not self._profile.forces_tools or "tool_choice" in without:
            return b"]}"
        choice = {"type": "function", "function": {"name": forced_tool}}
        return b'],"tool_choice":' + encode(choice) + b"}"

    def can_replay(self, message: Message) -> bool:
        return self._endpoint.said(message.wire) and isinstance(message.wire and message.wire.body, dict)

    def fragment(self, message: Message, replay: bool) -> bytes:
        if replay and message.wire is not None:
            return encode(message.wire.body)
        match message.role:
            case "user":
                return self._user(message)
            case "assistant":
                return self._assistant(message)
            case "tool":
                return b",".join(
                    self._result(block) for block in message.blocks if isinstance(block, ToolResult)
                )

    def reader(self) -> ChatReply:
        return ChatReply(self._endpoint)

    def _user(self, message: Message) -> bytes:
        if all(isinstance(block, Text) for block in message.blocks):
            return encode({"role": "user", "content": message.text}) if message.text else b""
        parts = [part for block in message.blocks if (part := _part(block))]
        return encode({"role": "user", "content": parts})

    def _assistant(self, message: Message) -> bytes:
        calls = [self._call(use) for use in message.tool_uses]
        if not calls:
            return encode({"role": "assistant", "content": message.text}) if message.text else b""
        return encode(
            {
                "role": "assistant",
                "content": message.text or None,
                "tool_calls": calls,
                **(self._profile.call_message_extra or {}),
            }
        )

    def _call(self, use: ToolUse) -> dict[str, Any]:
        function = {"name": legal_name(use.tool), "arguments": sendable_text(use.arguments)}
        return {
            "id": self._id(use.call_id),
            "type": "function",
            "function": function,
            **(self._profile.rebuilt_call_extra or {}),
        }

    def _result(self, result: ToolResult) -> bytes:
        return encode({"role": "tool", "tool_call_id": self._id(result.call_id), "content": result.content})

    def _id(self, call_id: str) -> str:
        return legal_id(call_id, self._profile.max_id_chars, is_strict=False)


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text:
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": _data_url(block.media_type, block.data)}}
        case Document():
            data = _data_url(block.media_type, block.data)
            return {"type": "file", "file": {"filename": block.name, "file_data": data}}
        case _:
            return None


def _data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"
