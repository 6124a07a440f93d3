"""Who the agent is: graph, session, models, policy, configuration."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: `import agent` alone stays cheap."""
    if name == "Agent":
        from agent.agent import Agent

        return Agent
    raise AttributeError(f"module 'agent' has no attribute {name!r}")
