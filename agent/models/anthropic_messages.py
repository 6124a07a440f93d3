"""Anthropic Messages: how a history becomes its `messages`, roles in turn, results first."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...actions.events import TextDelta, ThinkingDelta
from ...actions.ports import FinishReason, ToolSpec
from ...state.application import Usage
from ...state.errors import ContextFull
from ...state.messages import Block, Document, Image, Message, Text, Thinking, ToolResult, ToolUse
from .failures import judge, refusal_in_stream
from .providers import Endpoint, claude
from .requests import (
    Delta,
    Dialect,
    Draft,
    ReplyReader,
    legal_id,
    legal_name,
    opened,
    sendable_object,
)
from .streaming import (
    PartialCall,
    TextFlow,
    as_json_text,
    as_object,
    as_text,
    count,
    cut,
    finished,
    reported,
    settle_ids,
)

MAX_ID_CHARS = 64
_AFTER_END_S = 0.25
_ORDINARY = {"text": {"type", "text", "citations"}, "tool_use": {"type", "id", "name", "input"}}
"""Blocks that neutral blocks give back, as long as they have no other fields."""
_KIND_OF_DELTA = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Delta type -> the block type it belongs to, and the field that holds the text."""
_FINISHES: dict[str, FinishReason] = {"max_tokens": "length", "refusal": "refusal"}


@dataclass(slots=True)
class _Block:
    fields: dict[str, Any]
    """As the server began it."""
    text: TextFlow = field(default_factory=TextFlow)
    signature: str = ""
    call: PartialCall | None = None

    @property
    def type(self) -> str:
        return as_text(self.fields.get("type"))


