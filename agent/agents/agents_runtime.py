"""Brings sub-agents into sessions: the tool that starts them, for agents that may start some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...actions.ports import StartsAgents, Tool, ToolContext, ToolOutcome, ToolSource, implements
from ...actions.ports.sub_agents import TASK_TOOL
from ...state.session import SessionSettings
from ..config.paths import text_folders
from ..runtime.agent_definition import Definition
from ..runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from ..session.session import Session
from .children import Children
from .handoffs.hand_off import HandOffOrder, hand_off
from .handoffs.hand_off_tool import HandOffTool
from .markdown.agent_files import NO_AGENTS, FoundAgents, find_agents
from .markdown.skill_agents import add_skill_agents
from .task import GENERAL, ChildTask, Startable
from .task_tool import TaskTool


class AgentsRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._children = Children(process)
        self._found: dict[tuple[Path, tuple[str, ...]], FoundAgents] = {}
        """Working folder and skills -> the agents of Markdown files that such sessions may start."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        task = self._list_task_sources(session, definition)
        return (*task, HandOffSource(definition)) if definition.handoffs else task

    def _list_task_sources(self, session: SessionSettings, definition: Definition) -> tuple[ToolSource, ...]:
        by = session.spawned_by
        depth = 0 if by is None else by.levels
        is_plain = self.process.of_command and definition.has_builtin_tools
        named = _list_named(definition) if self.process.of_command and not is_plain else ()
        if depth >= self.process.settings.of("agent_depth"):
            return ()
        if not (is_plain or named or definition.agents or session.skills):
            return ()
        own: dict[str, Startable] = {GENERAL.name: GENERAL} if is_plain else {}
        own |= {one.name: one for one in definition.agents}
        may_start = None if by is None else by.may_start
        has_folders = (is_plain or named) and text_folders("agents", Path(session.cwd), self.process.env)
        find = (
            (lambda: self._find_agents(session, None if is_plain else named))
            if has_folders or session.skills
            else None
        )
        return (TaskSource(own, find, may_start),)

    def _find_agents(self, session: SessionSettings, named: tuple[str, ...] | None) -> FoundAgents:
        """Return the agents of the files of a folder, and of the skills of a session.

        They are read again for each session that is not a sub-agent's. `named` limits the agents of files;
        None: all.
        """
        cwd, env, aliases = Path(session.cwd), self.process.env, self.process.settings.aliases
        key = (cwd, session.skills)
        if session.spawned_by is None or key not in self._found:
            found = NO_AGENTS if named == () else find_agents(cwd, env, aliases)
            if named is not None:
                known = found.agents
                found = found._replace(agents={name: known[name] for name in named if name in known})
            if session.skills:
                found = add_skill_agents(found, session.skills, cwd, env, aliases)
            self._found[key] = found
        found = self._found[key]
        return found if session.spawned_by is None else found._replace(notices=())

    def open_session(self, context: SessionContext) -> SessionAdditions:
        sub_agents = SubAgentsOfSession(self._children, context.definition)

        def bind(session: Session) -> None:
            sub_agents.session = session

        return SessionAdditions(sub_agents=sub_agents, on_open=bind)


def _list_named(definition: Definition) -> tuple[str, ...]:
    """Return the agents that the flows of an agent start."""
    return tuple(flow.agent for flow in definition.flows if flow.agent)


class SubAgentsOfSession:
    """Implements `actions.ports.SubAgents` for one session."""

    def __init__(self, children: Children, definition: Definition) -> None:
        self._children = children
        self._definition = definition
        self.session: Session | None = None
        """Set once the session is open."""

    def can_start(self, agent: str) -> bool:
        tool = None if self.session is None else self.session.ports.toolbox.get(TASK_TOOL)
        return implements(tool, StartsAgents) and tool.can_start(agent)

    async def run(self, task: ChildTask | HandOffOrder, context: ToolContext) -> ToolOutcome:
        if self.session is None:
            return ToolOutcome("error", "Sub-agents start only in a session that runs.")
        if isinstance(task, HandOffOrder):
            return await hand_off(self._children, self.session, self._definition, task, context)
        return await self._children.run(self.session, self._definition, task, context)


class HandOffSource:
    """Implements `actions.ports.ToolSource`: the one tool that gives the conversation to another agent."""

    name = "handoffs"

    def __init__(self, definition: Definition) -> None:
        self._agents = {one.agent.name: one.agent for one in definition.handoffs}

    async def tools(self) -> Sequence[Tool]:
        return (HandOffTool(self._agents),)

    def notices(self) -> Sequence[str]:
        return ()

    async def aclose(self) -> None:
        """Do nothing: the other agent ends with its call."""


class TaskSource:
    """Implements `actions.ports.ToolSource`: it provides the tool `task` if the session may start
    any agent.
    """

    name = "agents"

    def __init__(
        self,
        own: Mapping[str, Startable],
        find: Callable[[], FoundAgents] | None,
        may_start: tuple[str, ...] | None,
    ) -> None:
        """`own` are the agents of the program, and `GENERAL`. `find` returns those of files; None if there
        are none. Of two with one name, that of the program counts, then that of a file.

        `may_start` are the only agents that the session may start; None for all.
        """
        self._own = own
        self._find = find
        self._may_start = may_start
        self._notices: Sequence[str] = ()

    async def tools(self) -> Sequence[Tool]:
        agents = dict(self._own)
        if self._find is not None:
            found = await asyncio.to_thread(self._find)
            self._notices = found.notices
            of_program = {name: one for name, one in self._own.items() if one is not GENERAL}
            agents = {**self._own, **found.agents, **of_program}
        if self._may_start is not None:
            agents = {name: one for name, one in agents.items() if name in self._may_start}
        return (TaskTool(agents),) if agents else ()

    def notices(self) -> Sequence[str]:
        return self._notices

    async def aclose(self) -> None:
        """Do nothing: a sub-agent ends with its call."""
