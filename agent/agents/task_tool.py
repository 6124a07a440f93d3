"""The tool `task`: a model starts a sub-agent for a part of its work, or asks an earlier one again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ...actions.ports import BadArguments, ToolContext, ToolOutcome, ToolTraits
from ...actions.ports.sub_agents import TASK_TOOL
from ...actions.tools.builtin import BuiltinTool
from ...actions.tools.schema import PlainText, ToolArguments
from ...state.calls import Effect
from .markdown.agent_files import catalogue
from .task import GENERAL, ChildTask, Startable, describe_stopped_child

_DESCRIPTION = """\
Start a sub-agent for one self-contained part of the work, such as a search through many files. It has an \
empty history, so say everything that it has to know; you get only its last message. Several calls in one \
message run at the same time. For small things use your own tools."""
_LIKE_YOU = "Without `agent` it is one like you, with your tools."


class TaskArguments(ToolArguments):
    description: PlainText = Field(description="What it is for, in 3 to 6 words.")
    prompt: PlainText = Field(description="The task, with all that it has to know, and what to report.")
    agent: str = Field("", description="The name of the agent that does it.")
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

    def __init__(self, agents: Mapping[str, Startable]) -> None:
        """`agents` are those that it may start, by name; `GENERAL` may be one of them."""
        self._agents = agents
        named = {name: one for name, one in agents.items() if one is not GENERAL}
        about = (_DESCRIPTION, _LIKE_YOU) if GENERAL.name in agents else (_DESCRIPTION,)
        listed = f"\nAgents:\n{catalogue(named)}" if named else ""
        super().__init__(TASK_TOOL, f"{' '.join(about)}{listed}", TaskArguments)

    def parse(self, arguments: str) -> TaskArguments:
        parsed = super().parse(arguments)
        if parsed.resume or self.subject(parsed) in self._agents:
            return parsed
        what = f"There is no agent {parsed.agent[:80]!r}." if parsed.agent else "Name an agent."
        raise BadArguments(f"{what} There are: {', '.join(self._agents)}.")

    def can_start(self, agent: str) -> bool:
        return agent in self._agents

    def subject(self, arguments: TaskArguments) -> str:
        return arguments.agent or GENERAL.name

    def paths(self, arguments: TaskArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: TaskArguments, context: ToolContext) -> ToolOutcome:
        if context.sub_agents is None:
            return ToolOutcome("error", "Sub-agents cannot start here.")
        task = ChildTask(
            prompt=arguments.prompt,
            description=arguments.description,
            agent=self.subject(arguments),
            agents=self._agents,
            model=arguments.model,
            resume=arguments.resume,
        )
        return await context.sub_agents.run(task, context)

    def describe_stop(self, session_id: str, call_id: str) -> str:
        return describe_stopped_child(session_id, call_id)
