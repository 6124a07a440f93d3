"""Starts sub-agents for the tools of a session; `agent/agents` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .tool import ToolContext, ToolOutcome


class SubAgents(Protocol):
    async def run(self, task: Any, context: ToolContext) -> ToolOutcome:
        """Run the sub-agent of a call to its end, or until a person has to decide about one of its calls.

        `task` is an `agent.agents.children.Task`. The same call goes on with the same sub-agent. Raises
        `CallSuspended` if the run of the session that the call belongs to cannot go on.
        """
        ...
