"""Reads the history of a run from a model request, in the same way for all three wire formats."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from support.models.server import Request

_LIST = {"chat": "messages", "responses": "input", "messages": "messages"}
_BRIEFING = re.compile(r"Step (\d+) of \d+: ")
_TASK = re.compile(r"(?:Step \d+ of \d+: )?Write (\w+)\.")
SUMMARIZE = "Below is the older part of this session"
SUMMARIZED = "Summary of what came before"


@dataclass(frozen=True)
class Said:
    """One message, call or result."""

    kind: Literal["user", "assistant", "call", "result"]
    text: str
    """The text; of a call its arguments."""
    id: str = ""
    tool: str = ""
    of: int = 0
    """The number of the message that contains the entry."""


class Past:
    """The history in one request."""

    def __init__(self, request: Request, trial: str = "") -> None:
        """`trial` is the name of the trial, because trials may share a store."""
        self.request = request
        self.trial = trial
        read = {"chat": _chat, "responses": _responses, "messages": _messages}[request.wire]
        self.entries = list(read(request.body[_LIST[request.wire]]))

    @property
    def wants_plan(self) -> bool:
        choice = self.request.body.get("tool_choice")
        return isinstance(choice, dict) and "submit_plan" in json.dumps(choice)

    @cached_property
    def step(self) -> str:
        """The plan step that has this history; empty for the main history."""
        found = [_BRIEFING.match(entry.text) for entry in self.entries if entry.kind == "user"]
        return next((match[1] for match in reversed(found) if match), "")

    @cached_property
    def child(self) -> str:
        """The word that a sub-agent with this history has to write; empty for another history."""
        match = _TASK.match(self.users[0]) if self.users else None
        return match[1] if match else ""

    @property
    def summarizes(self) -> bool:
        return any(SUMMARIZE in entry.text for entry in self.entries)

    @property
    def is_summarized(self) -> bool:
        return any(SUMMARIZED in entry.text for entry in self.entries)

    @property
    def thread(self) -> str:
        """The name of the history; each request of a history extends the request before."""
        if self.summarizes:
            return "summary"
        if self.child:
            return f"child {self.child}"
        return f"{'short ' if self.is_summarized else ''}{self.step and 'step ' + self.step}"

    @property
    def rounds(self) -> int:
        """How many times the model called tools since the last user message."""
        newest = max((n for n, entry in enumerate(self.entries) if entry.kind == "user"), default=0)
        return len({entry.of for entry in self.entries[newest:] if entry.kind == "call"})

    @property
    def users(self) -> list[str]:
        return [entry.text for entry in self.entries if entry.kind == "user"]

    @property
    def results(self) -> dict[str, tuple[str, str]]:
        """Arguments of a call -> call id and result."""
        answers = {entry.id: entry.text for entry in self.entries if entry.kind == "result"}
        return {entry.text: (entry.id, answers[entry.id]) for entry in self.entries if entry.kind == "call"}

    @cached_property
    def head(self) -> str:
        """System prompt and tools: the same for a whole session."""
        body = self.request.body
        first = body["messages"][0] if self.request.wire == "chat" else None
        return json.dumps([body.get("tools"), body.get("system"), body.get("instructions"), first])

    @cached_property
    def core(self) -> str:
        """The messages as they were sent, without the brackets that close them."""
        raw = self.request.raw.decode()
        name = f'"{_LIST[self.request.wire]}":'
        start = raw.index(name) + len(name)
        while raw[start] == " ":
            start += 1
        _, end = json.JSONDecoder().raw_decode(raw, start)
        return raw[start:end].rstrip("]}")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or ())


def _chat(messages: list[dict[str, Any]]) -> Any:
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            yield Said("result", message["content"], message["tool_call_id"], of=number)
        elif role != "system":
            if message.get("content"):
                yield Said(role, _text(message["content"]), of=number)
            for wanted in message.get("tool_calls") or ():
                asked = wanted["function"]
                yield Said("call", asked["arguments"], wanted["id"], asked["name"], number)


def _responses(items: list[dict[str, Any]]) -> Any:
    group, before = 0, ""
    for item in items:
        kind = item.get("type", "message")
        if kind != before:
            group += 1
        before = kind
        if kind == "function_call_output":
            yield Said("result", item["output"], item["call_id"], of=group)
        elif kind == "function_call":
            yield Said("call", item["arguments"], item["call_id"], item["name"], group)
        elif kind == "message":
            yield Said(item["role"], _text(item["content"]), of=group)


def _messages(messages: list[dict[str, Any]]) -> Any:
    for number, message in enumerate(messages):
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text":
                    yield Said(message["role"], block["text"], of=number)
                case "tool_use":
                    arguments = json.dumps(block["input"])
                    yield Said("call", arguments, block["id"], block["name"], number)
                case "tool_result":
                    yield Said("result", _text(block["content"]), block["tool_use_id"], of=number)
