"""The tool `hand_off`: a model gives the conversation to another agent.

There is one tool for all agents, as for `task`: its declaration stays small, and a session that begins with
some agents and goes on with others still knows its calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ....actions.ports import BadArguments, ToolContext, ToolOutcome, ToolTraits
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import PlainText, ToolArguments
from ....state.calls import Effect
from ...runtime.agent_definition import SubAgentDefinition
from ..markdown.agent_files import catalogue
from .hand_off import MOST_HAND_OFFS, NAME, HandOffOrder

_DESCRIPTION = """\
Give the conversation to another agent, if what the user wants is its work. It answers in your place, now \
and to what the user writes next. Call it alone, as the last thing you do.
Agents:
{agents}"""


class HandOffArguments(ToolArguments):
    agent: str = Field(description="The name of the agent.")
    message: PlainText = Field(
        "", description="What it has to know and do; it reads the texts of the conversation, too."
    )


class HandOffTool(BuiltinTool[HandOffArguments]):
    effect: Effect = "idempotent"
    traits = ToolTraits(
        subject="agent",
        summary_arguments=("agent", "message"),
        asks="never",
        keeps_mode=True,
        is_resumable=True,
        is_done_tool=True,
        own_limit=MOST_HAND_OFFS,
    )

    def __init__(self, agents: Mapping[str, SubAgentDefinition]) -> None:
        """`agents` are those that it may give the conversation to, by name."""
        self._agents = agents
        super().__init__(NAME, _DESCRIPTION.format(agents=catalogue(agents)), HandOffArguments)

    def parse(self, arguments: str) -> HandOffArguments:
        parsed = super().parse(arguments)
        # A call without a message passes a message of the user on; any agent may have been named for that.
        if parsed.agent in self._agents or not parsed.message:
            return parsed
        raise BadArguments(f"There is no agent {parsed.agent[:80]!r}. There are: {', '.join(self._agents)}.")

    def paths(self, arguments: HandOffArguments) -> Sequence[str]:
        return ()

    async def run(self, arguments: HandOffArguments, context: ToolContext) -> ToolOutcome:
        if context.sub_agents is None:
            return ToolOutcome("error", "The conversation cannot be handed over here.")
        return await context.sub_agents.run(HandOffOrder(arguments.agent, arguments.message), context)

    def describe_stop(self, session_id: str, call_id: str) -> str:
        return "Interrupted: the user sent another message before the other agent had answered."
