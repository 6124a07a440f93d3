"""The model of an inspect evaluation, as a model of Sandbur: inspect sends, counts and logs the requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    StopReason,
    get_model_info,
)
from inspect_ai.model import Model as InspectedModel
from inspect_ai.tool import ToolCall, ToolCallError, ToolChoice, ToolFunction, ToolInfo
from pydantic import ValidationError

from .....actions.ports import FinishReason, ModelEvent, ModelRequest, Reply, list_events
from .....state.application import Usage
from .....state.conversation.messages import Block, Message, Text, Thinking, ToolResult, ToolUse, Wire
from .....state.errors import ModelError

_WIRE = "inspect"
_UNKNOWN_WINDOW = 128_000
"""The context window of a model that inspect does not know, in tokens."""
_FINISH: dict[StopReason, FinishReason] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "refusal",
    "unknown": "stop",
}


class InspectModel:
    """A `sandbur.Model` whose requests are sent by a model of inspect."""

    def __init__(self, model: InspectedModel) -> None:
        self.name = str(model)
        info = get_model_info(model)
        self.context_window = (info and info.context_length) or _UNKNOWN_WINDOW
        self.failure: Exception | None = None
        """The last error of inspect, such as a limit of the sample that is reached."""
        self._model = model

    async def aclose(self) -> None:
        """Do nothing: the model belongs to inspect."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        messages = [each for message in request.messages for each in to_inspect(message, self.name)]
        if request.system:
            messages.insert(0, ChatMessageSystem(content=request.system))
        tools = [_describe_tool(spec.name, spec.description, spec.parameters) for spec in request.tools]
        try:
            output = await self._model.generate(
                messages, tools, _choose_tool(request) if tools else None, GenerateConfig()
            )
        except Exception as error:
            self.failure = error
            raise ModelError(f"The evaluation stopped the request: {error}") from error
        if output.error:
            raise ModelError(f"{self.name} failed: {output.error}")
        for event in list_events(_read_reply(output, self.name)):
            yield event


def to_inspect(message: Message, model: str = "") -> list[ChatMessage]:
    """Return a message in the form of inspect; files are named, and not sent.

    A reply of `model` keeps what only its provider understands, such as signatures of its thinking.
    """
    match message.role:
        case "assistant":
            return [_to_assistant(message, model)]
        case "tool":
            return [_to_result(result) for result in message.tool_results]
        case "system" | "user":
            return [ChatMessageUser(content=message.display_text)]


def _to_assistant(message: Message, model: str) -> ChatMessageAssistant:
    wire = message.wire
    if wire is not None and wire.provider == _WIRE and wire.model == model:
        try:
            return ChatMessageAssistant.model_validate(wire.body)
        except ValidationError:  # another version of inspect wrote it
            pass
    contents: list[Content] = []
    for block in message.blocks:
        if isinstance(block, Text):
            contents.append(ContentText(text=block.text))
        elif isinstance(block, Thinking):
            contents.append(ContentReasoning(reasoning=block.text))
    calls = [ToolCall(one.call_id, one.tool, _parse_arguments(one.arguments)) for one in message.tool_uses]
    return ChatMessageAssistant(content=contents, tool_calls=calls or None)


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}


def _to_result(result: ToolResult) -> ChatMessageTool:
    error = None
    if result.outcome != "ok":
        kind = {"timeout": "timeout", "denied": "approval", "interrupted": "cancelled"}
        error = ToolCallError(cast("Any", kind.get(result.outcome, "unknown")), result.display_text)
    return ChatMessageTool(
        content=result.display_text, tool_call_id=result.call_id, function=result.tool, error=error
    )


def _describe_tool(name: str, description: str, parameters: Any) -> ToolInfo:
    return ToolInfo.model_validate(
        {"name": name, "description": description, "parameters": json.loads(json.dumps(parameters))}
    )


def _choose_tool(request: ModelRequest) -> ToolChoice:
    if request.forced_tool is not None:
        return ToolFunction(request.forced_tool)
    return "any" if request.tool_choice == "required" else request.tool_choice


def _read_reply(output: ModelOutput, model: str) -> Reply:
    if output.empty:
        raise ModelError(f"{model} returned no answer.")
    given = output.message
    blocks: list[Block] = []
    parts: list[Content] = (
        [ContentText(text=given.content)] if isinstance(given.content, str) else given.content
    )
    for part in parts:
        if isinstance(part, ContentText) and part.text:
            blocks.append(Text(text=part.text))
        elif isinstance(part, ContentReasoning) and not part.redacted:
            blocks.append(Thinking(text=part.reasoning))
    calls = given.tool_calls or []
    blocks += [
        ToolUse(call_id=call.id, tool=call.function, arguments=json.dumps(call.arguments)) for call in calls
    ]
    wire = Wire(provider=_WIRE, model=model, body=given.model_dump(mode="json", exclude_none=True))
    message = Message(role="assistant", origin="model", blocks=tuple(blocks), wire=wire)
    finish = "tool_calls" if calls else _FINISH[output.stop_reason]
    return Reply(message, finish, _read_usage(output))


def _read_usage(output: ModelOutput) -> Usage:
    used = output.usage
    if used is None:
        unknown = dict.fromkeys(set(Usage.model_fields) - {"llm_calls"})
        return Usage.model_validate({"llm_calls": 1, **unknown})
    read, written = used.input_tokens_cache_read or 0, used.input_tokens_cache_write or 0
    return Usage(
        llm_calls=1,
        input_tokens=used.input_tokens + read + written,
        output_tokens=used.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=used.total_cost,
    )
