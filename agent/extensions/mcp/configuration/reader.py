"""Reads the setting `mcp_servers` from a `config.toml` or a `.mcp.json`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .....state.errors import SandburError
from ....config.setting_reader import SettingReader, SettingValue, merge_tables
from .servers import OWN_ALONE, McpServer, McpServerTable, check_tables, describe_server


class ServersReader(SettingReader):
    """Reads the setting `mcp_servers`."""

    def check(self, value: Any, source: str, error: type[SandburError]) -> dict[str, McpServerTable]:
        return check_tables(value, source, error)

    def limit_project(
        self, value: Mapping[str, McpServerTable], path: Path, notices: list[str]
    ) -> dict[str, McpServerTable]:
        """Reset the fields of a project's servers that only the person's own file may set."""
        for name, table in value.items():
            notices += [
                f"Ignored `{key}` of the tool server {name} in {path}:"
                " only your own configuration can set it."
                for key in OWN_ALONE
                if getattr(table, key)
            ]
        own_alone: dict[str, bool] = dict.fromkeys(OWN_ALONE, False)
        return {name: table.model_copy(update=own_alone) for name, table in value.items()}

    def resolve(self, values: Sequence[SettingValue]) -> dict[str, McpServer]:
        """Return the tool servers by name, each with the file that configures it."""
        return {
            name: McpServer(name, one.value, one.source, one.folder)
            for name, one in sorted(merge_tables(values).items())
        }

    def disclose(self, value: Mapping[str, McpServerTable]) -> Iterator[str]:
        return (describe_server(name, table) for name, table in value.items())
