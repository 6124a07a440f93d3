"""Tool servers for programs: a program uses their tools, prompts and resources without a model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_types as types

from .....actions.ports import BadArguments, ToolContext, ToolOutcome
from .....state.conversation.messages import Document, Image, Text, encodable
from .....state.errors import UsageError
from ....runtime.tool_servers import ServerPrompt, ServerResource, ServerTool
from ..connection import NoAnswer, ServerDown, ServerLost, ServerRefused
from ..results import read_contents
from ..text import one_line
from .resources import fetch_resources

if TYPE_CHECKING:
    from ..source import McpSource


class ProgramServers:
    """Gives a program access to the tool servers of a session. It implements `ToolServers`."""

    def __init__(self, source: McpSource) -> None:
        self._source = source

    async def list_tools(self) -> Sequence[ServerTool]:
        await self._source.tools()
        return [
            ServerTool(tool.server, tool.name_there, tool.spec.description, tool.spec.parameters)
            for tool in self._source.list_server_tools()
        ]

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Any] | None = None
    ) -> ToolOutcome:
        await self._source.tools()
        self._source.connection_of(server)
        own = {one.name_there: one for one in self._source.list_server_tools() if one.server == server}
        if tool not in own:
            raise UsageError(
                f"The tool server {server} has no tool {tool!r}.", f"It has: {', '.join(own) or 'none'}."
            )
        try:
            given = own[tool].parse(json.dumps(dict(arguments or {})))
        except BadArguments as error:
            raise UsageError(str(error)) from None
        return await own[tool].run(given, ToolContext("", Path.cwd(), _show_nothing))

    async def list_prompts(self) -> Sequence[ServerPrompt]:
        return await self._source.prompts.list_prompts()

    async def get_prompt(self, server: str, prompt: str, arguments: Mapping[str, str] | None = None) -> str:
        self._source.connection_of(server)
        known = [one for one in await self.list_prompts() if one.server == server]
        for one in known:
            if one.name == prompt:
                return await self._source.prompts.render_prompt(one, arguments or {})
        names = ", ".join(one.name for one in known) or "none"
        raise UsageError(f"The tool server {server} has no prompt {prompt!r}.", f"It has: {names}.")

    async def list_resources(self, server: str) -> Sequence[ServerResource]:
        connection = self._source.connection_of(server)
        async with _translate_errors(server):
            found, templates = await fetch_resources(connection)
        return [
            *(_describe_resource(server, str(one.uri), one) for one in found),
            *(_describe_resource(server, one.uri_template, one, is_template=True) for one in templates),
        ]

    async def read_resource(self, server: str, uri: str) -> Sequence[Text | Image | Document]:
        connection = self._source.connection_of(server)
        async with _translate_errors(server):
            result = await connection.ask(
                lambda client: client.read_resource(uri), connection.server.table.timeout_s
            )
        return [_read(one) for one in result.contents]


def _read(contents: types.TextResourceContents | types.BlobResourceContents) -> Text | Image | Document:
    if isinstance(contents, types.TextResourceContents):
        return Text(text=encodable(contents.text))
    found = read_contents(contents)
    return Text(text=found) if isinstance(found, str) else found


def _show_nothing(text: str) -> None:
    pass


@asynccontextmanager
async def _translate_errors(server: str) -> AsyncGenerator[None]:
    """Turn each failure of a server into a `UsageError` of one sentence."""
    try:
        yield
    except (ServerDown, ServerLost, NoAnswer, ServerRefused) as problem:
        raise UsageError(f"The tool server {server}: {problem}.") from None


def _describe_resource(
    server: str, uri: str, one: types.Resource | types.ResourceTemplate, is_template: bool = False
) -> ServerResource:
    about = one_line(one.description or "")
    return ServerResource(
        server, uri, one_line(one.title or one.name), about, one.mime_type or "", is_template
    )
