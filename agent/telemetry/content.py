"""What was said and done, as the conventions write it on spans: only for those who opted in, masked."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from state.messages import Block, Message, Text, Thinking, ToolResult, ToolUse, encodable
from state.transcript import Transcript

_MAX_CHARS = 64 * 1024
"""Of one attribute; of a history the newest messages are kept."""
_MAX_PART_CHARS = 16 * 1024


class Content:
    """Writes content with the secrets taken out."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def text(self, text: str, most: int = _MAX_CHARS) -> str:
        """Return text that is exported as it is: arguments, results."""
        masked = self._mask(encodable(text))
        left_out = len(masked) - most
        return masked if left_out <= 0 else f"{masked[:most]}[... {left_out} characters left out]"

    def instructions(self, system: str) -> str:
        return _json([{"type": "text", "content": self.text(system)}])

    def said(self, role: str, text: str) -> str:
        return _json([{"role": role, "parts": [{"type": "text", "content": self.text(text)}]}])

    def request(self, histories: Iterable[Transcript]) -> str:
        """Return messages in the order in which they were said; where it is too much, without the oldest."""
        found: list[Mapping[str, Any]] = []
        room = _MAX_CHARS
        for message in _newest_first(tuple(histories)):
            written = self._message(message)
            room -= len(_json(written))
            if found and room < 0:
                break
            found.insert(0, written)
        return _json(found)

    def reply(self, message: Message, finish: str) -> str:
        return _json([{**self._message(message), "finish_reason": finish}])

    def _message(self, message: Message) -> dict[str, Any]:
        return {"role": message.role, "parts": [self._part(block) for block in message.blocks]}

    def _part(self, block: Block) -> dict[str, Any]:
        match block:
            case Text():
                return {"type": "text", "content": self.text(block.text, _MAX_PART_CHARS)}
            case Thinking():
                return {"type": "reasoning", "content": self.text(block.text, _MAX_PART_CHARS)}
            case ToolUse():
                arguments = _value(self.text(block.arguments, _MAX_PART_CHARS))
                return {"type": "tool_call", "id": block.call_id, "name": block.tool, "arguments": arguments}
            case ToolResult():
                content = self.text(block.content, _MAX_PART_CHARS)
                return {"type": "tool_call_response", "id": block.call_id, "response": content}
            case _:
                return {"type": block.kind, "mime_type": block.media_type}


def _newest_first(histories: tuple[Transcript, ...]) -> Iterator[Message]:
    for history in reversed(histories):
        for log, start, end in reversed(history.spans):
            yield from (log.messages[index] for index in range(end - 1, start - 1, -1))


def _value(arguments: str) -> Any:
    """Return arguments as the conventions want them; what is no JSON stays text."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _json(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))
