"""Strict checks of the requests that reach the local model server, as the real providers make them."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from support.models.files import BadFile, check_chat_part, check_messages_block, check_responses_part

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadHistory(Exception):
    """A request that a provider would refuse with status 400."""


def check_request(wire: str, body: dict[str, Any]) -> None:
    _require(isinstance(body.get("model"), str) and body["model"], "model: missing")
    _require(body.get("stream") is True, "stream: only streams are served here")
    checks: dict[str, Callable[[dict[str, Any]], None]] = {
        "chat": _check_chat,
        "responses": _check_responses,
        "messages": _check_messages,
    }
    try:
        checks[wire](body)
    except BadFile as problem:
        raise BadHistory(str(problem)) from None


def _require(is_fine: Any, problem: str) -> None:
    if not is_fine:
        raise BadHistory(problem)


def _check_name(name: Any, where: str) -> None:
    _require(isinstance(name, str) and _NAME.fullmatch(name), f"{where}: {name!r} is no legal name")


def _check_unique(ids: Iterable[str], where: str) -> None:
    listed = list(ids)
    _require(all(isinstance(one, str) and one for one in listed), f"{where}: a call without id")
    _require(len(set(listed)) == len(listed), f"{where}: ids are not unique: {listed}")


def _check_chat(body: dict[str, Any]) -> None:
    messages = body["messages"]
    _require(messages, "messages: empty")
    waiting: list[str] = []
    for number, message in enumerate(messages):
        where, role = f"messages.{number}", message.get("role")
        if role == "tool":
            _require(
                message.get("tool_call_id") in waiting,
                f"{where}: role 'tool' must follow the call it answers, once: {message.get('tool_call_id')}",
            )
            waiting.remove(message["tool_call_id"])
            _require(isinstance(message.get("content"), str), f"{where}: content must be text")
            continue
        _require(not waiting, f"{where}: tool_call_ids without a response: {waiting}")
        _require(role in ("system", "user", "assistant"), f"{where}: unknown role {role!r}")
        _require(role != "system" or number == 0, f"{where}: only one system message, first")
        if role == "assistant":
            waiting = _check_chat_assistant(message, where)
        else:
            _require(message.get("content"), f"{where}: content is empty")
            for part in message["content"] if isinstance(message["content"], list) else ():
                check_chat_part(part)
    _require(not waiting, f"tool_call_ids without a response: {waiting}")
    _require(messages[-1]["role"] != "assistant", "the last message is the assistant's")


def _check_chat_assistant(message: dict[str, Any], where: str) -> list[str]:
    wanted = message.get("tool_calls") or []
    _require(isinstance(message.get("content"), str | None), f"{where}: content must be text")
    _require(wanted or message.get("content"), f"{where}: neither content nor tool_calls")
    _check_unique([one["id"] for one in wanted], where)
    for one in wanted:
        _require(one.get("type") == "function", f"{where}: type of a call")
        _check_name(one["function"]["name"], where)
        _check_arguments(one["function"]["arguments"], where)
    return [one["id"] for one in wanted]


def _check_arguments(text: Any, where: str) -> None:
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        raise BadHistory(f"{where}: arguments are no JSON: {text!r}") from None
    _require(isinstance(value, dict), f"{where}: arguments are no object: {text!r}")


def _check_responses(body: dict[str, Any]) -> None:
    _require(body.get("store") is False, "store must be false")
    items = body["input"]
    _require(items, "input: empty")
    waiting: list[str] = []
    answering = False
    for number, item in enumerate(items):
        where, kind = f"input[{number}]", item.get("type", "message")
        if kind == "function_call_output":
            _require(item.get("call_id") in waiting, f"{where}: no call found for {item.get('call_id')}")
            waiting.remove(item["call_id"])
            answering = True
            for part in item["output"] if isinstance(item["output"], list) else ():
                check_responses_part(part)
            continue
        # Parallel calls and what belongs to the same reply stand together before the first output.
        same_reply = kind == "function_call" and not answering
        _require(not waiting or same_reply, f"{where}: no tool output found for {waiting}")
        answering = False
        if kind == "function_call":
            _check_name(item.get("name"), where)
            _check_arguments(item.get("arguments"), where)
            waiting.append(item.get("call_id", ""))
            _check_unique(waiting, where)
        elif kind == "reasoning":
            follows = number + 1 < len(items) and items[number + 1]
            is_followed = follows and (
                follows.get("type") == "function_call" or follows.get("role") == "assistant"
            )
            _require(is_followed, f"{where}: reasoning without its required following item")
        else:
            _require(item.get("role") in ("user", "assistant"), f"{where}: unknown item {kind!r}")
            _require(item.get("content"), f"{where}: content is empty")
            if item["role"] == "user" and isinstance(item["content"], list):
                for part in item["content"]:
                    check_responses_part(part)
    _require(not waiting, f"no tool output found for {waiting}")
    _require(items[-1].get("role") != "assistant", "the last item is the assistant's")


def _check_messages(body: dict[str, Any]) -> None:
    _require(isinstance(body.get("max_tokens"), int), "max_tokens: field required")
    messages = body["messages"]
    _require(messages and messages[0]["role"] == "user", "messages: the first must be the user's")
    waiting: list[str] = []
    before = None
    for number, message in enumerate(messages):
        where, role, content = f"messages.{number}", message["role"], message["content"]
        _require(role in ("user", "assistant") and role != before, f"{where}: roles must alternate")
        before = role
        _require(content, f"{where}: content is empty")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            is_empty = block["type"] == "text" and not block["text"].strip()
            _require(not is_empty, f"{where}: text content blocks must contain non-whitespace text")
            check_messages_block(block, role)
        if role == "user":
            _check_results(blocks, waiting, where)
            waiting = []
        else:
            waiting = _check_uses(blocks, where)
    _require(not waiting, f"tool_use ids without tool_result: {waiting}")
    _require(before == "user", "the last message must be the user's")
    _require(
        "tool_choice" not in body or "thinking" not in body, "thinking does not go with a forced tool_choice"
    )


def _check_results(blocks: list[dict[str, Any]], waiting: list[str], where: str) -> None:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    _require(sorted(answered) == sorted(waiting), f"{where}: results {answered} for the calls {waiting}")
    leading = [block["type"] for block in blocks[: len(answered)]]
    _require(set(leading) <= {"tool_result"}, f"{where}: tool_result blocks must come first")


def _check_uses(blocks: list[dict[str, Any]], where: str) -> list[str]:
    uses = [block for block in blocks if block["type"] == "tool_use"]
    _check_unique([use["id"] for use in uses], where)
    for use in uses:
        _check_name(use["name"], where)
        _require(_NAME.fullmatch(use["id"]), f"{where}: {use['id']!r} is no legal id")
        _require(isinstance(use["input"], dict), f"{where}: input is no object")
    for block in blocks:
        if block["type"] == "thinking":
            _require(block.get("signature"), f"{where}: Invalid `signature` in `thinking` block")
    return [use["id"] for use in uses]
