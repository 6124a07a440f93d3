"""Brings sub-agents into sessions: the tool that starts them, for agents that may start some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...actions.ports import ToolSource
from ...state.session import SessionSettings
from ..runtime.agent_definition import Definition, SubAgentDefinition
from ..runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from ..session.session import Session
from .agent_files import FoundAgents, find_agents
from .agent_spec import AgentSpec
from .children import Children, SubAgentsOfSession
from .task_tool import TaskSource


class AgentsRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._children = Children(process)
        self._found: dict[Path, FoundAgents] = {}
        """The agents of Markdown files, by the folder of the sessions that may start them."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        by = session.spawned_by
        depth = 0 if by is None else len(by.agents)
        if depth >= self.process.settings.of("agent_depth"):
            return ()
        if not (self.process.of_command and definition.has_builtin_tools) and not definition.agents:
            return ()
        agents = self._find_agents(session, definition)
        if by is not None and by.may_start is not None:
            agents = {name: one for name, one in agents.items() if name in by.may_start}
            if not agents:
                return ()
        return (TaskSource(agents, self._take_notices(session)),)

    def _find_agents(
        self, session: SessionSettings, definition: Definition
    ) -> Mapping[str, AgentSpec | SubAgentDefinition]:
        """Return the agents that a session may start, by name."""
        of_program = {one.name: one for one in definition.agents}
        if not (self.process.of_command and definition.has_builtin_tools):
            return of_program
        cwd = Path(session.cwd)
        if cwd not in self._found or session.spawned_by is None:
            aliases = self.process.settings.aliases
            self._found[cwd] = find_agents(cwd, self.process.env, aliases)
        return {**self._found[cwd].agents, **of_program}

    def _take_notices(self, session: SessionSettings) -> Sequence[str]:
        """Return what is wrong with agent files; a sub-agent does not repeat it."""
        found = self._found.get(Path(session.cwd))
        return () if found is None or session.spawned_by is not None else found.notices

    def open_session(self, context: SessionContext) -> SessionAdditions:
        sub_agents = SubAgentsOfSession(self._children, context.definition)

        def bind(session: Session) -> None:
            sub_agents.session = session

        return SessionAdditions(sub_agents=sub_agents, on_open=bind)
