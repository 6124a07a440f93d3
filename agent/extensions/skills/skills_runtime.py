"""Skills in sessions: a section of the system prompt, and the tool that reads a skill."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.ports import StartsAgents, Tool, ToolSource, implements
from ....actions.ports.message_router import RoutedMessage
from ....actions.ports.sub_agents import TASK_TOOL, make_task_arguments, name_skill_agent
from ....actions.turn.flows.linear_regex import StepBudget
from ....state.application import FlowMatch
from ....state.session import SessionSettings
from ...config.paths import text_folders
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection, SessionAdditions, SessionContext
from .catalogue import Skill, find_skills

if TYPE_CHECKING:
    from .read_skill import SkillTools


class SkillsRuntime(ExtensionRuntime):
    """Adds skills to sessions. A session stores the names of the skills that its prompt lists."""

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        is_plain = self.process.of_command and definition.instructions is None
        if not is_plain and not definition.skills:
            return PromptSection()
        if is_plain and not text_folders("skills", cwd, self.process.env):
            return PromptSection()
        found = await asyncio.to_thread(
            _load_tools().list_for_prompt, cwd, self.process.env, None if is_plain else definition.skills
        )
        return PromptSection(found.section, {"skills": found.names}, found.notices)

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if not session.skills:
            return ()
        return (_load_tools()(Path(session.cwd), self.process.env, session.skills),)

    def open_session(self, context: SessionContext) -> SessionAdditions:
        if not context.settings.skills or not context.has_model:
            return SessionAdditions()
        cwd = Path(context.settings.cwd)
        router = SkillRouter(
            cwd, self.process.env, context.settings.skills, lambda agent: _can_start(agent, context.tools)
        )
        return SessionAdditions(router=router)


def _can_start(agent: str, tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(TASK_TOOL)
    return implements(tool, StartsAgents) and tool.can_start(agent)


class SkillRouter:
    """Implements `actions.ports.MessageRouter`: the first skill with a trigger that matches is chosen."""

    def __init__(
        self,
        cwd: Path,
        env: Mapping[str, str],
        names: Sequence[str],
        can_start: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`names` are the skills of the session, in the order of its prompt.

        `can_start` returns whether the session may start an agent.
        """
        self._can_start = can_start
        self._cwd = cwd
        self._env = env
        self._names = names
        self._skills: tuple[Skill, ...] | None = None

    async def route(self, text: str) -> RoutedMessage | None:
        if self._skills is None:
            found = (await asyncio.to_thread(find_skills, self._cwd, self._env)).skills
            skills = (found[name] for name in self._names if name in found)
            self._skills = tuple(skill for skill in skills if skill.triggers)
        budget = StepBudget()
        for skill in self._skills:
            if (match := await skill.triggers.match(text, budget)) is not None:
                return self._make_routed(skill, match.why, text)
        return None

    def _make_routed(self, skill: Skill, why: str, message: str) -> RoutedMessage:
        agent = name_skill_agent(skill.name)
        if not skill.runs_as_agent or not self._can_start(agent):
            return RoutedMessage(FlowMatch(name=skill.name, kind="skill", why=why), text=skill.text())
        match = FlowMatch(name=skill.name, kind="skill_agent", why=why, target=TASK_TOOL, on_failure="model")
        arguments = make_task_arguments(agent, message, f"the skill {skill.name}")
        return RoutedMessage(match, json.dumps(arguments, ensure_ascii=False), skill.text())


def name_reader() -> str:
    """Return the name of the tool that reads skills."""
    return _load_tools().reader


def _load_tools() -> type[SkillTools]:
    """Return the class of the tool source. It needs pydantic, so it is imported only for sessions with
    skills."""
    from .read_skill import SkillTools

    return SkillTools
