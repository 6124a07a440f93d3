"""The tool servers of the sessions in a process. The MCP library is imported when the first server starts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.ports import Model, Tool, ToolSource, UserInput
from ....actions.tools.registry import SERVER_PREFIX
from ....state.errors import ConfigError
from ....state.process.installation import make_install_command
from ....state.session import SessionSettings
from ...config.settings import Settings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, ProcessContext
from ...runtime.tool_servers import OnElicitation, ToolServers
from ...runtime.wiring import tool_digest
from .configuration.servers import hidden_values, read_tokens

if TYPE_CHECKING:
    from .content.prompts import Prompts
    from .server_requests.sampling import Sampler
    from .source import McpSource


class LazyServers:
    """Starts the servers when the first session needs their tools."""

    name = "mcp"

    def __init__(
        self,
        settings: Settings,
        env: Mapping[str, str],
        connect: Callable[[], Model] | None = None,
        on_elicitation: OnElicitation | None = None,
        show_sign_in: Callable[[str], Awaitable[None]] | None = None,
        user_input: UserInput | None = None,
    ) -> None:
        """`connect` creates the model that servers may call; None: servers cannot call a model.

        `on_elicitation`, or `user_input` without it, answers questions of servers. `show_sign_in` shows a
        person the address where to sign in.
        """
        self._on_elicitation, self._show_sign_in = on_elicitation, show_sign_in
        self._user_input = user_input
        self._settings = settings
        self._env = env
        self._connect = connect
        self._sampler: Sampler | None = None
        self._source: McpSource | None = None

    async def tools(self) -> Sequence[Tool]:
        return await self.source().tools()

    def notices(self) -> Sequence[str]:
        return () if self._source is None else self._source.notices()

    async def has_changed(self, known: Mapping[str, str]) -> bool:
        """Return whether the tools differ from those that a session knows; `known` is name -> digest."""
        if self._source is None or not self._source.may_have_changed:
            return False
        now = {tool.spec.name: tool_digest(tool.spec) for tool in await self._source.tools()}
        then = {
            name: digest for name, digest in known.items() if name in now or name.startswith(SERVER_PREFIX)
        }
        return now != then

    async def aclose(self) -> None:
        """Do nothing: the servers stay for later sessions of the folder, until `close_servers`."""

    async def close_servers(self) -> None:
        """Close the connections to the servers, and end the local ones."""
        if self._source is not None:
            await self._source.aclose()
        if self._sampler is not None:
            await self._sampler.aclose()

    def source(self) -> McpSource:
        """Return the servers; raises `ConfigError` if the MCP library is not installed."""
        if self._source is None:
            try:
                from .source import open_source
            except ModuleNotFoundError as missing:
                raise ConfigError(
                    f"Tool servers are configured, but the package {missing.name} is not installed.",
                    f"Install it with: {make_install_command('mcp')}",
                ) from None
            self._source, self._sampler = open_source(
                self._settings,
                self._env,
                self._connect,
                self._on_elicitation,
                self._show_sign_in,
                self._user_input,
            )
        return self._source


class McpRuntime(ExtensionRuntime):
    """Adds the tools of the servers that the configuration for a session's folder names."""

    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._servers: dict[Path, LazyServers] = {}
        """Working folder -> the servers of the sessions that use it."""

    def secrets(self, session: SessionSettings) -> Mapping[str, str]:
        servers, env = self.process.settings.of("mcp_servers"), self.process.env
        return {
            **hidden_values(servers, env),
            **read_tokens(servers, env, self.process.settings.home / "mcp"),
        }

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        # A policy decision about a waiting call needs its tool, too.
        if not needs_model and not any(name.startswith(SERVER_PREFIX) for name in session.own_tools):
            return ()
        cwd = Path(session.cwd)
        if cwd not in self._servers:
            settings = self.process.settings_of_folder(cwd)
            if not settings.of("mcp_servers"):
                return ()
            # Model calls of servers are not in the session's usage records, so a budget would not cover them.
            has_budget = settings.max_budget_usd is not None
            connect = None if has_budget else partial(self.process.connect_model, session)
            self._servers[cwd] = LazyServers(
                settings,
                self.process.env,
                connect,
                definition.on_elicitation,
                user_input=definition.user_input,
            )
        return (self._servers[cwd],)

    async def has_changed_tools(self, session: SessionSettings) -> bool:
        servers = self._servers.get(Path(session.cwd))
        return servers is not None and await servers.has_changed(session.own_tools)

    def tool_servers(self, session: SessionSettings) -> ToolServers | None:
        servers = self._servers.get(Path(session.cwd))
        return None if servers is None else servers.source().for_program()

    def prompts(self, session: SessionSettings) -> Prompts | None:
        """Return the prompts of a session's servers, or None if the session has no servers."""
        servers = self._servers.get(Path(session.cwd))
        return None if servers is None else servers.source().prompts

    async def aclose(self) -> None:
        await asyncio.gather(*(servers.close_servers() for servers in self._servers.values()))
