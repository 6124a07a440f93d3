"""The tool `task`: a model starts a sub-agent for a part of its work, or asks an earlier one again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ...actions.ports import BadArguments, Tool, ToolContext, ToolOutcome, ToolTraits
from ...actions.tools.builtin import BuiltinTool
from ...actions.tools.schema import PlainText, ToolArguments
from ...state.calls import Effect
from ..runtime.agent_definition import SubAgentDefinition
from .agent_files import catalogue
from .agent_spec import AgentSpec
from .children import GENERAL, Task, describe_stopped_child

NAME = "task"
_DESCRIPTION = """\
Start a sub-agent for one self-contained part of the work, such as a search through many files. It works \
with your tools and rules and an empty history, so say everything that it has to know; you get only its last \
message. Several calls in one message run at the same time. For small things use your own tools."""


class TaskArguments(ToolArguments):
    description: PlainText = Field(description="What it is for, in 3 to 6 words.")
    prompt: PlainText = Field(description="The task, with all that it has to know, and what to report.")
    agent: str = Field("", description="The agent that does it. Default: one like you.")
    model: str = Field("", description="Another model for it; usually empty.")
    resume: str = Field("", description="The id of an earlier sub-agent, to ask that one again.")


class TaskTool(BuiltinTool[TaskArguments]):
    effect: Effect = "idempotent"
    traits = ToolTraits(
        subject="agent",
        summary_arguments=("agent", "description"),
        asks="never",
        keeps_mode=True,
        runs_concurrently=True,
        is_resumable=True,
        also_called=("Agent", "Task"),
    )

    def __init__(self, agents: Mapping[str, AgentSpec | SubAgentDefinition]) -> None:
        """`agents` are those that it may start, beside one that is like the agent itself."""
        listed = f"\nAgents:\n{catalogue(agents)}" if agents else ""
        super().__init__(NAME, f"{_DESCRIPTION}{listed}", TaskArguments)
        self._agents = agents
        specs = (one for one in agents.values() if isinstance(one, AgentSpec))
        self._models = frozenset(one.model for one in specs if one.model)

    def parse(self, arguments: str) -> TaskArguments:
        parsed = super().parse(arguments)
        if parsed.agent and parsed.agent not in (GENERAL.name, *self._agents):
            known = ", ".join(self._agents) or "none: leave `agent` empty"
            raise BadArguments(f"There is no agent {parsed.agent[:80]!r}. There are: {known}.")
        return parsed

    def subject(self, arguments: TaskArguments) -> str:
        return arguments.agent or GENERAL.name

    def paths(self, arguments: TaskArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: TaskArguments, context: ToolContext) -> ToolOutcome:
        if context.sub_agents is None:
            return ToolOutcome("error", "Sub-agents cannot start here.")
        task = Task(
            prompt=arguments.prompt,
            description=arguments.description,
            agent=self._agents.get(arguments.agent, GENERAL),
            model=arguments.model,
            models=self._models,
            resume=arguments.resume,
        )
        return await context.sub_agents.run(task, context)

    def describe_stop(self, session_id: str, call_id: str) -> str:
        return describe_stopped_child(session_id, call_id)


class TaskSource:
    """Implements `actions.ports.ToolSource`: the one tool."""

    name = "agents"

    def __init__(
        self, agents: Mapping[str, AgentSpec | SubAgentDefinition], notices: Sequence[str] = ()
    ) -> None:
        self._tool = TaskTool(agents)
        self._notices = notices

    async def tools(self) -> Sequence[Tool]:
        return (self._tool,)

    def notices(self) -> Sequence[str]:
        return self._notices

    async def aclose(self) -> None:
        """Do nothing: a sub-agent ends with its call."""
