"""Anthropic Messages: renders a history as `messages` with alternating roles, and tool results first."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from ....actions.ports import FinishReason, FormattedEntry, ModelRequest, ToolChoiceKind, ToolSpec
from ....actions.ports.events import TextDelta, ThinkingDelta
from ....actions.turn.output.format import OutputFormat
from ....state.application import Usage
from ....state.conversation.attachments import Audio, Video
from ....state.conversation.content import Attachment
from ....state.conversation.media_types import is_text_type
from ....state.conversation.messages import (
    Block,
    Document,
    Image,
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from ....state.errors import ContextFull, ModelError
from ....state.lazy_dataclass import dataclass
from ....state.session import Effort
from ..failures import judge, make_truncation_error, refusal_in_stream
from ..providers import Endpoint, claude
from ..requests import (
    STRICT_TOOLS,
    Delta,
    Dialect,
    Draft,
    Fragment,
    ReplyReader,
    encode,
    encode_open_object,
    legal_id,
    legal_name,
    sendable_object,
)
from .files import SentFile
from .streaming import (
    PartialCall,
    TextFlow,
    as_json_text,
    as_object,
    as_text,
    complete_draft,
    count,
    make_usage,
    settle_ids,
)
from .strict_tools import StrictBudget, move_limits_to_descriptions, select_strict

MAX_ID_CHARS = 64
_AFTER_END_S = 0.25
_ORDINARY = {"text": {"type", "text", "citations"}, "tool_use": {"type", "id", "name", "input"}}
"""Type of a block -> its fields that neutral blocks can reproduce. Other fields need the provider's own
JSON."""
_KIND_OF_DELTA = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""Type of a delta -> the type of the block that it extends, and the field with the text."""
_FINISHES: dict[str, FinishReason] = {"max_tokens": "length", "refusal": "refusal"}


@dataclass(slots=True)
class _Block:
    fields: dict[str, Any]
    """The fields with which the server began the block."""
    text: TextFlow = field(default_factory=TextFlow)
    signature: str = ""
    call: PartialCall | None = None

    @property
    def type(self) -> str:
        return as_text(self.fields.get("type"))


class AnthropicMessagesReply(ReplyReader):
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
            yield from _text_deltas(block, as_text(fields.get(block.type)))

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
            yield from _text_deltas(block, text)

    def _keep_unknown(self, place: int, delta: dict[str, Any]) -> None:
        """Keep citations. Other unknown deltas are dropped, because nothing of them is sent back."""
        block = self._blocks.get(place)
        if block is not None and (citation := as_object(delta.get("citation"))):
            block.fields["citations"] = [*(block.fields.get("citations") or []), citation]

    def draft(self) -> Draft:
        who = self._endpoint.provider
        if not self._has_ended or not self._stop_reason:
            raise make_truncation_error(who)
        if self._stop_reason == "model_context_window_exceeded":
            raise ContextFull(f"The answer of {self._endpoint.name} no longer fits into its window.")
        ordered = [self._blocks[place] for place in sorted(self._blocks)]
        calls = [block.call for block in ordered if block.call is not None]
        had_twins = settle_ids(calls, MAX_ID_CHARS, is_strict=True)
        finish = _FINISHES.get(self._stop_reason, "tool_calls" if calls else "stop")
        blocks = tuple(made for block in ordered if (made := _make_block(block)))
        is_ordinary = had_twins or all(map(_is_ordinary, ordered))
        wire = None if is_ordinary else [sent for block in ordered if (sent := _echo_block(block))]
        return complete_draft(Draft(blocks, finish, self.usage, wire), who)

    @property
    def usage(self) -> Usage:
        read, written = (
            count(self._usage.get(f"cache_{kind}_input_tokens")) for kind in ("read", "creation")
        )
        plain = count(self._usage.get("input_tokens"))
        total = None if plain is None else plain + (read or 0) + (written or 0)
        return make_usage(total, count(self._usage.get("output_tokens")), read, written)


def _text_deltas(block: _Block, text: str) -> Iterator[Delta]:
    if visible := block.text.add(text):
        yield ThinkingDelta(visible) if block.type == "thinking" else TextDelta(visible)


def _make_block(block: _Block) -> Block | None:
    if block.call is not None:
        return block.call.use()
    text = block.text.text
    if not text or block.type not in ("text", "thinking"):
        return None
    return Thinking(text=text) if block.type == "thinking" else Text(text=text)


