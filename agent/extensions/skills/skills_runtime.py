"""Skills in sessions: a section of the system prompt, and the tool that reads one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ....actions.ports import ToolSource
from ....state.session import SessionSettings
from ...config.paths import text_folders
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection


class SkillsRuntime(ExtensionRuntime):
    """A session keeps the names of the skills that its prompt lists."""

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        if not self.process.of_command or definition.instructions is not None:
            return PromptSection()
        if not text_folders("skills", cwd, self.process.env):
            return PromptSection()
        # The tool needs pydantic, which sessions without skills do without.
        from .read_skill import list_skills_for_prompt

        found = await asyncio.to_thread(list_skills_for_prompt, cwd, self.process.env)
        return PromptSection(found.section, {"skills": found.names}, found.notices)

    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        if not session.skills:
            return ()
        from .read_skill import SkillTools

        return (SkillTools(Path(session.cwd), self.process.env, session.skills),)
