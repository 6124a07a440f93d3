"""Sub-agents: what describes an agent, and how a session starts one."""

from ..config.setting import Setting
from ..extensions.extension import CommandEntry, Extension, SlashEntry

EXTENSION = Extension(
    name="agents",
    about="sub-agents for parts of the work, each a session of its own; Markdown files describe them",
    page="agents.md",
    folders=("agent/agents", "ui/commands/agents"),
    settings=(
        Setting(
            "agents_at_once",
            16,
            "count",
            variable="SANDBUR_AGENTS_AT_ONCE",
            about="how many sub-agents of one process run at the same time; others wait",
            after="execute_python",
        ),
        Setting(
            "agent_depth",
            3,
            "limit",
            variable="SANDBUR_AGENT_DEPTH",
            about="how deep agents start agents; 0: a session starts none",
            after="agents_at_once",
        ),
        Setting(
            "agents_per_run",
            200,
            "count",
            variable="SANDBUR_AGENTS_PER_RUN",
            about="how many sub-agents one run may start",
            after="agent_depth",
        ),
    ),
    runtime=".agent.agents.agents_runtime:AgentsRuntime",
    commands=(
        CommandEntry(
            name="agents",
            home=".ui.commands.agents.command:AgentsCommand",
            summary="list or show the agents that a session can start, or write a new one",
            after="mcp",
        ),
    ),
    slash=(
        SlashEntry(
            name="agents",
            usage="[N|ID|..]",
            summary="list the sub-agents, or step into one",
            home=".ui.commands.agents.slash:visit_agent",
            group="Session",
            after="sessions",
            complete=".ui.commands.agents.slash:list_agent_choices",
        ),
        SlashEntry(
            name="back",
            usage="",
            summary="go back to the session that started this one",
            home=".ui.commands.agents.slash:go_back",
            group="Session",
            after="agents",
        ),
    ),
)
