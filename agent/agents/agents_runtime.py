"""Brings sub-agents into sessions: the tool that starts them, for agents that may start some."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...actions.ports import Tool, ToolContext, ToolOutcome, ToolSource
from ...state.session import SessionSettings
from ..config.paths import text_folders
from ..runtime.agent_definition import Definition
from ..runtime.extension_runtime import ExtensionRuntime, ProcessContext, SessionAdditions, SessionContext
from ..session.session import Session
from .children import Children
from .handoffs.hand_off import HandOffOrder, hand_off
from .handoffs.hand_off_tool import HandOffTool
from .markdown.agent_files import FoundAgents, find_agents
from .task import GENERAL, Startable, Task
from .task_tool import TaskTool


class AgentsRuntime(ExtensionRuntime):
    def __init__(self, process: ProcessContext) -> None:
        super().__init__(process)
        self._children = Children(process)
        self._found: dict[Path, FoundAgents] = {}
        """Working folder -> the agents of Markdown files that its sessions may start."""

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        task = self._list_task_sources(session, definition)
        return (*task, HandOffSource(definition)) if definition.handoffs else task

    def _list_task_sources(self, session: SessionSettings, definition: Definition) -> tuple[ToolSource, ...]:
        by = session.spawned_by
        depth = 0 if by is None else len(by.agents)
        reads_files = self.process.of_command and definition.has_builtin_tools
        if depth >= self.process.settings.of("agent_depth") or not (reads_files or definition.agents):
            return ()
        own: dict[str, Startable] = {GENERAL.name: GENERAL} if reads_files else {}
        own |= {one.name: one for one in definition.agents}
        may_start = None if by is None else by.may_start
        has_files = reads_files and text_folders("agents", Path(session.cwd), self.process.env)
        find = (lambda: self._find_agents(session)) if has_files else None
        return (TaskSource(own, find, may_start),)

    def _find_agents(self, session: SessionSettings) -> FoundAgents:
        """Return the agents of the files of a folder. They are read again for each session but sub-agents."""
        cwd = Path(session.cwd)
        if session.spawned_by is None or cwd not in self._found:
            self._found[cwd] = find_agents(cwd, self.process.env, self.process.settings.aliases)
        found = self._found[cwd]
        return found if session.spawned_by is None else found._replace(notices=())

    def open_session(self, context: SessionContext) -> SessionAdditions:
        sub_agents = SubAgentsOfSession(self._children, context.definition)

        def bind(session: Session) -> None:
            sub_agents.session = session

        return SessionAdditions(sub_agents=sub_agents, on_open=bind)


class SubAgentsOfSession:
    """Implements `actions.ports.SubAgents` for one session."""

    def __init__(self, children: Children, definition: Definition) -> None:
        self._children = children
        self._definition = definition
        self.session: Session | None = None
        """Set once the session is open."""

    async def run(self, task: Task | HandOffOrder, context: ToolContext) -> ToolOutcome:
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
    """Implements `actions.ports.ToolSource`: the one tool, if the session may start any agent."""

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
