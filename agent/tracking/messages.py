"""Stored messages as a page shows them."""

import json
from collections.abc import Mapping
from typing import Any, cast

from agent.tracking.texts import Texts

Json = dict[str, Any]


def parsed(body: str) -> Json:
    """Read a stored message; a damaged one says so."""
    try:
        message = json.loads(body)
        if isinstance(message, dict) and isinstance(message["blocks"], list):
            return cast("Json", message)
    except (ValueError, KeyError, RecursionError):
        pass
    return {"role": "?", "origin": "?", "blocks": [{"kind": "text", "text": "(damaged record)"}]}


def message_view(message: Mapping[str, Any], texts: Texts, limit: int = 2000) -> Json:
    """Return what a message says under the name of who says it, long texts cut."""
    origin = str(message.get("origin") or message.get("role"))
    view: Json = {}
    for block in blocks(message):
        match kind := block.get("kind"):
            case "text" | "thinking":
                name = origin if kind == "text" else "thinking"
                view[name] = view.get(name, "") + texts.shown(str(block.get("text", "")), limit)
            case "tool_use":
                view.setdefault("calls", []).append(_call(block, texts, limit))
            case "tool_result":
                view |= _result(block, texts, limit)
            case _:
                size = len(str(block.get("data", "")))
                view.setdefault("attached", []).append(
                    f"{kind} {block.get('media_type', '')}, {size:,} bytes"
                )
    return view


def blocks(message: Mapping[str, Any]) -> list[Json]:
    return [block for block in message["blocks"] if isinstance(block, dict)]


def arguments_in(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of each call that a message asks for."""
    uses = (block for block in blocks(message) if block.get("kind") == "tool_use")
    return {str(use.get("call_id")): str(use.get("arguments", "")) for use in uses}


def arguments_view(arguments: str, texts: Texts, limit: int = 2000) -> Any:
    """Return a call's arguments as JSON, or as the text they are."""
    try:
        return texts.value(json.loads(arguments), limit)
    except (ValueError, RecursionError):
        return texts.shown(arguments, limit)


def _call(block: Json, texts: Texts, limit: int) -> Json:
    arguments = arguments_view(str(block.get("arguments", "")), texts, limit)
    return {str(block.get("tool")): arguments, "call_id": block.get("call_id")}


def _result(block: Json, texts: Texts, limit: int) -> Json:
    kept = {name: block.get(name) for name in ("tool", "outcome", "duration_ms", "call_id")}
    return {**kept, "content": texts.shown(str(block.get("content", "")), limit)}
