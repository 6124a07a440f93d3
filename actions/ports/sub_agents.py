"""Starts sub-agents for the tools and flows of a session; `agent/agents` implements it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ...state.errors import SandburError

if TYPE_CHECKING:
    from .tool import ToolContext, ToolOutcome

TASK_TOOL = "task"
"""The name of the tool that starts sub-agents, for flows and skills that start one."""
GENERAL_AGENT = "general"
"""The name of the agent that is like the session that starts it."""
_MOST_DESCRIPTION_CHARS = 80
_REFERENCE = re.compile(r'\n?\[sub-agent ([^\s;]+); to ask it again: task\(resume="\1", \.\.\.\)\]')


def make_task_arguments(agent: str, prompt: str, description: str) -> dict[str, object]:
    """Return the arguments of a call that starts an agent."""
    short = " ".join(description.split())[:_MOST_DESCRIPTION_CHARS]
    return {"description": short, "prompt": prompt, "agent": agent}


def describe_reference(child_id: str) -> str:
    """Return the line of a sub-agent's result by which a model asks it again."""
    return f'[sub-agent {child_id}; to ask it again: {TASK_TOOL}(resume="{child_id}", ...)]'


def remove_reference(result: str) -> str:
    """Return the result of a sub-agent without the line of `describe_reference`: the answer alone."""
    return _REFERENCE.sub("", result)


def name_skill_agent(skill: str) -> str:
    """Return the name of the agent that does the work of a skill; no agent of a file can have it."""
    return f"skill:{skill}"


@runtime_checkable
class StartsAgents(Protocol):
    """A tool that starts sub-agents by their names."""

    def can_start(self, agent: str) -> bool: ...


class SubAgents(Protocol):
    def can_start(self, agent: str) -> bool:
        """Return whether the session may start the agent with this name."""
        ...

    async def run(self, task: Any, context: ToolContext) -> ToolOutcome:
        """Run the sub-agent of a call to its end, or until a person has to decide about one of its calls.

        `task` is an `agent.agents.task.ChildTask`. The same call goes on with the same sub-agent. Raises
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
        """Return the text for the model about an open call that will not continue by itself; empty for the
        text that any tool's open call gets.
        """
        ...
