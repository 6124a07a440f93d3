"""Agent files: descriptions of agents in JSON, YAML or TOML."""

from types import MappingProxyType

from ..extension import Extension

_PARSE = ".agent.extensions.agent_files.agent_parts:parse_agent_file"

EXTENSION = Extension(
    name="agent_files",
    about="agents that a JSON, YAML or TOML file describes",
    page="agent-files.md",
    folders=("agent/extensions/agent_files",),
    agent_files=MappingProxyType(dict.fromkeys((".json", ".yaml", ".yml", ".toml"), _PARSE)),
    agent_file_schema=".agent.extensions.agent_files.schema:json_schema",
)
