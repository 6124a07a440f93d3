"""Adds flows to sessions: those of the settings for the command, those of an agent for the agent's
sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....actions.ports import Tool, ToolSource
from ....actions.turn.flows.flow import Flow
from ....state.errors import ConfigError, UsageError
from ....state.session import SessionSettings
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, SessionAdditions, SessionContext
from .flow_tools import make_flow_tool
from .router import FlowRouter
from .tables import ConfiguredFlow


class FlowsRuntime(ExtensionRuntime):
    """Provides the flows of a session and the tools that only they call."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        found = self._find_flows(session, definition)
        tools = [make_flow_tool(one.flow, one.source, self.process.env) for one in found]
        own = [tool for tool in tools if tool is not None]
        return (FlowTools(own),) if own else ()

    def open_session(self, context: SessionContext) -> SessionAdditions:
        flows = [one.flow for one in self._find_flows(context.settings, context.definition)]
        if not flows or not context.has_model:
            return SessionAdditions()
        return SessionAdditions(router=FlowRouter(flows, context.tools))

    def _find_flows(self, session: SessionSettings, definition: Definition) -> list[ConfiguredFlow]:
        """Return the flows of a session; raises `ConfigError` for two of one name."""
        own = [ConfiguredFlow(flow, definition.source or "Agent(flows=...)") for flow in definition.flows]
        require_different_names([one.flow for one in own])
        if not self.process.of_command:
            _require_agents(definition)
        if not definition.has_builtin_tools:
            return own
        return [*own, *self.process.settings_of_folder(Path(session.cwd)).of("flows").values()]


def require_different_names(flows: Sequence[Flow]) -> None:
    """Raise `ConfigError` for two flows of one name."""
    names = [flow.name for flow in flows]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"There are two flows called {name}.", "Rename one of them.")


def _require_agents(definition: Definition) -> None:
    """Raise `UsageError` for a flow of a program that starts an agent which the program does not name."""
    names = {one.name for one in definition.agents}
    for flow in definition.flows:
        if flow.agent and flow.agent not in names:
            there = ", ".join(sorted(names)) or "none"
            raise UsageError(
                f"The flow {flow.name} starts the agent {flow.agent[:64]!r}, which is not one of its agents.",
                f"Write Agent(agents=[...]) with it. There are: {there}.",
            )


class FlowTools:
    """The tools that flows bring, as a source of tools."""

    name = "flows"

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the tools hold nothing open."""
