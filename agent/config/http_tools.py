"""HTTP tools of the configuration: `[http_tools.NAME]` and `[openapi.NAME]`, and who wrote them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from ...actions.ports import Tool
from ...actions.tools.http.documents import tool_of, tools_of_api
from ...actions.tools.http.tables import HttpToolTable, OpenApiTable, TableT, checked_tables
from ...actions.tools.http.tool import HttpTool
from ...state.errors import ConfigError

KEYS = ("http_tools", "openapi")


@dataclass(frozen=True, slots=True)
class Configured(Generic[TableT]):
    """A table and who wrote it."""

    table: TableT
    source: str
    """The file that says so."""
    folder: Path
    """A relative file starts here."""


def checked_http_tables(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a `config.toml` with the keys of their tables checked; raises `ConfigError`."""
    done = dict(values)
    if "http_tools" in values:
        done["http_tools"] = checked_tables("http_tools", values["http_tools"], HttpToolTable, str(path))
    if "openapi" in values:
        done["openapi"] = checked_tables("openapi", values["openapi"], OpenApiTable, str(path))
    return done


def require_hosts(apis: Mapping[str, OpenApiTable], path: Path) -> None:
    """Refuse an API of a project that says not where it is: the file of it is not what was trusted.

    Raises `ConfigError`.
    """
    for name, table in apis.items():
        if table.base_url is None:
            raise ConfigError(
                f"{path}: `openapi.{name}` has no `base_url`, and {table.file} may be changed by others.",
                "In a project's configuration, write where the API is.",
            )


class ConfiguredTools:
    """The HTTP tools of the settings, as a source of tools."""

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
        """Return them all; raises `ConfigError`."""
        return self._all()

    def notices(self) -> Sequence[str]:
        return tuple(
            f"The tool {tool.spec.name} needs the variable {variable}, which is not set."
            for tool in self._all()
            for variable in tool.variables
            if variable not in self._env
        )

    async def aclose(self) -> None:
        """There is nothing to let go of: a connection lives as long as its call."""

    def _all(self) -> tuple[HttpTool, ...]:
        if self._made is None:
            made = [tool_of(name, one.table, one.source, self._env) for name, one in self._requests.items()]
            for name, one in self._apis.items():
                made += tools_of_api(name, one.table, one.source, one.folder, self._env)
            self._made = tuple(made)
        return self._made
