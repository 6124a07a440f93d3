"""The inputs of an editor: the parts of a message, and tool servers."""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AcpMcpServer,
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    HttpMcpServer,
    ImageContentBlock,
    McpServerStdio,
    ResourceContentBlock,
    SseMcpServer,
    TextContentBlock,
)

from ...agent.extensions.mcp.configuration.servers import SERVER_NAME
from ...state.conversation.attachments import MAX_TEXT_BYTES, AttachedFile, attachment_from_bytes
from ...state.conversation.content import format_attachment_size
from ...state.conversation.messages import UserContent
from ...state.errors import UsageError

PromptBlock = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock
    | EmbeddedResourceContentBlock
)  # fmt: skip
HandedServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio


def message_of(blocks: Iterable[PromptBlock]) -> UserContent:
    """Return the person's message; a single text may be a command; raises `UsageError`.

    Links are not read here: the model reads them with its tools, through the gate.
    """
    parts: list[str | AttachedFile] = []
    for block in blocks:
        part = _part(block)
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    if not any(part.strip() if isinstance(part, str) else True for part in parts):
        raise UsageError("The message is empty.")
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else tuple(parts)


def _part(block: PromptBlock) -> str | AttachedFile:
    match block:
        case TextContentBlock():
            return block.text
        case ImageContentBlock():
            return attachment_from_bytes(_decode(block.data), _name(block.uri or "") or "The picture")
        case ResourceContentBlock():
            return _place(block.uri)
        case EmbeddedResourceContentBlock():
            return _resource(block)
        case AudioContentBlock():
            return attachment_from_bytes(_decode(block.data), "The audio")


def _resource(block: EmbeddedResourceContentBlock) -> str | AttachedFile:
    resource = block.resource
    if isinstance(resource, BlobResourceContents):
        return attachment_from_bytes(_decode(resource.blob), _name(resource.uri) or "The file")
    size = len(resource.text.encode("utf-8", "replace"))
    if size > MAX_TEXT_BYTES:
        raise UsageError(
            f"{_place(resource.uri)} is too large to be sent whole: {format_attachment_size(size)}.",
            "Name its path, so that the agent can read it with its tools.",
        )
    place = _place(resource.uri).replace('"', "%22")
    return f'\n<resource uri="{place}">\n{resource.text}\n</resource>\n'


def _place(uri: str) -> str:
    """Return the path of a `file:` address, because tools take paths; return any other address unchanged."""
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri


def _name(uri: str) -> str:
    return _place(uri).rstrip("/").rpartition("/")[2]


def _decode(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("A file in the message is not valid base64.") from None


def servers_of_editor(servers: Sequence[HandedServer] | None) -> dict[str, Any]:
    """Return servers as a configuration lists them; raises `UsageError` for a kind that cannot be reached."""
    found: dict[str, Any] = {}
    for server in servers or ():
        found[_free_name(server.name, found)] = _table(server)
    return found


def _table(server: HandedServer) -> dict[str, Any]:
    match server:
        case McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": list(server.args), "env": env}
        case HttpMcpServer() | SseMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case AcpMcpServer():
            name = server.name[:40]
            raise UsageError(f"The tool server {name} cannot be reached: it runs inside the editor.")


_MOST_NAME_CHARS = 28


def _free_name(name: str, taken: Iterable[str]) -> str:
    """Return an unused server name that is valid in the names of tools."""
    words = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:_MOST_NAME_CHARS]
    fitting = words if re.fullmatch(SERVER_NAME, words) else f"s{words}"
    number, free = 2, fitting
    while free in taken:
        number, free = number + 1, f"{fitting}-{number}"
    return free
