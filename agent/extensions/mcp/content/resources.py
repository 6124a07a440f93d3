"""Two tools for the resources of a server: one lists them, the other reads one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp import Client
from pydantic import Field

from .....actions.ports import Tool, ToolContext, ToolOutcome, ToolSpec, ToolTraits
from .....actions.tools.registry import SERVER_PREFIX
from .....actions.tools.schema import PlainText, ToolArguments, parse_arguments, spec_of
from .....state.calls import Effect
from ..connection import Link, NoAnswer, ServerConnection, ServerDown, ServerLost, ServerRefused
from ..results import make_outcome, read_contents
from ..text import one_line

_MOST_PAGES = 10
_MOST_LISTED = 500


class _NoArguments(ToolArguments):
    pass


class _OneResource(ToolArguments):
    uri: PlainText = Field(description="The address, from the list of resources", max_length=4096)


async def resource_tools(connection: ServerConnection, link: Link) -> Sequence[Tool]:
    """Return the tools that list and read the resources of a server; an empty list if it has none."""
    if link.client.server_capabilities.resources is None or not await _has_resources(connection, link):
        return ()
    server = connection.server.name
    list_spec = spec_of(
        f"{SERVER_PREFIX}{server}__list_mcp_resources",
        f"List the resources of the server {server}.",
        _NoArguments,
    )
    read_spec = spec_of(
        f"{SERVER_PREFIX}{server}__read_mcp_resource",
        f"Read a resource of the server {server}.",
        _OneResource,
    )
    return (
        ResourceTool(connection, list_spec, _NoArguments, _list_resources),
        ResourceTool(connection, read_spec, _OneResource, _read),
    )


Asking = Callable[[ServerConnection, Any], Awaitable[ToolOutcome]]


class ResourceTool:
    """A tool for the resources of a server. It counts as read-only if the person trusts the server's
    hints."""

    def __init__(
        self, connection: ServerConnection, spec: ToolSpec, arguments: type[ToolArguments], asking: Asking
    ) -> None:
        self._connection = connection
        self.spec = spec
        self._arguments = arguments
        self._asking = asking
        self.effect: Effect = "read" if connection.server.table.trust_hints else "effect"
        self.traits = ToolTraits(
            subject="uri" if arguments is _OneResource else "",
            description=f"a resource of the server {connection.server.name}",
        )

    def parse(self, arguments: str) -> Any:
        return parse_arguments(self.spec, self._arguments, arguments)

    def effect_of(self, arguments: Any) -> Effect:
        return self.effect

    def subject(self, arguments: Any) -> str:
        return str(getattr(arguments, "uri", ""))

    def paths(self, arguments: Any) -> Sequence[str]:
        return ()

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        server = self._connection.server.name
        try:
            return await self._asking(self._connection, arguments)
        except NoAnswer as late:
            return ToolOutcome("timeout", f"The tool server {server}: {late}.")
        except (ServerDown, ServerLost, ServerRefused) as problem:
            return ToolOutcome("error", f"The tool server {server}: {problem}.")


async def _has_resources(connection: ServerConnection, link: Link) -> bool:
    """Return whether the server has resources: many servers declare the capability without having any."""
    within_s = link.server.table.startup_timeout_s
    try:
        page = await connection.ask(lambda client: client.list_resources(), within_s, link)
        if page.resources:
            return True
        templates = await connection.ask(lambda client: client.list_resource_templates(), within_s, link)
        return bool(templates.resource_templates)
    except (NoAnswer, ServerRefused):
        return False


async def _read(connection: ServerConnection, arguments: _OneResource) -> ToolOutcome:
    result = await connection.ask(
        lambda client: client.read_resource(arguments.uri), connection.server.table.timeout_s
    )
    found = [read_contents(one) for one in result.contents]
    texts = [one for one in found if isinstance(one, str)]
    return make_outcome(texts, [one for one in found if not isinstance(one, str)])


async def fetch_resources(
    connection: ServerConnection,
) -> tuple[list[types.Resource], list[types.ResourceTemplate]]:
    """Return the resources of a server, and its resource templates."""
    timeout_s = connection.server.table.timeout_s
    found: list[types.Resource] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await connection.ask(_page(cursor), timeout_s)
        found += page.resources
        cursor = page.next_cursor
        if cursor is None or len(found) > _MOST_LISTED:
            break
    templates = await connection.ask(lambda client: client.list_resource_templates(), timeout_s)
    return found, templates.resource_templates


async def _list_resources(connection: ServerConnection, arguments: Any) -> ToolOutcome:
    found, templates = await fetch_resources(connection)
    lines = [_line(str(one.uri), one) for one in found]
    lines += [_line(one.uri_template, one) for one in templates]
    more = [f"({len(lines) - _MOST_LISTED} more)"] if len(lines) > _MOST_LISTED else []
    return make_outcome([*lines[:_MOST_LISTED], *more] or ["(the server has no resources)"], ())


def _page(cursor: str | None) -> Callable[[Client], Awaitable[types.ListResourcesResult]]:
    return lambda client: client.list_resources(cursor=cursor)


def _line(uri: str, one: types.Resource | types.ResourceTemplate) -> str:
    about = f" - {one.description}" if one.description else ""
    return one_line(f"{uri}: {one.title or one.name}{about}")
