"""Converts a server's answer to a tool outcome. All content of the answer is untrusted."""

import base64
import binascii
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import mcp_types as types

from ....actions.ports import ToolOutcome
from ....state.conversation.attachments import AttachedFile
from ....state.conversation.messages import Document, Image, Outcome, Text, encodable
from ....state.errors import UsageError

MAX_TEXT_CHARS = 50_000
_MOST_BLOCKS = 20
"""The most images and documents in one result."""
_MOST_BLOCK_BYTES = 5_000_000
"""The most bytes of one image or document, as base64 text: providers count this size."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

Block = Text | AttachedFile


def outcome_of(result: types.CallToolResult) -> ToolOutcome:
    texts, blocks = read_blocks(result.content)
    structured = _render_structured(result.structured_content, texts)
    return make_outcome([*texts, *structured], blocks, "error" if result.is_error else "ok")


def make_outcome(texts: Sequence[str], blocks: Sequence[Block], outcome: Outcome = "ok") -> ToolOutcome:
    """Return an outcome with these texts. A long text is cut; the artifact store keeps it in full."""
    whole = encodable("\n".join(texts)) or ("" if blocks else "(the server answered nothing)")
    if len(whole) <= MAX_TEXT_CHARS:
        return ToolOutcome(outcome, whole, blocks=tuple(blocks))
    half = MAX_TEXT_CHARS // 2
    cut = (
        f"{whole[:half]}\n\n[... {len(whole) - MAX_TEXT_CHARS:,} characters left out ...]\n\n{whole[-half:]}"
    )
    return ToolOutcome(outcome, cut, full_output=whole.encode(), blocks=tuple(blocks))


def read_blocks(content: Sequence[Any]) -> tuple[list[str], list[Block]]:
    """Return the texts of content blocks, and the images and documents for the model."""
    texts: list[str] = []
    blocks: list[Block] = []
    for one in content:
        found = _read(one)
        if isinstance(found, str):
            texts.append(found)
        elif len(blocks) < _MOST_BLOCKS:
            blocks.append(found)
        else:
            texts.append("(one more file, which is left out)")
    return texts, blocks


def _read(block: Any) -> str | Block:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent):
        return _image(block.mime_type, block.data)
    if isinstance(block, types.AudioContent):
        return f"(audio of type {block.mime_type[:60]}, {len(block.data):,} characters of base64: not shown)"
    if isinstance(block, types.ResourceLink):
        about = f" - {block.description}" if block.description else ""
        return f"(resource {block.uri}: {block.title or block.name}{about})"
    if isinstance(block, types.EmbeddedResource):
        return read_contents(block.resource)
    return "(content of an unknown kind)"


def read_contents(contents: Any) -> str | Image | Document:
    """Return the text of a resource, or an image or document for the model."""
    if isinstance(contents, types.TextResourceContents):
        return f"[{contents.uri}]\n{contents.text}"
    kind: str = contents.mime_type or "application/octet-stream"
    if kind in _IMAGES:
        return _image(kind, contents.blob)
    if kind == "application/pdf" and not _find_fault(contents.blob):
        with suppress(UsageError):
            return Document.from_bytes(base64.b64decode(contents.blob), str(contents.uri)[-100:])
    return f"[{contents.uri}] ({kind[:60]}, {len(contents.blob):,} characters of base64: not shown)"


def _image(kind: str, data: str) -> str | Image:
    if kind not in _IMAGES:
        return f"(an image of type {kind[:60]}, which no model takes: not shown)"
    if problem := _find_fault(data):
        return f"(an image that {problem}: not shown)"
    try:
        return Image.from_bytes(base64.b64decode(data))
    except UsageError:
        return f"(an image whose bytes are not a picture of type {kind}: not shown)"


def _find_fault(data: str) -> str:
    if len(data) > _MOST_BLOCK_BYTES:
        return f"takes {len(data):,} bytes, where {_MOST_BLOCK_BYTES:,} is the most"
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return "is not valid base64"
    return ""


def _render_structured(content: Any, texts: Sequence[str]) -> list[str]:
    """Return structured content as JSON, or an empty list if a text block has the same content."""
    if content is None:
        return []
    try:
        written = json.dumps(content, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ["(structured content that is not plain JSON)"]
    for text in texts:
        if len(text) <= 2 * len(written) + 1000 and _is_same(text, content):
            return []
    return [written]


def _is_same(text: str, content: Any) -> bool:
    if isinstance(content, dict) and list(cast("dict[str, Any]", content).values()) == [text]:
        return True
    try:
        return bool(json.loads(text) == content)
    except (ValueError, RecursionError):
        return False
