"""The built-in tools, and what they declare: whoever needs to know about a tool asks here."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ...state.errors import ConfigError
from ...state.session import SessionSettings
from ..ports import Tool, Toolbox, ToolTraits
from .files.edit_file import EditFile
from .files.glob import Glob
from .files.grep import Grep
from .files.list_directory import ListDirectory
from .files.read_file import ReadFile
from .files.write_file import WriteFile
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
"""Returns what a search asks, when it is needed."""


def builtin_tools(sandbox: Sandbox | None = None) -> dict[str, Tool]:
    """Return new tools by name, always in the same order; commands run in the sandbox, if there is one."""
    tools: tuple[Tool, ...] = (
        RunShellCommand(sandbox=sandbox),
        ReadFile(),
        WriteFile(),
        EditFile(),
        ListDirectory(),
        Glob(),
        Grep(),
    )
    return {tool.spec.name: tool for tool in tools}


SERVER_PREFIX = "mcp__"
"""What the names of tools of servers begin with; rules mean them by the names of their servers."""


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
"""What a session may have beside the others, always in this order."""


def usual_network_tools(has_search: bool) -> tuple[str, ...]:
    """Return the names of those that a new session gets; a search that asks nobody is not offered."""
    return NETWORK_TOOLS if has_search else NETWORK_TOOLS[:-1]


def network_tools(names: Container[str], search: FindsService | None = None) -> dict[str, Tool]:
    """Return new tools of those names; `search` says where a search asks."""
    return {name: made(search) for name, made in _NETWORK.items() if name in names}


def result_reader() -> dict[str, Tool]:
    """Return the tool that reads what results leave out."""
    reader = ReadResult()
    return {reader.spec.name: reader}


def with_reader(tools: Toolbox, session: SessionSettings) -> dict[str, Tool]:
    """Return the tools with the one that reads kept results; raises `ConfigError` for another of its name."""
    # Where nothing gives back results there is nothing to read.
    reader = result_reader() if session.max_result_tokens and tools else {}
    for name in reader.keys() & tools.keys():
        raise ConfigError(f"A tool cannot be called {name} here: Sandbur's own is.", "Rename it.")
    return {**tools, **({} if reader.keys() & set(session.tool_choice.never) else reader)}


def toolbox_of(
    names: Container[str], search: FindsService | None = None, sandbox: Sandbox | None = None
) -> dict[str, Tool]:
    """Return the built-in tools, and those of the network that are named."""
    return builtin_tools(sandbox) | network_tools(names, search)


@cache
def load_declared_traits() -> Mapping[str, ToolTraits]:
    shipped = toolbox_of(NETWORK_TOOLS) | result_reader()
    return {name: tool.traits for name, tool in shipped.items()}


def traits_of(name: str) -> ToolTraits:
    """Return what a tool declares: nothing, if it is not one of ours."""
    return load_declared_traits().get(name) or ToolTraits()
