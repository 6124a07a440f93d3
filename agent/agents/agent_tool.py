"""An agent of a program as a tool: each call starts it as a sub-agent, with its own history."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from ...actions.ports import ToolContext, ToolOutcome, ToolTraits
from ...actions.tools.builtin import BuiltinTool
from ...actions.tools.schema import PlainText, ToolArguments
from ...state.calls import Effect
from ..runtime.agent_definition import SubAgentDefinition
from .task import ChildTask, describe_stopped_child

_MOST_DESCRIPTION_CHARS = 60


class AgentToolArguments(ToolArguments):
    input: PlainText = Field(description="The task, with all that the agent has to know.")


class AgentTool(BuiltinTool[AgentToolArguments]):
    effect: Effect = "idempotent"
    traits = ToolTraits(
        subject="input", asks="never", keeps_mode=True, runs_concurrently=True, is_resumable=True
    )

    def __init__(self, name: str, agent: SubAgentDefinition) -> None:
        super().__init__(name, agent.description, AgentToolArguments)
        self._agent = agent

    def describe_agent(self) -> SubAgentDefinition:
        """Return the agent that the tool starts."""
        return self._agent

    def paths(self, arguments: AgentToolArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: AgentToolArguments, context: ToolContext) -> ToolOutcome:
        if context.sub_agents is None:
            return ToolOutcome("error", "Sub-agents cannot start here.")
        first = arguments.input.splitlines()[0][:_MOST_DESCRIPTION_CHARS]
        name = self._agent.name
        task = ChildTask(prompt=arguments.input, description=first, agent=name, agents={name: self._agent})
        return await context.sub_agents.run(task, context)

    def describe_stop(self, session_id: str, call_id: str) -> str:
        return describe_stopped_child(session_id, call_id)
