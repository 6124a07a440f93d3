"""A turn as the events of the three wire formats, as the real servers send them."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from support.models.turns import ToolCall, Turn

Wire = Literal["chat", "responses", "messages"]

_ids = itertools.count(1)


def events_of(wire: Wire, turn: Turn, model: str, request_bytes: int) -> list[bytes]:
    """Return the stream's events; the last one ends the reply."""
    turn = replace(turn, calls=tuple(_with_id(wire, one) for one in turn.calls))
    make = {"chat": _chat, "responses": _responses, "messages": _messages}[wire]
    end = turn.line_end
    return [text.replace("\n", end).encode() for text in make(turn, model, max(1, request_bytes // 4))]


def _with_id(wire: Wire, wanted: ToolCall) -> ToolCall:
    prefix = "toolu" if wire == "messages" else "call"
    return replace(wanted, id=f"{prefix}_{next(_ids):06d}") if wanted.id is None else wanted


def _pieces(text: str, number: int) -> list[str]:
    size = max(1, -(-len(text) // number))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _chat(turn: Turn, model: str, tokens: int) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data(
            {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model, "choices": [choice]}
        )

    yield chunk({"role": "assistant", "content": "", **turn.extra})
    for piece in _pieces(turn.reasoning, turn.pieces):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(turn.text, turn.pieces):
        yield chunk({"content": piece})
    for index, wanted in enumerate(turn.calls):
        first = {"index": index, "id": wanted.id, "type": "function", **wanted.extra}
        yield chunk({"tool_calls": [{**first, "function": {"name": wanted.name, "arguments": ""}}]})
        for piece in _pieces(wanted.arguments, turn.pieces):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if turn.finish != "":
        yield chunk({}, turn.finish or ("tool_calls" if turn.calls else "stop"))
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 10,
        "total_tokens": tokens + 10,
        "prompt_tokens_details": {"cached_tokens": tokens // 2},
    }
    yield _data({"id": "chatcmpl-1", "choices": [], "usage": usage if turn.usage is None else turn.usage})
    yield "data: [DONE]\n\n"


def _responses(turn: Turn, model: str, tokens: int) -> Iterator[str]:
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> str:
        data = {"type": kind, "sequence_number": next(numbers), **fields}
        return f"event: {kind}\n{_data(data)}"

    yield event("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})
    output: list[dict[str, Any]] = []
    for place, (item, kind, text) in enumerate(_output_items(turn)):
        opened = {**item, "arguments": ""} if "arguments" in item else {**item, "content": []}
        yield event("response.output_item.added", output_index=place, item=opened)
        for piece in _pieces(text, turn.pieces):
            yield event(kind, output_index=place, item_id=item["id"], delta=piece)
        if not (turn.finish == "max_output_tokens" and place == len(turn.calls)):
            yield event("response.output_item.done", output_index=place, item=item)
        output.append(item)
    usage = {
        "input_tokens": tokens,
        "output_tokens": 10,
        "total_tokens": tokens + 10,
        "input_tokens_details": {"cached_tokens": tokens // 2},
    }
    status = "incomplete" if turn.finish else "completed"
    response: dict[str, Any] = {"id": "resp_1", "model": model, "status": status, "output": output}
    response["usage"] = usage if turn.usage is None else turn.usage
    if turn.finish:
        response["incomplete_details"] = {"reason": turn.finish}
    yield event(f"response.{status}", response=response)


def _output_items(turn: Turn) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield each output item, the type of its deltas, and their text."""
    if turn.reasoning:
        item = {
            "id": f"rs_{next(_ids)}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": turn.reasoning}],
            "encrypted_content": f"enc-{next(_ids)}",
        }
        yield item, "response.reasoning_summary_text.delta", turn.reasoning
    if turn.text:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        message = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
        yield {"id": f"msg_{next(_ids)}", **message, **turn.extra}, "response.output_text.delta", turn.text
    for drawn in turn.pictures:
        item = {"id": f"ig_{next(_ids)}", "type": "image_generation_call", "status": "completed"}
        yield {**item, "result": drawn}, "response.image_generation_call.partial_image", ""
    for wanted in turn.calls:
        item = {
            "id": f"fc_{next(_ids)}",
            "type": "function_call",
            "status": "completed",
            "call_id": wanted.id,
            "name": wanted.name,
            "arguments": wanted.arguments,
        }
        yield item, "response.function_call_arguments.delta", wanted.arguments


def _messages(turn: Turn, model: str, tokens: int) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f"event: {kind}\n{_data({'type': kind, **fields})}"

    given = {
        "input_tokens": tokens // 2,
        "cache_creation_input_tokens": tokens // 4,
        "cache_read_input_tokens": tokens // 4,
        "output_tokens": 1,
    }
    usage = given if turn.usage is None else turn.usage
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    yield event("message_start", message={**start, "stop_reason": None, "usage": usage})
    yield event("ping")
    for index, (block, deltas) in enumerate(_content_blocks(turn)):
        yield event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    if turn.finish != "":
        reason = turn.finish or ("tool_use" if turn.calls else "end_turn")
        more = {"output_tokens": 10} if turn.usage is None else {}
        yield event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=more)
    yield event("message_stop")


def _content_blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if turn.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(turn.reasoning, turn.pieces)
        ]
        deltas.append({"type": "signature_delta", "signature": f"sig-{next(_ids)}"})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if turn.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in _pieces(turn.text, turn.pieces)],
        )
    for wanted in turn.calls:
        block = {"type": "tool_use", "id": wanted.id, "name": wanted.name, "input": {}}
        pieces = _pieces(wanted.arguments, turn.pieces)
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
