"""Tool servers (MCP): their tools, prompts and resources in sessions."""

from ...config.setting import Setting
from ..extension import CommandEntry, ConfigFile, Extension, SlashEntry

MCP_JSON = ".mcp.json"
EXTENSION = Extension(
    name="mcp",
    about="tool servers that speak the Model Context Protocol",
    page="mcp.md",
    folders=("agent/extensions/mcp", "ui/commands/mcp", "ui/chat/slash/server_prompts.py"),
    settings=(
        Setting(
            "mcp_servers",
            {},
            "tables",
            "entries",
            about="tool servers by name; `sandbur mcp` changes them",
            reader=".agent.extensions.mcp.configuration.reader:ServersReader",
            of_command=True,
            after="transport",
        ),
    ),
    files=(
        ConfigFile(
            name=MCP_JSON,
            place="project",
            key="mcp_servers",
            parse=".agent.extensions.mcp.configuration.servers:parse_mcp_json",
        ),
    ),
    runtime=".agent.extensions.mcp.mcp_runtime:McpRuntime",
    commands=(
        CommandEntry(
            name="mcp",
            home=".ui.commands.mcp.command:McpCommand",
            summary="list, add, remove or test tool servers (MCP), or serve runs to others",
            after="stats",
        ),
    ),
    slash=(
        SlashEntry(
            name="mcp",
            usage="",
            summary="list the prompts of tool servers",
            home=".ui.chat.slash.server_prompts:show",
            editor=".ui.chat.slash.server_prompts:show_in_editor",
            group="Settings",
            after="tools",
        ),
    ),
    find_slash=".ui.chat.slash.server_prompts:server_prompt",
    doctor=".ui.commands.mcp.server_checks:find_server_problems",
)
