"""The settings of a sub-agent's session: those of the session that starts it, and never wider."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...actions.ports.sub_agents import TASK_TOOL
from ...actions.tools.registry import SERVER_PREFIX
from ...state.application import ExecutionMode
from ...state.errors import UsageError
from ...state.session import SessionSettings, SpawnedBy, ToolChoice
from ..extensions.extension import load
from ..models.connect import choose_model
from ..runtime.agent_definition import Definition, SessionPlace, SubAgentDefinition
from ..runtime.extension_runtime import ProcessContext
from ..runtime.prompts import session_prompt, sub_agent_prompt
from ..session.session import Session
from .markdown.agent_spec import AgentSpec
from .markdown.skill_agents import FIND_SKILLS
from .task import ChildTask, Startable

ISOLATE = ".agent.review.trials.isolation:isolate"
RENEW_ISOLATED = ".agent.review.trials.isolation:renew"
MODES_BY_FREEDOM: tuple[ExecutionMode, ...] = ("plan", "interactive", "auto-edit", "yolo")
_RULES = ("allow", "ask", "deny")
_OF_PARENT = ("add_dirs", "sandbox", "allow_net", "variables")
"""The settings that a sub-agent takes from its parent each time it is opened."""


def narrow_mode(wish: ExecutionMode | None, parent: ExecutionMode) -> ExecutionMode:
    """Return the mode `wish`, or the mode of the parent if `wish` asks less often."""
    if wish is None or MODES_BY_FREEDOM.index(wish) > MODES_BY_FREEDOM.index(parent):
        return parent
    return wish


async def make_child_settings(
    parent: Session, agent: Startable, task: ChildTask, call_id: str, child_id: str, process: ProcessContext
) -> SessionSettings:
    """Return the settings of a new sub-agent.

    Raises `UsageError` for a model, a skill or an isolation that the agent cannot have, and
    `CredentialsError` if no model is set up for an agent of a workflow that names none.
    """
    env, above = process.env, parent.settings.spawned_by
    by = SpawnedBy(
        session_id=parent.id,
        sequence=max(parent.last_sequence, 0),
        call_id=call_id,
        agents=_name_branch(parent, agent),
        description=task.description,
        depth=(0 if above is None else above.levels) + (not parent.settings.is_workflow),
        has_conversation=task.seat is not None,
    )
    if isinstance(agent, SubAgentDefinition):
        if task.model:
            raise UsageError(
                f"The model of the agent {agent.name} is the program's choice.", "Leave `model` out."
            )
        place = SessionPlace(child_id, Path(parent.settings.cwd))
        prompt, _ = await session_prompt(place, (), env, agent.definition)
        by = by.model_copy(update={"max_turns": agent.definition.overrides.get("max_turns")})
        own = _describe_program_agent(parent, agent.definition, prompt)
        own["model"] = own["model"] or await _find_model_above(parent, process)
    else:
        _require_possible(agent, task, parent.settings)
        skills = await asyncio.to_thread(_read_skills, agent, Path(parent.settings.cwd), env)
        by = by.model_copy(update={"max_turns": agent.max_turns, "may_start": agent.may_start})
        own = _describe_file_agent(parent, agent, task, skills)
    changes = {"spawned_by": by, "imported_seq": None, "plan_tools": (), "memory": ""}
    changes |= {**_join_rules(parent, agent), **own}
    settings = parent.settings.model_copy(update=changes)
    if isinstance(agent, AgentSpec) and agent.isolation:
        task_text = task.description or agent.name
        return await asyncio.to_thread(load(ISOLATE), process.settings, settings, child_id, task_text)
    return settings


def renew_child_settings(
    stored: SessionSettings, parent: Session, agent: Startable, process: ProcessContext
) -> SessionSettings:
    """Return the stored settings of a sub-agent with the rules that hold now.

    Raises `UsageError` if it worked in a copy that is gone.
    """
    now = {key: getattr(parent.settings, key) for key in _OF_PARENT}
    settings = stored.model_copy(update=now | _join_rules(parent, agent))
    if stored.trial != parent.settings.trial:
        renewed: SessionSettings = load(RENEW_ISOLATED)(process.settings.home, settings)
        return renewed
    return settings


def _join_rules(parent: Session, agent: Startable) -> dict[str, Any]:
    """Return the rules of the parent, with those that the program gives to the sub-agent."""
    own: Mapping[str, Any] = agent.definition.overrides if isinstance(agent, SubAgentDefinition) else {}
    return {key: tuple(dict.fromkeys((*getattr(parent.settings, key), *own.get(key, ())))) for key in _RULES}


def _name_branch(parent: Session, agent: Startable) -> tuple[str, ...]:
    """Return the names from the first sub-agent down to this one.

    A workflow that repeats an agent has the name of that agent, which is not written twice.
    """
    above = parent.settings.spawned_by
    names = () if above is None else above.agents
    return names if names and parent.settings.is_repetition else (*names, agent.name)


def _describe_file_agent(
    parent: Session, agent: AgentSpec, task: ChildTask, skills: Sequence[str]
) -> dict[str, Any]:
    """Return the settings of an agent that a file describes, or that is like its parent."""
    settings = parent.settings
    instructions = "\n\n".join(filter(None, (agent.instructions, *skills)))
    folders = tuple(map(Path, settings.add_dirs))
    return {
        "system_prompt": sub_agent_prompt(settings.system_prompt, instructions, Path(settings.cwd), folders),
        "model": task.model or agent.model or settings.model,
        "effort": agent.effort or settings.effort,
        "mode": narrow_mode(agent.mode, parent.state.mode_of_sub_agents),
        "tool_choice": _narrow_tools(parent, agent),
        "has_planning": settings.has_planning and not instructions,
        "output_schema": None,
        "done_tool": "",
    }


def _describe_program_agent(parent: Session, definition: Definition, prompt: str) -> dict[str, Any]:
    """Return the settings of an agent that a program defines."""
    settings, own = parent.settings, definition.overrides
    named = definition.model.name if definition.model is not None else own.get("model")
    return {
        "system_prompt": prompt,
        "model": named or ("" if settings.is_workflow else settings.model),
        "effort": own.get("effort") or settings.effort,
        "knowledge": tuple(name for one in definition.knowledge for name in one.names),
        "mode": narrow_mode(own.get("mode"), parent.state.mode_of_sub_agents),
        "fallback_models": own.get("fallback_models", () if named else settings.fallback_models),
        "max_result_tokens": own.get("max_result_tokens", settings.max_result_tokens),
        "tool_choice": ToolChoice(
            never=settings.tool_choice.never,
            groups=own.get("groups", ()),
            available_groups=own.get("available_groups", ()),
            group_descriptions=own.get("group_descriptions", {}),
            can_reset=bool(own.get("available_groups")),
        ),
        "agent": definition.source,
        "agent_file": definition.file,
        "has_shipped_tools": definition.has_builtin_tools,
        "has_planning": definition.has_planning,
        "own_tools": {},
        "output_schema": None if definition.output is None else definition.output.output_schema,
        "done_tool": definition.done_tool,
    }


async def _find_model_above(parent: Session, process: ProcessContext) -> str:
    """Return the model of the next session above that names one, else that of the settings of the process."""
    above: Session | None = parent
    while above is not None:
        named = above.settings.agents_model if above.settings.is_workflow else above.settings.model
        if named:
            return named
        above = above.parent
    found, _ = await asyncio.to_thread(choose_model, process.settings.model, process.env, False)
    return found


def _narrow_tools(parent: Session, agent: AgentSpec) -> ToolChoice:
    """Return the tools of the parent that the agent may use.

    Whether it has the tool that starts agents depends on the agents that it may start.
    """
    choice, names = parent.settings.tool_choice, tuple(parent.ports.toolbox)
    others = () if agent.mcp_servers is None else _list_tools_of_others(names, agent.mcp_servers)
    never = tuple(dict.fromkeys((*choice.never, *agent.disallowed_tools, *others)))
    if agent.tools is None:
        return choice.model_copy(update={"never": never})
    only = tuple(_match(names, (*agent.tools, TASK_TOOL)))
    # An empty `only` would mean all tools.
    return choice.model_copy(update={"only": only, "never": never if only else names})


def _list_tools_of_others(names: Iterable[str], servers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tools of the tool servers that an agent does not name."""
    own = tuple(f"{SERVER_PREFIX}{server}__" for server in servers)
    return tuple(name for name in names if name.startswith(SERVER_PREFIX) and not name.startswith(own))


def _match(names: Iterable[str], patterns: tuple[str, ...]) -> Iterable[str]:
    return (name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _require_possible(agent: AgentSpec, task: ChildTask, settings: SessionSettings) -> None:
    """Raise `UsageError` for a model that is not configured.

    A model must not choose another model, which may cost more.
    """
    of_agents = (one.model for one in task.agents.values() if isinstance(one, AgentSpec) and one.model)
    known = {settings.model, *settings.fallback_models, *of_agents}
    if task.model and task.model not in known:
        names = ", ".join(sorted(known))
        raise UsageError(f"The model {task.model[:80]!r} is not configured here. There are: {names}.")


def _read_skills(agent: AgentSpec, cwd: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the texts of the skills of an agent. Raises `UsageError` for one that is not there."""
    if not agent.skills:
        return ()
    found = load(FIND_SKILLS)(cwd, env).skills
    for name in agent.skills:
        if name not in found:
            raise UsageError(f"The agent {agent.name} needs the skill {name}, which is not here.")
    return tuple(found[name].text() for name in agent.skills)
