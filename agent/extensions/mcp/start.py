"""Makes the tool servers of a folder a source of tools; the library is imported when the first one starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....actions.ports import Tool, ToolSource
from ....state.errors import ConfigError
from ....state.process.installation import make_install_command
from ...config.settings import Settings

if TYPE_CHECKING:
    from ....actions.ports import Model
    from .server_requests.sampling import Sampler
    from .source import McpSource


class LazyServers:
    """Starts the servers with the first session that asks for their tools."""

    name = "mcp"

    def __init__(
        self, settings: Settings, env: Mapping[str, str], connect: Callable[[], Model] | None = None
    ) -> None:
        """`connect` makes the model that servers may ask; None: they may ask none."""
        self._settings = settings
        self._env = env
        self._connect = connect
        self._sampler: Sampler | None = None
        self._source: McpSource | None = None

    async def tools(self) -> Sequence[Tool]:
        return await self.source().tools()

    def notices(self) -> Sequence[str]:
        return () if self._source is None else self._source.notices()

    async def aclose(self) -> None:
        if self._source is not None:
            await self._source.aclose()
        if self._sampler is not None:
            await self._sampler.aclose()

    def source(self) -> McpSource:
        """Return the servers; raises `ConfigError` where the library that speaks to them is missing."""
        if self._source is None:
            try:
                from .server_requests.questions import Host
                from .server_requests.sampling import Sampler
                from .source import McpSource
            except ModuleNotFoundError as missing:
                raise ConfigError(
                    f"Tool servers are configured, and the package {missing.name} is not installed.",
                    f"Install it with: {make_install_command('mcp')}",
                ) from None
            settings = self._settings
            if self._connect is not None:
                self._sampler = Sampler(self._connect)
            host = Host(roots=(settings.cwd, *settings.add_dirs), samples=self._sampler)
            self._source = McpSource(settings.mcp_servers, self._env, settings.home / "mcp", host)
        return self._source


def server_tools(
    settings: Settings, env: Mapping[str, str], connect: Callable[[], Model] | None = None
) -> ToolSource:
    return LazyServers(settings, env, connect)
