"""Skills in sessions: a section of the system prompt, and the tool that reads a skill."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.ports import ToolSource
from ....actions.ports.message_router import RoutedMessage
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
        return SessionAdditions(router=SkillRouter(cwd, self.process.env, context.settings.skills))


class SkillRouter:
    """Implements `actions.ports.MessageRouter`: the first skill with a trigger that matches is chosen."""

    def __init__(self, cwd: Path, env: Mapping[str, str], names: Sequence[str]) -> None:
        """`names` are the skills of the session, in the order of its prompt."""
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
                return RoutedMessage(
                    FlowMatch(name=skill.name, kind="skill", why=match.why), text=skill.text()
                )
        return None


def _load_tools() -> type[SkillTools]:
    """Return the class of the tool source. It needs pydantic, so it is imported only for sessions with
    skills."""
    from .read_skill import SkillTools

    return SkillTools
