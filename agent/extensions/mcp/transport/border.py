"""Checks messages from a server before the MCP library parses them: size, malformed entries, floods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import mcp_types as types
from pydantic import BaseModel, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage

MOST_MESSAGE_BYTES = 10_000_000
MOST_ENTRIES = 1000
"""The most entries on one page of a list. Further entries are ignored."""
_QUIET = frozenset({"notifications/message"})
"""The notifications that are dropped, because nothing handles them."""
_ENTRIES: Mapping[str, TypeAdapter[Any]] = {
    "tools": TypeAdapter(types.Tool),
    "resources": TypeAdapter(types.Resource),
    "resourceTemplates": TypeAdapter(types.ResourceTemplate),
    "prompts": TypeAdapter(types.Prompt),
}


class _PlainSchema(BaseModel):
    """The schema of arguments in the form that every version of the protocol accepts."""

    type: Literal["object"]
    properties: dict[str, dict[str, Any]] | None = None
    required: list[str] | None = None


_PLAIN_SCHEMA = TypeAdapter(_PlainSchema)
_BLOCK: TypeAdapter[Any] = TypeAdapter(types.ContentBlock)


class CheckedStream:
    """A stream of messages from a server. A malformed message is repaired where possible."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], note: Callable[[str], None]) -> None:
        """`note` is called with a clause for each part that was left out."""
        self._inner = inner
        self._note = note

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.receive()
            if isinstance(item, Exception) or not self._is_dropped(item.message):
                return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.__anext__()
            if isinstance(item, Exception) or not self._is_dropped(item.message):
                return item

    def _is_dropped(self, message: Any) -> bool:
        if isinstance(message, types.JSONRPCNotification):
            return message.method in _QUIET
        if isinstance(message, types.JSONRPCResponse):
            repair(message.result, self._note)
        return False

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def repair(result: dict[str, Any], note: Callable[[str], None]) -> None:
    """Remove the parts of a result for which the MCP library would reject all of it."""
    for key, adapter in _ENTRIES.items():
        if isinstance(result.get(key), list):
            result[key] = _select_valid(key, result[key], adapter, note)
    if isinstance(result.get("content"), list):
        result["content"] = [_keep_known_block(block) for block in result["content"][:MOST_ENTRIES]]


def _select_valid(
    key: str, entries: list[Any], adapter: TypeAdapter[Any], note: Callable[[str], None]
) -> list[Any]:
    kept: list[Any] = []
    for entry in entries[:MOST_ENTRIES]:
        try:
            adapter.validate_python(entry, by_name=False)
            if key == "tools":
                _PLAIN_SCHEMA.validate_python(entry["inputSchema"])
            # The library would validate answers by this schema. For a hostile schema that never ends.
            entry.pop("outputSchema", None)
            kept.append(entry)
        except (ValidationError, RecursionError):
            note(f"an entry of its {key} is not valid: {_describe_entry(entry)}")
    if len(entries) > MOST_ENTRIES:
        note(f"it sent {len(entries):,} {key} at once; the first {MOST_ENTRIES:,} were read")
    return kept


def _keep_known_block(block: Any) -> Any:
    try:
        _BLOCK.validate_python(block, by_name=False)
        return block
    except (ValidationError, RecursionError):
        kind = cast("dict[str, Any]", block).get("type") if isinstance(block, dict) else None
        return {"type": "text", "text": f"(content of an unknown kind: {str(kind)[:40]!r})"}


def _describe_entry(entry: Any) -> str:
    name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
    return repr(str(name)[:60])
