"""The HTTP tools of the configuration: reads their tables and makes the tools."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from ....actions.ports import Tool, ToolSource
from ....actions.tools.http.documents import tool_of, tools_of_api
from ....actions.tools.http.tables import (
    HttpToolTable,
    OpenApiTable,
    TableT,
    describe_api,
    describe_tool,
    parse_tables,
)
from ....actions.tools.http.tool import HttpTool
from ....state.errors import ConfigError, SandburError
from ....state.lazy_dataclass import dataclass
from ....state.session import SessionSettings
from ...config.setting_reader import SettingReader, SettingValue, merge_tables
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime


@dataclass(frozen=True, slots=True)
class Configured(Generic[TableT]):
    """A table of the configuration and its origin."""

    table: TableT
    source: str
    """The file that sets the table."""
    folder: Path
    """The folder that relative file names in the table start from."""


def _read_configuration(values: Sequence[SettingValue]) -> dict[str, Configured[Any]]:
    return {name: Configured(one.value, one.source, one.folder) for name, one in merge_tables(values).items()}


class HttpToolsReader(SettingReader):
    """Reads the setting `http_tools`."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> Any:
        return parse_tables("http_tools", value, HttpToolTable, source)

    def resolve(self, values: Sequence[SettingValue]) -> dict[str, Configured[HttpToolTable]]:
        return _read_configuration(values)

    def disclose(self, value: Mapping[str, HttpToolTable]) -> Iterator[str]:
        return (describe_tool(name, table) for name, table in value.items())


class OpenApiReader(SettingReader):
    """Reads the setting `openapi`."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> Any:
        return parse_tables("openapi", value, OpenApiTable, source)

    def limit_project(self, value: Any, path: Path, notices: list[str]) -> Any:
        require_hosts(value, path)
        return value

    def resolve(self, values: Sequence[SettingValue]) -> dict[str, Configured[OpenApiTable]]:
        return _read_configuration(values)

    def disclose(self, value: Mapping[str, OpenApiTable]) -> Iterator[str]:
        return (describe_api(name, table) for name, table in value.items())


def require_hosts(apis: Mapping[str, OpenApiTable], path: Path) -> None:
    """Raise `ConfigError` if an API of a project's configuration has no base address.

    The trust in a project does not cover the description of the API, which could otherwise name any host.
    """
    for name, table in apis.items():
        if table.base_url is None:
            raise ConfigError(
                f"{path}: `openapi.{name}` has no `base_url`, and other people may change {table.file}.",
                "Write the address of the API in the project's configuration.",
            )


class HttpToolsRuntime(ExtensionRuntime):
    """Provides the HTTP tools of the configuration. An agent in a program brings its own tools."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        settings = self.process.settings_of_folder(Path(session.cwd))
        requests, apis = settings.of("http_tools"), settings.of("openapi")
        if not (definition.has_builtin_tools and (requests or apis)):
            return ()
        return (ConfiguredTools(requests, apis, self.process.env),)


class ConfiguredTools:
    """The HTTP tools of the settings, as a tool source."""

    name = "http"

    def __init__(
        self,
        requests: Mapping[str, Configured[HttpToolTable]],
        apis: Mapping[str, Configured[OpenApiTable]],
        env: Mapping[str, str],
    ) -> None:
        self._requests = requests
        self._apis = apis
        self._env = env
        self._made: tuple[HttpTool, ...] | None = None

    async def tools(self) -> Sequence[Tool]:
        """Return all HTTP tools; raises `ConfigError`."""
        return self._all()

    def notices(self) -> Sequence[str]:
        return tuple(
            f"The tool {tool.spec.name} needs the variable {variable}, which is not set."
            for tool in self._all()
            for variable in tool.variables
            if variable not in self._env
        )

    async def aclose(self) -> None:
        """Do nothing: a connection exists only during a call."""

    def _all(self) -> tuple[HttpTool, ...]:
        if self._made is None:
            made = [tool_of(name, one.table, one.source, self._env) for name, one in self._requests.items()]
            for name, one in self._apis.items():
                made += tools_of_api(name, one.table, one.source, one.folder, self._env)
            self._made = tuple(made)
        return self._made