class MessagesReply(ReplyReader):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason = ""
        self._has_ended = False

    @property
    def patience_s(self) -> float | None:
        return _AFTER_END_S if self._has_ended else None

    def read(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        kind = as_text(data.get("type")) or name
        if kind == "error" or data.get("error"):
            raise judge(refusal_in_stream(data), self._endpoint)
        if kind == "message_start":
            self._note_usage(as_object(data.get("message")))
        elif kind == "content_block_start":
            yield from self._begin(data)
        elif kind == "content_block_delta":
            yield from self._read_delta(data)
        elif kind == "message_delta":
            self._stop_reason = as_text(as_object(data.get("delta")).get("stop_reason")) or self._stop_reason
            self._note_usage(data)
        elif kind == "message_stop":
            self._has_ended = True

    def _note_usage(self, data: dict[str, Any]) -> None:
        usage = as_object(data.get("usage"))
        self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _begin(self, data: dict[str, Any]) -> Iterator[Delta]:
        fields = as_object(data.get("content_block"))
        block = self._blocks[self._place(data, len(self._blocks))] = _Block(fields)
        if block.type == "tool_use":
            given = fields.get("input")
            pieces = [as_json_text(given)] if given else []
            block.call = PartialCall(as_text(fields.get("id")), as_text(fields.get("name")), pieces)
        elif block.type in ("text", "thinking"):
            block.signature = as_text(fields.get("signature"))
            yield from _shown(block, as_text(fields.get(block.type)))

    def _place(self, data: dict[str, Any], otherwise: int) -> int:
        index = data.get("index")
        return index if isinstance(index, int) else otherwise

    def _read_delta(self, data: dict[str, Any]) -> Iterator[Delta]:
        delta = as_object(data.get("delta"))
        kind, source = _KIND_OF_DELTA.get(as_text(delta.get("type")), ("", ""))
        place = self._place(data, max(self._blocks, default=0))
        if not kind:
            self._keep_unknown(place, delta)
            return
        block = self._blocks.setdefault(place, _Block({"type": kind}))
        text = as_text(delta.get(source))
        if source == "signature":
            block.signature += text
        elif kind == "tool_use":
            block.call = block.call or PartialCall()
            block.call.pieces.append(text)
        else:
            yield from _shown(block, text)

    def _keep_unknown(self, place: int, delta: dict[str, Any]) -> None:
        """Keep citations; other unknown deltas change nothing that is sent back."""
        block = self._blocks.get(place)
        if block is not None and (citation := as_object(delta.get("citation"))):
            block.fields["citations"] = [*(block.fields.get("citations") or []), citation]

    def draft(self) -> Draft:
        who = self._endpoint.provider
        if not self._has_ended or not self._stop_reason:
            raise cut(who)
        if self._stop_reason == "model_context_window_exceeded":
            raise ContextFull(f"The answer of {self._endpoint.name} no longer fits into its window.")
        ordered = [self._blocks[place] for place in sorted(self._blocks)]
        calls = [block.call for block in ordered if block.call is not None]
        had_twins = settle_ids(calls, MAX_ID_CHARS, is_strict=True)
        finish = _FINISHES.get(self._stop_reason, "tool_calls" if calls else "stop")
        blocks = tuple(made for block in ordered if (made := _neutral(block)))
        is_ordinary = had_twins or all(map(_is_ordinary, ordered))
        wire = None if is_ordinary else [sent for block in ordered if (sent := _sent_back(block))]
        return finished(Draft(blocks, finish, self.usage, wire), who)

    @property
    def usage(self) -> Usage:
        read, written = (
            count(self._usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation")
        )
        plain = count(self._usage.get("input_tokens"))
        total = None if plain is None else plain + (read or 0) + (written or 0)
        return reported(total, count(self._usage.get("output_tokens")), read, written)


def _shown(block: _Block, text: str) -> Iterator[Delta]:
    if shown := block.text.add(text):
        yield ThinkingDelta(shown) if block.type == "thinking" else TextDelta(shown)


def _neutral(block: _Block) -> Block | None:
    if block.call is not None:
        return block.call.use()
    text = block.text.text
    if not text or block.type not in ("text", "thinking"):
        return None
    return Thinking(text=text) if block.type == "thinking" else Text(text=text)


def _is_ordinary(block: _Block) -> bool:
    known = _ORDINARY.get(block.type)
    return known is not None and block.fields.keys() <= known and not block.fields.get("citations")


def _sent_back(block: _Block) -> dict[str, Any] | None:
    """Return the block as the server wants it back; empty text it would refuse."""
    if block.call is not None:
        call = block.call
        name, given = legal_name(call.name), sendable_object(call.arguments)
        return {**block.fields, "id": call.id, "name": name, "input": given}
    if block.type == "thinking":
        return {**block.fields, "thinking": block.text.text, "signature": block.signature}
    if block.type != "text":
        return block.fields
    return {**block.fields, "text": block.text.text} if block.text.text.strip() else None


_CACHED = {"type": "ephemeral"}


class MessagesDialect(Dialect):
    path = "/v1/messages"
    reply = MessagesReply
    binds_prefix = True
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        "wire": re.compile(r"signature|thinking.{0,20}block|redacted_thinking", re.IGNORECASE),
        "thinking": re.compile(r"thinking", re.IGNORECASE),
        "cache_control": re.compile(r"cache_control"),
    }

    def __init__(self, endpoint: Endpoint, max_output_tokens: int | None = None) -> None:
        self._claude = claude(endpoint.model)
        super().__init__(endpoint, max_output_tokens or self._claude.max_output_tokens)

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

    def forces(self, without: frozenset[str]) -> bool:
        # A model that thinks refuses a forced choice.
        return super().forces(without) and not self._thinks(without)

    def tool_choice(self, tool: str) -> dict[str, Any]:
        return {"type": "tool", "name": tool}

    def tail(self, last_role: str | None, forced_tool: str | None, without: frozenset[str]) -> bytes:
        end = b"]}" if last_role is not None else b""
        return end + super().tail(last_role, forced_tool, without)

    def items(self, message: Message) -> list[dict[str, Any]]:
        return [sent for block in message.blocks if (sent := _block(block))]


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text.strip():
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image", "source": _source(block)}
        case Document():
            return {"type": "document", "title": block.name, "source": _source(block)}
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


def _source(block: Image | Document) -> dict[str, str]:
    return {"type": "base64", "media_type": block.media_type, "data": block.data}


def _id(call_id: str) -> str:
    return legal_id(call_id, MAX_ID_CHARS, is_strict=True)
