"""Sub-agents: what describes an agent, and how a session starts one."""
