"""The skills whose work a sub-agent does: each as the agent that its front matter describes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ....actions.ports.sub_agents import name_skill_agent
from ....state.errors import ConfigError
from ...extensions.extension import load
from ..task import GENERAL
from .agent_files import FoundAgents, known_models
from .agent_parser import EFFORTS, normalize_name, read_model, read_tools
from .agent_spec import AgentSpec
from .front_matter import FrontMatter, Notices

FIND_SKILLS = ".agent.extensions.skills.catalogue:find_skills"
"""Loaded only for sessions with skills: they are an extension of their own."""
_NAME_READER = ".agent.extensions.skills.skills_runtime:name_reader"
_FILE = "SKILL.md"
_OF_CLAUDE: Mapping[str, AgentSpec] = {
    "general-purpose": GENERAL,
    "explore": replace(GENERAL, mode="plan"),
    "plan": replace(GENERAL, mode="plan"),
}
"""What `agent` may say in a skill for Claude Code -> the agent that fits here."""


def add_skill_agents(
    files: FoundAgents, names: Sequence[str], cwd: Path, env: Mapping[str, str], aliases: Iterable[str]
) -> FoundAgents:
    """Return the agents of files with those of the skills `names`.

    A skill that cannot be an agent is left out with a notice: the model reads its text instead.
    """
    skills = load(FIND_SKILLS)(cwd, env).skills
    models, of_files = known_models(aliases), Notices()
    agents, notices = dict(files.agents), list(files.notices)
    for skill in (skills[name] for name in names if name in skills):
        if not skill.runs_as_agent:
            continue
        try:
            agent = _read_agent(skill, files.agents, models, of_files)
        except ConfigError as problem:
            notices.append(f"{problem.message} No sub-agent does the work of the skill {skill.name}.")
            continue
        agents[agent.name] = agent
    return files._replace(agents=agents, notices=(*notices, *of_files.render()))


def _read_agent(
    skill: Any, agents: Mapping[str, AgentSpec], models: Container[str], notices: Notices
) -> AgentSpec:
    """Return the agent of a skill; raises `ConfigError` with file, line and key."""
    name, path = name_skill_agent(skill.name), skill.folder / _FILE
    fields = FrontMatter(path, skill.entries, notices)
    base = _find_base(fields, agents)
    # Skills of other agents have their tools in one line with blanks.
    key = "allowed-tools" if fields.find("tools") is None else "tools"
    tools, may_start = read_tools(fields, name, key, ", \n")
    if tools is not None:
        tools = (*_narrow(tools, base.tools), load(_NAME_READER)())
    return replace(
        base,
        name=name,
        description=skill.description,
        model=read_model(fields, models) or base.model,
        tools=base.tools if tools is None else tools,
        may_start=(() if base.source is None else base.may_start) if tools is None else may_start,
        skills=(*base.skills, skill.name),
        effort=fields.choice("effort", EFFORTS) or base.effort,
        source=path,
        is_of_project=skill.within.is_project,
    )


def _find_base(fields: FrontMatter, agents: Mapping[str, AgentSpec]) -> AgentSpec:
    """Return the agent that a skill names; without a name one like the agent that starts it."""
    given = fields.text("agent")
    if not given:
        return GENERAL
    name = normalize_name(given)
    base = agents.get(name) or _OF_CLAUDE.get(name)
    if base is None:
        fields.refuse(
            "agent", f"is {given[:60]!r}, which is no agent here", "`sandbur agents list` has them."
        )
    return base


def _narrow(tools: Iterable[str], base: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return only those tools that match a pattern of the base; all of them if there is no base."""
    if base is None:
        return tuple(tools)
    return tuple(tool for tool in tools if any(fnmatchcase(tool, pattern) for pattern in base))
