"""OpenAI Chat Completions: renders a history as `messages`, and reads replies."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....actions.ports import FinishReason, ToolSpec
from ....actions.ports.events import TextDelta, ThinkingDelta
from ....actions.turn.output.format import OutputFormat
from ....state.application import Usage
from ....state.conversation.attachments import Audio, Video
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
from ..failures import Transient, judge, make_truncation_error, refusal_in_stream
from ..providers import Endpoint
from ..requests import (
    STRICT_TOOLS,
    Delta,
    Dialect,
    Draft,
    ReplyReader,
    encode,
    encode_open_object,
    legal_id,
    legal_name,
    sendable_text,
    words_of,
)
from .capabilities import AUDIO_FORMATS
from .files import YOUR_PICTURES, SentFile, parse_picture
from .streaming import (
    PartialCall,
    TextFlow,
    as_json_text,
    as_list,
    as_object,
    as_text,
    complete_draft,
    openai_usage,
    settle_ids,
)
from .strict_tools import strict_parameters

_AFTER_FINISH_S = 10.0
"""How long to wait for the usage after the finish reason, in seconds: some servers never close or send
`[DONE]`."""
_AFTER_DONE_S = 0.25
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_FAILED = {"error", "insufficient_system_resource"}
_FINISHES: dict[str, FinishReason] = {
    "length": "length", "max_tokens": "length", "MAX_TOKENS": "length",
    "content_filter": "refusal", "refusal": "refusal", "safety": "refusal", "SAFETY": "refusal",
}  # fmt: skip


class OpenAIChatReply(ReplyReader):
    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._text = TextFlow()
        self._reasoning = {field: TextFlow() for field in _REASONING_FIELDS}
        self._details: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}
        self._refusal = TextFlow()
        self._pictures: list[Image] = []
        self._calls: list[PartialCall] = []
        self._call_at: dict[int | str | None, PartialCall] = {}
        self._finish: str | None = None
        self._usage: dict[str, Any] = {}

    @property
    def patience_s(self) -> float | None:
        if self._finish is None:
            return None
        return _AFTER_DONE_S if self._is_done else _AFTER_FINISH_S

    @property
    def usage(self) -> Usage:
        return openai_usage(self._usage, "prompt_tokens", "completion_tokens")

    def read(self, name: str, data: dict[str, Any]) -> Iterator[Delta]:
        if data.get("error") or name == "error":
            raise judge(refusal_in_stream(data), self._endpoint)
        self._usage = as_object(data.get("usage")) or self._usage
        choices = as_list(data.get("choices"))
        if choices:
            choice = as_object(choices[0])
            yield from self._read_delta(as_object(choice.get("delta") or choice.get("message")))
            self._finish = as_text(choice.get("finish_reason")) or self._finish

    def _read_delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        if thought := self._read_reasoning(delta):
            yield ThinkingDelta(thought)
        for flow, key in ((self._text, "content"), (self._refusal, "refusal")):
            if visible := flow.add(as_text(delta.get(key))):
                yield TextDelta(visible)
        for made in as_list(delta.get("images")):
            url = as_text(as_object(as_object(made).get("image_url")).get("url"))
            self._pictures += filter(None, [parse_picture(url)])
        for piece in as_list(delta.get("tool_calls")):
            self._read_call(as_object(piece))
        if extra := as_object(delta.get("extra_content")):
            self._extra["extra_content"] = extra

    def _read_reasoning(self, delta: dict[str, Any]) -> str:
        """Keep all forms of the reasoning, and return its text once, even if two fields contain it."""
        visible = [self._reasoning[field].add(as_text(delta.get(field))) for field in _REASONING_FIELDS]
        details = [as_object(part) for part in as_list(delta.get("reasoning_details"))]
        visible += [self._keep_detail(detail) for detail in details if detail]
        return next(filter(None, visible), "")

    def _keep_detail(self, detail: dict[str, Any]) -> str:
        """Join the pieces of one reasoning detail. Each piece repeats its type and index."""
        visible = as_text(detail.get("text") or detail.get("summary"))
        last = self._details[-1] if self._details else {}
        if last and (last.get("type"), last.get("index")) == (detail.get("type"), detail.get("index")):
            for key in ("text", "summary", "data"):
                if isinstance(detail.get(key), str) and isinstance(last.get(key), str):
                    detail = {**detail, key: last[key] + detail[key]}
            last.update({key: value for key, value in detail.items() if value is not None})
        else:
            self._details.append(dict(detail))
        return visible

    def _read_call(self, piece: dict[str, Any]) -> None:
        function = as_object(piece.get("function"))
        name, arguments = as_text(function.get("name")), as_json_text(function.get("arguments"))
        call = self._call_of(as_text(piece.get("id")), piece.get("index"), name, arguments)
        if name != call.name:
            call.name += name
        call.pieces.append(arguments)
        if extra := as_object(piece.get("extra_content")):
            call.extra["extra_content"] = extra

    def _call_of(self, call_id: str, index: Any, name: str, arguments: str) -> PartialCall:
        """Return the call that a piece extends, found by index, by id, or as the newest call."""
        place = index if isinstance(index, int) else None
        known = self._call_at.get(place if place is not None else call_id or None)
        if known is None and place is None and not name and self._calls:
            known = self._calls[-1]
        names_in_parts = place is not None and not call_id and known is not None and not any(known.pieces)
        if known is None or (not names_in_parts and _is_another(known, call_id, name, arguments)):
            known = PartialCall(id=call_id)
            self._calls.append(known)
        known.id = known.id or call_id
        self._call_at[place] = known
        if call_id:
            self._call_at[call_id] = known
        self._call_at[None] = known
        return known

    def draft(self) -> Draft:
        who = self._endpoint.provider
        if self._finish is None:
            raise make_truncation_error(who)
        if self._finish in _FAILED:
            raise Transient(f"{who} failed in the middle of the answer")
        had_twins = settle_ids(self._calls, self._endpoint.profile.max_id_chars, is_strict=False)
        text = self._text.text + self._refusal.text
        thought = next(filter(None, (flow.text for flow in self._reasoning.values())), "")
        texts: tuple[Block, ...] = (Text(text=text),) if text else ()
        thinking: tuple[Block, ...] = (Thinking(text=thought),) if thought else ()
        blocks = (*thinking, *texts, *self._pictures, *(call.use() for call in self._calls))
        wire = None if had_twins or self._pictures else self._wire(text)
        return complete_draft(Draft(blocks, self._finish_reason(), self.usage, wire), who)

    def _finish_reason(self) -> FinishReason:
        if self._refusal.text:
            return "refusal"
        return _FINISHES.get(self._finish or "", "tool_calls" if self._calls else "stop")

    def _wire(self, text: str) -> dict[str, Any] | None:
        """Return the message with the fields that the provider needs back, or None if there are no such
        fields."""
        extra = {field: flow.text for field, flow in self._reasoning.items() if flow.text} | self._extra
        if self._details:
            extra["reasoning_details"] = self._details
        if not extra and not any(call.extra for call in self._calls):
            return None
        message: dict[str, Any] = {"role": "assistant", "content": text or None, **extra}
        if self._calls:
            message = {**(self._endpoint.profile.call_message_extra or {}), **message}
            message["tool_calls"] = [_echo_call(call) for call in self._calls]
        return message


def _is_another(known: PartialCall, call_id: str, name: str, arguments: str) -> bool:
    """Return whether a piece that has a name begins a new call, although its index or id is known.

    Some servers give all parallel calls the index 0 or the same id. Others repeat id and name in every piece.
    """
    if not name:
        return False
    if (call_id and known.id and call_id != known.id) or (known.name and name != known.name):
        return True
    return bool(arguments.strip()) and known.is_whole


def _echo_call(call: PartialCall) -> dict[str, Any]:
    function = {"name": legal_name(call.name), "arguments": sendable_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function, **call.extra}


class OpenAIChatDialect(Dialect):
    path = "/chat/completions"
    reply = OpenAIChatReply
    wire_type = dict
    optional_fields: Mapping[str, re.Pattern[str]] = {
        "output_format": re.compile(r"response_format|json_schema|structured output", re.IGNORECASE),
        "tool_choice": re.compile(r"tool[_ ]?choice", re.IGNORECASE),
        STRICT_TOOLS: re.compile(r"\bstrict\b|invalid schema for function", re.IGNORECASE),
        "effort": re.compile(r"effort", re.IGNORECASE),
        "stream_options": re.compile(r"stream_options|include_usage"),
        "output_limit": re.compile(r"max_tokens|max_completion_tokens"),
        "wire": re.compile(r"reasoning|thought_signature|extra_content"),
    }

    def head(self, system: str, tools: tuple[ToolSpec, ...], without: frozenset[str]) -> bytes:
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True}
        if "stream_options" not in without:
            fields["stream_options"] = {"include_usage": True}
        if self._max_output_tokens and "output_limit" not in without:
            fields[self._endpoint.profile.output_limit_field] = self._max_output_tokens
        if self._effort is not None and "effort" not in without:
            fields["reasoning_effort"] = self._effort
        if tools:
            are_strict = self.declares_strictly(without)
            fields["tools"] = [
                {"type": "function", "function": _function(tool, are_strict)} for tool in tools
            ]
        start = encode_open_object(fields, "messages")
        return start + encode({"role": "system", "content": system}) + b"," if system else start

    def tool_choice(self, tool: str) -> dict[str, Any]:
        return {"type": "function", "function": {"name": tool}}

    def output_format(self, output: OutputFormat) -> dict[str, Any]:
        form = {"name": output.name, "schema": dict(output.request_schema), "strict": output.is_strict}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def items(self, message: Message) -> list[dict[str, Any]]:
        match message.role:
            case "user" | "system":
                return self._user(message)
            case "assistant":
                return self._assistant(message)
            case "tool":
                return list(map(self._result, message.tool_results))

    def _user(self, message: Message) -> list[dict[str, Any]]:
        name = self._name_field(message)
        if all(isinstance(block, Text) for block in message.blocks):
            return [{"role": "user", **name, "content": message.text}] if message.text else []
        return [{**self._make_user_entry(self.render_blocks(message.blocks)), **name}]

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        calls = [self._call(use) for use in message.tool_uses]
        # Assistant messages can only hold text, so a user message shows the model the images of its replies.
        entry: dict[str, Any] = {
            "role": "assistant",
            **self._name_field(message),
            "content": message.display_text or None,
        }
        if calls:
            return [{**entry, "tool_calls": calls, **(self._endpoint.profile.call_message_extra or {})}]
        pictures = self.render_blocks(message.files)
        pictures_entry = (
            [self._make_user_entry([Text(text=YOUR_PICTURES), *pictures])]
            if words_of(pictures) is None
            else []
        )
        return [entry, *pictures_entry] if message.display_text else []

    def _name_field(self, message: Message) -> dict[str, str]:
        name = self.name_of(message)
        return {} if name is None else {"name": name}

    def _call(self, use: ToolUse) -> dict[str, Any]:
        function = {"name": legal_name(use.tool), "arguments": sendable_text(use.arguments)}
        call = {"id": self._id(use.call_id), "type": "function", "function": function}
        return {**call, **(self._endpoint.profile.rebuilt_call_extra or {})}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        words = [
            one.text if isinstance(one, Text) else one.file.label for one in self.render_blocks(result.blocks)
        ]
        content = "\n".join(filter(None, (result.content, *words))) if words else result.content
        return {"role": "tool", "tool_call_id": self._id(result.call_id), "content": content}

    def follow_up(self, messages: Sequence[Message]) -> bytes:
        """Return a user message with the files of results. Few servers accept files in tool messages."""
        given = [one for message in messages for one in self._echo_reasoning(message)]
        return encode(self._make_user_entry(given)) if given else b""

    def _echo_reasoning(self, message: Message) -> list[Text | SentFile]:
        files = [one for one in self.render_blocks(message.files) if isinstance(one, SentFile)]
        names = ", ".join(f"{result.tool} ({self._id(result.call_id)})" for result in message.tool_results)
        return [Text(text=f"[What {names} gave back:]"), *files] if files else []

    def _id(self, call_id: str) -> str:
        return legal_id(call_id, self._endpoint.profile.max_id_chars, is_strict=False)

    def _make_user_entry(self, given: Sequence[Text | SentFile]) -> dict[str, Any]:
        words = words_of(given)
        return {"role": "user", "content": words if words is not None else list(map(self._part, given))}

    def _part(self, given: Text | SentFile) -> dict[str, Any]:
        if isinstance(given, Text):
            return {"type": "text", "text": given.text}
        match given.file:
            case Image(detail=detail):
                image = {"url": given.url, **({"detail": detail} if detail is not None else {})}
                return {"type": "image_url", "image_url": image}
            case Audio():
                return {"type": "input_audio", "input_audio": self._audio(given)}
            case Video():
                return {"type": "video_url", "video_url": {"url": given.url}}
            case Document(name=name):
                return {"type": "file", "file": {"filename": name, "file_data": given.url}}

    def _audio(self, sent: SentFile) -> dict[str, Any]:
        is_address = bool(sent.file.url) or self._endpoint.profile.audio_is_address
        named = AUDIO_FORMATS.get(sent.file.media_type)
        return {"data": sent.url if is_address else sent.data, **({"format": named} if named else {})}


def _function(tool: ToolSpec, is_strict: bool) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description}
    if is_strict and (schema := strict_parameters(tool)) is not None:
        return {**described, "parameters": schema, "strict": True}
    return {**described, "parameters": dict(tool.parameters)}
