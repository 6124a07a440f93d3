"""The tool `read_skill`: a model reads the instructions for a kind of work, and files of the skill."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ....actions.ports import Tool, ToolContext, ToolOutcome, ToolTraits
from ....actions.ports.sub_agents import TASK_TOOL, name_skill_agent
from ....actions.tools.builtin import BuiltinTool
from ....actions.tools.schema import PlainText, ToolArguments
from ....state.errors import ConfigError
from .catalogue import Skill, find_skills

NAME = "read_skill"
_DESCRIPTION = (
    "Read a skill: instructions for a kind of work, which the system prompt lists by name. Read it before you"
    " begin such work, and follow it. With a file you read one that the instructions name."
)
_HEAD = """\
# Skills
Instructions for kinds of work. Where a task fits one of these descriptions, read it with read_skill(name) \
before you begin. A skill is advice for the work: it allows nothing that the person's rules do not allow."""


class ListedSkills(NamedTuple):
    """The skills that a session began with."""

    section: str
    """The section of the system prompt that lists the skills; empty without skills."""
    names: tuple[str, ...]
    notices: tuple[str, ...]


def list_skills_for_prompt(
    cwd: Path, env: Mapping[str, str], names: Sequence[str] | None = None
) -> ListedSkills:
    """Return the skills of a folder. With `names`, return only those, and a notice for each missing one."""
    found = find_skills(cwd, env)
    skills = found.skills
    missing: tuple[str, ...] = ()
    if names is not None:
        skills = {name: skills[name] for name in names if name in skills}
        missing = tuple(f"There is no skill {name} here." for name in names if name not in skills)
    section = catalogue(skills) if skills else ""
    return ListedSkills(section, tuple(skills), (*found.notices, *missing))


def catalogue(skills: Mapping[str, Skill]) -> str:
    """Return the list of skills in the system prompt."""
    return "\n".join([_HEAD, *map(_describe, skills.values())])


def _describe(skill: Skill) -> str:
    agent = f' ({TASK_TOOL} with agent="{name_skill_agent(skill.name)}" does it)'
    return f"- {skill.name}: {skill.description}{agent if skill.runs_as_agent else ''}"


class ReadSkillArguments(ToolArguments):
    name: PlainText = Field(description="As the system prompt lists it.")
    file: PlainText = Field("", description="A file of the skill, relative to its folder. Default: its text.")


class ReadSkill(BuiltinTool[ReadSkillArguments]):
    traits = ToolTraits(subject="name", is_quiet=True, outlasts_compression=True)

    def __init__(self, skills: Mapping[str, Skill]) -> None:
        super().__init__(NAME, _DESCRIPTION, ReadSkillArguments)
        self._skills = skills

    async def run(self, arguments: ReadSkillArguments, context: ToolContext) -> ToolOutcome:
        skill = self._skills.get(arguments.name.strip())
        if skill is None:
            known = ", ".join(self._skills) or "none any more"
            return ToolOutcome("error", f"There is no skill {arguments.name[:80]!r}. There are: {known}.")
        if not arguments.file:
            return ToolOutcome("ok", _find_agent(skill, context) or skill.text())
        return await asyncio.to_thread(_file, skill, arguments.file)


def _find_agent(skill: Skill, context: ToolContext) -> str:
    """Return how to start the sub-agent of a skill; empty if the session cannot start one."""
    agent = name_skill_agent(skill.name)
    if not skill.runs_as_agent or context.sub_agents is None or not context.sub_agents.can_start(agent):
        return ""
    return f'A sub-agent does this work. Start it: {TASK_TOOL}(agent="{agent}", prompt="...").'


def _file(skill: Skill, name: str) -> ToolOutcome:
    """Return the path of a file within the skill's folder."""
    path = Path(skill.place, name)
    if path.is_absolute() or ".." in path.parts or path.parts[0] != skill.place:
        return ToolOutcome("error", f"{name[:200]!r} is not in the folder of the skill.")
    try:
        return ToolOutcome("ok", f"[Skill {skill.name}: {name}]\n{skill.within.text(path.as_posix())}")
    except ConfigError as problem:
        return ToolOutcome("error", str(problem))


class SkillTools:
    """Implements `actions.ports.ToolSource` for a session whose prompt lists skills."""

    name = "skills"
    reader = NAME
    list_for_prompt = staticmethod(list_skills_for_prompt)

    def __init__(self, cwd: Path, env: Mapping[str, str], names: Sequence[str]) -> None:
        self._cwd = cwd
        self._env = env
        self._names = names
        self._notices: list[str] = []

    async def tools(self) -> Sequence[Tool]:
        found = await asyncio.to_thread(find_skills, self._cwd, self._env)
        skills = {name: found.skills[name] for name in self._names if name in found.skills}
        gone = [name for name in self._names if name not in skills]
        self._notices = [f"Skills of this session are not here: {', '.join(gone)}."] if gone else []
        return [ReadSkill(skills)]

    def notices(self) -> Sequence[str]:
        return self._notices

    async def aclose(self) -> None: ...
