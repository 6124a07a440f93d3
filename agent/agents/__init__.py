"""Sub-agents: what describes an agent, and how a session starts one."""

from ..config.setting import Setting
from ..extensions.extension import Extension

EXTENSION = Extension(
    name="agents",
    about="sub-agents, each a session of its own",
    page="agents.md",
    folders=("agent/agents",),
    settings=(
        Setting("agents_at_once", 16, "count", about="how many sub-agents of a process run at the same time"),
        Setting("agent_depth", 3, "count", about="how deep agents may start agents; 0: no sub-agents"),
        Setting("agents_per_run", 200, "count", about="how many sub-agents one run may start"),
    ),
    runtime=".agent.agents.agents_runtime:AgentsRuntime",
)
