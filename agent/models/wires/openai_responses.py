"""OpenAI Responses: renders a history as `input`, and reads replies."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ....actions.ports import FinishReason, ToolSpec
from ....actions.ports.events import TextDelta, ThinkingDelta
from ....actions.turn.output.format import OutputFormat
from ....state.application import Usage
from ....state.conversation.attachments import Audio, Video
from ....state.conversation.content import Attachment
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
from ..failures import judge, make_truncation_error, refusal_in_stream
from ..providers import Endpoint, summarizes_reasoning
from ..requests import (
    STRICT_TOOLS,
    Delta,
    Dialect,
    Draft,
    ReplyReader,
    encode_open_object,
    legal_id,
    legal_name,
    sendable_text,
    without_surrogates,
    words_of,
)
from .files import YOUR_PICTURES, SentFile, parse_picture
from .output_items import OutputItems, text_of
from .streaming import (
    PartialCall,
    TextFlow,
    as_list,
    as_object,
    as_text,
    complete_draft,
    openai_usage,
    settle_ids,
)
from .strict_tools import strict_parameters

MAX_ID_CHARS = 64
_AFTER_END_S = 0.25
_ENDS = {"response.completed", "response.incomplete"}
_TEXT = {"response.output_text.delta", "response.refusal.delta"}
_THOUGHT = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
_ORDINARY = {
    "message": {"id", "type", "status", "role", "content"},
    "function_call": {"id", "type", "status", "call_id", "name", "arguments"},
}
"""Type of an item -> its fields that neutral blocks can reproduce. Other fields need the provider's own
JSON."""
_ORDINARY_PARTS = {"type", "text", "refusal", "annotations", "logprobs"}


class OpenAIResponsesReply(ReplyReader):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._items = OutputItems()
        self._flows: dict[str, TextFlow] = {}
        self._end: dict[str, Any] | None = None
        self._is_refusal = False

    @property
    def patience_s(self) -> float | None:
        return None if self._end is None else _AFTER_END_S

    def read(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        kind = as_text(data.get("type")) or name
        if kind in ("error", "response.failed") or data.get("error"):
            error = as_object(data.get("response")).get("error") or data.get("error") or data
            raise judge(refusal_in_stream({"error": error}), self._endpoint)
        if kind in _TEXT or kind in _THOUGHT:
            yield from self._read_text(kind, data)
        elif kind == "response.function_call_arguments.delta":
            self._items.add_piece("function_call", data, as_text(data.get("delta")))
        elif kind == "response.output_item.added":
            self._items.add(data)
        elif kind == "response.output_item.done":
            self._items.end(data)
        elif kind in _ENDS:
            self._end = as_object(data.get("response"))

    def _read_text(self, kind: str, data: dict[str, Any]) -> Iterator[Delta]:
        visible = self._flows.setdefault(kind, TextFlow()).add(as_text(data.get("delta")))
        if kind in _TEXT:
            # The pieces are used only if the finished item never arrives, for example at an output limit.
            self._items.add_piece("message", data, visible)
        if visible:
            yield ThinkingDelta(visible) if kind in _THOUGHT else TextDelta(visible)

    def draft(self) -> Draft:
        who = self._endpoint.provider
        if self._end is None:
            raise make_truncation_error(who)
        items = self._items.in_order(as_list(self._end.get("output")))
        calls = {
            number: _call(item) for number, item in enumerate(items) if item.get("type") == "function_call"
        }
        had_twins = settle_ids(list(calls.values()), MAX_ID_CHARS, is_strict=True)
        blocks = tuple(
            block for number, item in enumerate(items) for block in self._blocks(item, calls.get(number))
        )
        finish = self._finish(bool(calls))
        # The provider's own JSON is not kept for images, because one image is as large as many messages.
        has_picture = any(isinstance(block, Image) for block in blocks)
        is_ordinary = had_twins or has_picture or finish == "length" or all(map(_is_ordinary, items))
        wire = None if is_ordinary else [_echo_item(item, calls.get(n)) for n, item in enumerate(items)]
        return complete_draft(Draft(blocks, finish, self.usage, wire), who)

    def _blocks(self, item: dict[str, Any], call: PartialCall | None) -> Iterator[Block]:
        if call is not None:
            yield call.use()
        elif item.get("type") == "reasoning":
            parts = as_list(item.get("summary")) or as_list(item.get("content"))
            if text := without_surrogates("\n\n".join(map(as_text, parts))):
                yield Thinking(text=text)
        elif item.get("type") == "message":
            parts = [as_object(part) for part in as_list(item.get("content"))]
            self._is_refusal = self._is_refusal or any(part.get("type") == "refusal" for part in parts)
            if text := without_surrogates(text_of(item) or as_text(item.get("collected"))):
                yield Text(text=text)
        elif item.get("type") == "image_generation_call" and (picture := parse_picture(item.get("result"))):
            yield picture

    def _finish(self, has_calls: bool) -> FinishReason:
        end = self._end or {}
        reason = as_object(end.get("incomplete_details")).get("reason")
        if self._is_refusal or reason == "content_filter":
            return "refusal"
        if reason or end.get("status") == "incomplete":
            return "length"
        return "tool_calls" if has_calls else "stop"

    @property
    def usage(self) -> Usage:
        return openai_usage(as_object((self._end or {}).get("usage")), "input_tokens", "output_tokens")


def _call(item: dict[str, Any]) -> PartialCall:
    return PartialCall(
        id=as_text(item.get("call_id")),
        name=as_text(item.get("name")),
        pieces=[as_text(item.get("arguments"))],
    )


def _is_ordinary(item: dict[str, Any]) -> bool:
    known = _ORDINARY.get(as_text(item.get("type")))
    if known is None or not item.keys() - {"collected"} <= known:
        return False
    parts = [as_object(part) for part in as_list(item.get("content"))]
    return all(part.keys() <= _ORDINARY_PARTS and not part.get("annotations") for part in parts)


def _echo_item(item: dict[str, Any], call: PartialCall | None) -> dict[str, Any]:
    kept = {key: value for key, value in item.items() if key != "collected"}
    if "collected" in item and not item.get("content"):
        kept["content"] = [{"type": "output_text", "text": item["collected"]}]
    if call is None:
        return kept
    name, arguments = legal_name(call.name), sendable_text(call.arguments)
    return {**kept, "call_id": call.id, "name": name, "arguments": arguments}


class OpenAIResponsesDialect(Dialect):
    path = "/responses"
    reply = OpenAIResponsesReply
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "output_format": re.compile(r"text\.format|json_schema|structured output", re.IGNORECASE),
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        STRICT_TOOLS: re.compile(r"\bstrict\b|invalid schema for function", re.IGNORECASE),
        "effort": re.compile(r"effort", re.IGNORECASE),
        "wire": re.compile(
            r"encrypted content .*(verified|decrypt|parsed)|reasoning item|'(rs|msg|fc)_|of type 'reasoning'",
            re.IGNORECASE,
        ),
        "include": re.compile(r"\binclude\b|encrypted[ _]content", re.IGNORECASE),
        "reasoning": re.compile(r"reasoning|summar", re.IGNORECASE),
        "output_limit": re.compile(r"max_output_tokens"),
    }

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True, "store": False}
        if "include" not in without:
            fields["include"] = ["reasoning.encrypted_content"]
        if reasoning := self._reasoning(without):
            fields["reasoning"] = reasoning
        if self._max_output_tokens and "output_limit" not in without:
            fields["max_output_tokens"] = self._max_output_tokens
        if system:
            fields["instructions"] = system
        if tools:
            are_strict = self.declares_strictly(without)
            fields["tools"] = [_tool(tool, are_strict) for tool in tools]
        return encode_open_object(fields, "input")

    def _reasoning(self, without: frozenset[str]) -> dict[str, str]:
        reasoning: dict[str, str] = {}
        if summarizes_reasoning(self._endpoint.model) and "reasoning" not in without:
            reasoning["summary"] = "auto"
        if self._effort is not None and "effort" not in without:
            reasoning["effort"] = self._effort
        return reasoning

    def tool_choice(self, tool: str) -> dict[str, Any]:
        return {"type": "function", "name": tool}

    def output_format(self, output: OutputFormat) -> dict[str, Any]:
        form = {"name": output.name, "schema": dict(output.request_schema), "strict": output.is_strict}
        return {"text": {"format": {"type": "json_schema", **form}}}

    def items(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "user":
            return [{"role": "user", "content": self._user_content(message)}] if message.blocks else []
        items = [item for block in message.blocks if (item := self._item(block))]
        return [*items, *self._pictures(message)] if message.role == "assistant" else items

    def _user_content(self, message: Message) -> str | list[dict[str, Any]]:
        if all(isinstance(block, Text) for block in message.blocks):
            return message.text
        given = self.render_blocks(message.blocks)
        words = words_of(given)
        return words if words is not None else list(map(_part, given))

    def _item(self, block: Block) -> dict[str, Any] | None:
        if isinstance(block, ToolResult):
            return {
                "type": "function_call_output",
                "call_id": _id(block.call_id),
                "output": self._output(block),
            }
        return _item(block)

    def _output(self, result: ToolResult) -> str | list[dict[str, Any]]:
        """Return the text of a result, or a list of parts if it has files to send."""
        if not result.blocks:
            return result.content
        given = self.render_blocks((*([Text(text=result.content)] if result.content else []), *result.blocks))
        words = words_of(given)
        return words if words is not None else list(map(_part, given))

    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        """Return a user message with the images of the model's own reply, because replies cannot hold
        images."""
        given = self.render_blocks(message.files)
        if message.tool_uses or words_of(given) is not None:
            return []
        return [{"role": "user", "content": [_part(Text(text=YOUR_PICTURES)), *map(_part, given)]}]


def _tool(tool: ToolSpec, is_strict: bool) -> dict[str, Any]:
    schema = strict_parameters(tool) if is_strict else None
    given = dict(tool.parameters) if schema is None else schema
    described = {"name": tool.name, "description": tool.description, "parameters": given}
    return {"type": "function", **described, "strict": schema is not None}


def _part(given: Text | SentFile) -> dict[str, Any]:
    if isinstance(given, Text):
        return {"type": "input_text", "text": given.text}
    match given.file:
        case Image(detail=detail):
            more = {"detail": detail} if detail is not None else {}
            return {"type": "input_image", "image_url": given.url, **more}
        case Document(url="", name=name):
            return {"type": "input_file", "filename": name, "file_data": given.url}
        case Document(url=url):
            return {"type": "input_file", "file_url": url}
        case Audio() | Video():
            raise AssertionError("this format has no part for audio and video")


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
        case Attachment():
            return {"role": "assistant", "content": block.label}
        case _:
            return None


def _id(call_id: str) -> str:
    return legal_id(call_id, MAX_ID_CHARS, is_strict=True)
