"""The built-in tools, for agents that list them."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Literal

from ...actions.ports import Tool
from ...actions.tools.files.virtual import file_tools
from ...actions.tools.registry import builtin_tools, network_tools, usual_network_tools
from ...actions.tools.web.search_services import SEARCH_PROVIDERS, search_service
from ...actions.tools.web.web_url import UnfitUrl
from ...actions.workspace.backends.backend import FileBackend
from ...actions.workspace.backends.composite import Composite
from ...state.errors import UsageError


def workspace_tools(*, files: FileBackend | Composite | None = None) -> tuple[Tool, ...]:
    """Return the built-in tools for files and commands in the agent's folder.

    With `files` the file tools work on that back end. Shell commands cannot see its files.
    """
    tools = builtin_tools()
    if files is not None:
        tools |= {tool.spec.name: tool for tool in file_tools(files)}
    return tuple(tools.values())


def web_tools(
    *,
    search: Literal["searxng", "brave", "tavily"] | None = None,
    search_url: str | None = None,
    search_key_env: str | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[Tool, ...]:
    """Return the built-in tools for web requests and pages, and with `search` a search tool.

    `search_url` is the address of the search service and `search_key_env` the variable with its key, if they
    are not the usual ones. `env` replaces the environment of the process. Raises `UsageError`.
    """

    if search is None:
        if search_url is not None or search_key_env is not None:
            raise UsageError("A search needs a service.", 'Name it: web_tools(search="searxng").')
        return tuple(network_tools(usual_network_tools(has_search=False)).values())
    if search not in SEARCH_PROVIDERS:
        raise UsageError(
            f"search={search!r} names no search service.", f"It is one of {', '.join(SEARCH_PROVIDERS)}."
        )
    find = partial(search_service, search, search_url, search_key_env, os.environ if env is None else env)
    try:
        find()
    except UnfitUrl as problem:
        raise UsageError(f"search_url does not fit: {problem}", "Write it as https://HOST.") from None
    return tuple(network_tools(usual_network_tools(has_search=True), find).values())