def _is_ordinary(block: _Block) -> bool:
    known = _ORDINARY.get(block.type)
    return known is not None and block.fields.keys() <= known and not block.fields.get("citations")


def _echo_block(block: _Block) -> dict[str, Any] | None:
    """Return the block in the form that the server accepts in a history; None for empty text, which it
    rejects."""
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
_EFFORTS = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""Effort -> the value for models with adaptive thinking. `none` switches thinking off."""
_SHARES = {"minimal": 0.1, "low": 0.2, "medium": 0.4, "high": 0.6, "xhigh": 0.75, "max": 0.9}
"""Effort -> the part of the output limit that older models may use for thinking."""
_LEAST_BUDGET = 1024


class AnthropicMessagesDialect(Dialect):
    path = "/v1/messages"
    reply = AnthropicMessagesReply
    binds_prefix = True
    max_image_bytes = 5 * 1024 * 1024 * 3 // 4
    """The most bytes of an image before base64. The provider's limit is 5 MiB of base64."""
    takes_text_files = True
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "effort": re.compile(r"effort|output_config(?!\.format)", re.IGNORECASE),
        "output_format": re.compile(r"output_config|output_format|structured output", re.IGNORECASE),
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        STRICT_TOOLS: re.compile(r"\bstrict\b|\btools\.\d+\.|schema is too complex", re.IGNORECASE),
        "wire": re.compile(r"signature|thinking.{0,20}block|redacted_thinking", re.IGNORECASE),
        "thinking": re.compile(r"thinking", re.IGNORECASE),
        "newest_cached": re.compile(r"cache_control"),
        "cache_control": re.compile(r"cache_control"),
    }

    def __init__(
        self, endpoint: Endpoint, max_output_tokens: int | None = None, effort: Effort | None = None
    ) -> None:
        self._claude = claude(endpoint.model)
        self._most_tokens = max_output_tokens or self._claude.max_output_tokens
        super().__init__(endpoint, self._most_tokens, effort)

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {
            "model": self._endpoint.model,
            "max_tokens": self._most_tokens,
            "stream": True,
        }
        caches = "cache_control" not in without
        if caches and "newest_cached" not in without:
            # The cache mark is on the whole request, not on the newest message: so the history keeps its
            # bytes.
            fields["cache_control"] = _CACHED
        if "thinking" not in without and (thinking := self._thinking()):
            fields["thinking"] = thinking
        if tools:
            are_strict = self.declares_strictly(without)
            strict = select_strict(tools, _LIMITS, _STRICT_BUDGET) if are_strict else {}
            fields["tools"] = [_tool(tool, strict.get(tool.name)) for tool in tools]
        if system:
            fields["system"] = [
                {"type": "text", "text": system, **({"cache_control": _CACHED} if caches else {})}
            ]
        return encode_open_object(fields, "messages")

    def _thinking(self) -> dict[str, Any]:
        """Return the thinking fields of the request; empty for the model's default."""
        if self._effort == "none":
            return {"type": "disabled"}
        if self._claude.thinks_adaptively:
            return {"type": "adaptive", "display": "summarized"}
        budget = int(self._most_tokens * _SHARES[self._effort]) if self._effort is not None else 0
        # The API rejects a smaller budget.
        return {"type": "enabled", "budget_tokens": budget} if budget >= _LEAST_BUDGET else {}

    def _effort_value(self, without: frozenset[str]) -> str | None:
        if self._effort is None or "effort" in without or not self._claude.thinks_adaptively:
            return None
        return _EFFORTS.get(self._effort)

    def _thinks(self, without: frozenset[str]) -> bool:
        return "thinking" not in without and self._thinking().get("type") in ("adaptive", "enabled")

    def sends(self, field: str, request: ModelRequest, without: frozenset[str]) -> bool:
        if field == "newest_cached":
            # Clouds support a cache mark on a block, but not yet the one on the whole request.
            return self._endpoint.profile.cloud is not None
        return super().sends(field, request, without)

    def role(self, message: Message) -> str:
        return "assistant" if message.role == "assistant" else "user"

    def glue(self, before: str | None, role: str) -> bytes:
        if before == role:
            return b","
        end = b"]}," if before is not None else b""
        return end + b'{"role":"' + role.encode() + b'","content":['

    def forces(self, without: frozenset[str]) -> bool:
        # A model that thinks rejects a forced tool choice.
        return super().forces(without) and not self._thinks(without)

    def entries(self, message: Message, items: Sequence[Any]) -> Sequence[FormattedEntry]:
        return [{"role": self.role(message), "content": list(items)}] if items else []

    def encode_entry(self, entry: FormattedEntry) -> Fragment:
        content, role = entry.get("content"), entry.get("role")
        if role not in ("user", "assistant") or not isinstance(content, list | tuple):
            raise ModelError(
                "The formatter returned an object that is not a message.",
                "A message needs the `role` user or assistant, and a list of blocks as `content`.",
            )
        return Fragment(role, encode(list(cast("Sequence[Any]", content)))[1:-1])

    def tool_choice(self, tool: str) -> dict[str, Any]:
        return {"type": "tool", "name": tool}

    def general_choice(self, kind: ToolChoiceKind) -> dict[str, Any]:
        return {"type": "any" if kind == "required" else kind}

    def formats(self, output: OutputFormat, without: frozenset[str]) -> bool:
        # This API enforces every schema that it gets, so only strict formats are sent.
        return super().formats(output, without) and output.is_strict and self._claude.formats_output

    def declares_strictly(self, without: frozenset[str]) -> bool:
        return super().declares_strictly(without) and self._claude.formats_output

    def output_format(self, output: OutputFormat) -> dict[str, Any]:
        return {
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": move_limits_to_descriptions(output.request_schema, _LIMITS),
                }
            }
        }

    def request_options(self, request: ModelRequest, without: frozenset[str]) -> dict[str, Any]:
        wishes = super().request_options(request, without)
        if (effort := self._effort_value(without)) is not None:
            # The effort and the output format are parts of one field.
            wishes["output_config"] = {"effort": effort, **wishes.get("output_config", {})}
        return wishes

    def tail(self, last_role: str | None, request: ModelRequest, without: frozenset[str]) -> bytes:
        end = b"]}" if last_role is not None else b""
        return end + super().tail(last_role, request, without)

    def items(self, message: Message) -> list[dict[str, Any]]:
        return [sent for block in message.blocks if (sent := self._block(message, block))]

    def _block(self, message: Message, block: Block) -> dict[str, Any] | None:
        match block:
            case Attachment() if message.role == "assistant":
                # The content of assistant messages cannot hold images.
                return {"type": "text", "text": block.label}
            case Attachment():
                return _part(self.files.render(block))
            case ToolResult():
                return self._result(block)
            case _:
                return _block(block)

    def _result(self, result: ToolResult) -> dict[str, Any]:
        sent: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _id(result.call_id),
            "content": result.content,
        }
        if result.outcome != "ok":
            # The content of an error result can only be text.
            return {**sent, "content": result.display_text, "is_error": True}
        if result.blocks:
            texts = [Text(text=result.content)] if result.content else []
            sent["content"] = [
                part for one in self.render_blocks((*texts, *result.blocks)) if (part := _part(one))
            ]
        return sent


_LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
"""Keywords of schemas that this provider does not support."""


_STRICT_BUDGET = StrictBudget(tools=20, unions=16)
"""The most that the provider accepts in one request; more is an error."""


def _tool(tool: ToolSpec, strict: Mapping[str, Any] | None) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description}
    if strict is not None:
        return {**described, "input_schema": strict, "strict": True}
    return {**described, "input_schema": dict(tool.parameters)}


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text.strip():
            return {"type": "text", "text": block.text}
        case ToolUse():
            return {
                "type": "tool_use",
                "id": _id(block.call_id),
                "name": legal_name(block.tool),
                "input": sendable_object(block.arguments),
            }
        case _:
            return None


def _part(given: Text | SentFile) -> dict[str, Any] | None:
    """Return a text or a file as a block; None for empty text, which the server rejects."""
    if isinstance(given, Text):
        return {"type": "text", "text": given.text} if given.text.strip() else None
    match given.file:
        case Image():
            return {"type": "image", "source": _source(given)}
        case Document(name=name):
            return {"type": "document", "title": name, "source": _source(given)}
        case Audio() | Video():
            raise AssertionError("this format has no block for audio and video")


def _source(sent: SentFile) -> dict[str, str]:
    if sent.file.url:
        return {"type": "url", "url": sent.file.url}
    if is_text_type(sent.file.media_type):
        # This is the only type of text that the API accepts.
        return {"type": "text", "media_type": "text/plain", "data": sent.content.decode("utf-8", "replace")}
    return {"type": "base64", "media_type": sent.file.media_type, "data": sent.data}


def _id(call_id: str) -> str:
    return legal_id(call_id, MAX_ID_CHARS, is_strict=True)
