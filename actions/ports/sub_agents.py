"""Starts sub-agents for the tools of a session; `agent/agents` implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...state.errors import SandburError

if TYPE_CHECKING:
    from .tool import ToolContext, ToolOutcome


class SubAgents(Protocol):
    async def run(self, task: Any, context: ToolContext) -> ToolOutcome:
        """Run the sub-agent of a call to its end, or until a person has to decide about one of its calls.

        `task` is an `agent.agents.task.Task`. The same call goes on with the same sub-agent. Raises
        `CallSuspended` if the run of the session that the call belongs to cannot go on.
        """
        ...


class CallSuspended(Exception):
    """The call cannot continue in this run. The run ends with `error`, and the next run starts the call
    again.

    For tools whose traits say `is_resumable`: everything that they did is recorded elsewhere.
    """

    def __init__(self, error: SandburError) -> None:
        super().__init__(error.message)
        self.error = error


@runtime_checkable
class Resumable(Protocol):
    """A tool whose traits say `is_resumable`."""

    def describe_stop(self, session_id: str, call_id: str) -> str:
        """Return the text for the model about an open call that will not continue by itself."""
        ...
