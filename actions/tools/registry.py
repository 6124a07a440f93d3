"""The built-in tools and their declared traits."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ...state.errors import ConfigError
from ..ports import Tool, Toolbox, ToolTraits
from .files.tool_set import make_file_tools
from .read_result import ReadResult
from .shell.tool import RunShellCommand
from .web.http_request import HttpRequest
from .web.web_fetch import WebFetch
from .web.web_search import WebSearch

if TYPE_CHECKING:
    from ...state.session import SessionSettings
    from .shell.sandbox.sandbox import Sandbox
    from .web.search_services import SearchService

FindsService = Callable[[], "SearchService"]
"""A function that returns the search service when it is needed."""


def builtin_tools(sandbox: Sandbox | None = None) -> dict[str, Tool]:
    """Return new tools by name, always in the same order. Commands run in `sandbox`, unless it is None."""
    tools: tuple[Tool, ...] = (RunShellCommand(sandbox=sandbox), *make_file_tools())
    return {tool.spec.name: tool for tool in tools}


SERVER_PREFIX = "mcp__"
"""The prefix of the names of MCP tools. Rules use it to name the tools of a server."""


def _http_request(search: FindsService | None) -> Tool:
    return HttpRequest()


def _web_fetch(search: FindsService | None) -> Tool:
    return WebFetch()


def _web_search(search: FindsService | None) -> Tool:
    return WebSearch(search)


_NETWORK: Mapping[str, Callable[[FindsService | None], Tool]] = {
    "http_request": _http_request,
    "web_fetch": _web_fetch,
    "web_search": _web_search,
}
NETWORK_TOOLS = tuple(_NETWORK)
"""The optional tools of a session, always in this order."""


def usual_network_tools(has_search: bool) -> tuple[str, ...]:
    """Return the names of the network tools of a new session. Without a search service, `web_search` is left
    out.
    """
    return NETWORK_TOOLS if has_search else NETWORK_TOOLS[:-1]


def network_tools(names: Container[str], search: FindsService | None = None) -> dict[str, Tool]:
    """Return new tools with these names. `search` returns the search service."""
    return {name: made(search) for name, made in _NETWORK.items() if name in names}


def result_reader() -> dict[str, Tool]:
    """Return the tool that reads the parts of results that were left out."""
    reader = ReadResult()
    return {reader.spec.name: reader}


def with_reader(tools: Toolbox, session: SessionSettings) -> dict[str, Tool]:
    """Return the tools, and the tool that reads stored results. Raises `ConfigError` for a duplicate name."""
    # If no tool returns results, or results have no limit, there is nothing to read.
    reader = result_reader() if session.max_result_tokens and tools else {}
    for name in reader.keys() & tools.keys():
        raise ConfigError(
            f"A tool cannot be called {name} here: Sandbur has a tool of this name.", "Rename it."
        )
    return {**tools, **({} if reader.keys() & set(session.tool_choice.never) else reader)}


def toolbox_of(
    names: Container[str], search: FindsService | None = None, sandbox: Sandbox | None = None
) -> dict[str, Tool]:
    """Return the built-in tools, and the network tools with these names."""
    return builtin_tools(sandbox) | network_tools(names, search)


@cache
def load_declared_traits() -> Mapping[str, ToolTraits]:
    shipped = toolbox_of(NETWORK_TOOLS) | result_reader()
    return {name: tool.traits for name, tool in shipped.items()}


def traits_of(name: str) -> ToolTraits:
    """Return the traits of a built-in tool, or default traits for any other name."""
    return load_declared_traits().get(name) or ToolTraits()
