"""`sandbur agents list` and `show`: the agents that Markdown files describe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ....actions.tools.similar_names import suggest_names
from ....agent.agents.markdown.agent_files import find_agents, read_untrusted_agents
from ....agent.agents.markdown.agent_spec import AgentSpec
from ....agent.config.load import load_settings
from ....agent.config.paths import current_folder
from ....state.errors import UsageError
from ...cli.open_session import read_overrides
from ...terminal.terminal import encode, put, say
from ...terminal.text.sanitize import one_line, plain
from .command import AgentsCommand

_MOST_DESCRIPTION = 120


async def list_agents(command: AgentsCommand) -> int:
    """Print a line for each agent, including those that are ignored because they are not trusted."""
    agents, notices = _find(command)
    if command.json:
        for agent in agents:
            put(encode(_summarize(agent)))
    for agent in () if command.json else agents:
        description = one_line(agent.description)
        if len(description) > _MOST_DESCRIPTION:
            description = f"{description[:_MOST_DESCRIPTION]}..."
        put("\t".join((agent.name, agent.model or "inherit", _spell_source(agent), description)))
    for notice in notices:
        say(one_line(notice))
    if not agents and not command.json:
        say("No file describes an agent here. Write one: sandbur agents new NAME")
    return 0


async def show_agent(command: AgentsCommand) -> int:
    """Print the settings and instructions of an agent; of several with one name, the one that is used."""
    agents, notices = _find(command)
    agent = next((one for one in agents if one.name == command.agent), None)
    if agent is None:
        for notice in notices:
            say(one_line(notice))
        names = [one.name for one in agents]
        hint = suggest_names(command.agent, names, "`sandbur agents list` lists them.")
        raise UsageError(f"No file describes an agent `{one_line(command.agent)}` here.", hint)
    if command.json:
        put(encode(_summarize(agent) | _describe(agent)))
        return 0
    rows = {"name": agent.name, "file": _spell_source(agent), "description": agent.description}
    rows |= dict(_spell_fields(agent))
    width = max(map(len, rows))
    for label, text in rows.items():
        put(f"{label:<{width}}  {one_line(text)}")
    put(f"\n{plain(agent.instructions)}")
    return 0


def list_names() -> Iterator[tuple[str, str]]:
    """Yield the name of each agent of the working folder, and what it is for."""
    found = find_agents(current_folder(), os.environ)
    for agent in (*found.agents.values(), *read_untrusted_agents(found.untrusted)[0]):
        yield agent.name, one_line(agent.description)[:_MOST_DESCRIPTION]


def _find(command: AgentsCommand) -> tuple[list[AgentSpec], tuple[str, ...]]:
    """Return the agents of this folder, the used ones first, and the notices about their files."""
    settings = load_settings(read_overrides(command), os.environ)
    found = find_agents(settings.cwd, os.environ, settings.aliases)
    untrusted, mistakes = read_untrusted_agents(found.untrusted, settings.aliases)
    return [*found.agents.values(), *untrusted], (*settings.notices, *found.notices, *mistakes)


def _spell_source(agent: AgentSpec) -> str:
    return f"{one_line(str(agent.source))}{'' if agent.is_trusted else ' (not trusted)'}"


def _summarize(agent: AgentSpec) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "model": agent.model or None,
        "source": str(agent.source),
        "project": agent.is_of_project,
        "trusted": agent.is_trusted,
    }


def _describe(agent: AgentSpec) -> dict[str, Any]:
    """Return the other fields of an agent as JSON; null means the value of the session that starts it."""
    return {
        "tools": agent.tools,
        "disallowed_tools": agent.disallowed_tools,
        "may_start": agent.may_start,
        "mode": agent.mode,
        "max_turns": agent.max_turns,
        "skills": agent.skills,
        "mcp_servers": agent.mcp_servers,
        "effort": agent.effort,
        "isolation": agent.isolation or None,
        "color": agent.color or None,
        "initial_prompt": agent.initial_prompt or None,
        "instructions": agent.instructions,
    }


def _spell_fields(agent: AgentSpec) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each field that the agent's file sets."""
    lists: Mapping[str, tuple[str, ...] | None] = {
        "tools": agent.tools,
        "without tools": agent.disallowed_tools or None,
        "starts agents": agent.may_start,
        "skills": agent.skills or None,
        "tool servers": agent.mcp_servers,
    }
    texts: Mapping[str, object] = {
        "model": agent.model,
        "mode": agent.mode,
        "turns": agent.max_turns,
        "effort": agent.effort,
        "isolation": agent.isolation,
        "color": agent.color,
        "first message": agent.initial_prompt,
    }
    yield from ((label, ", ".join(names) or "none") for label, names in lists.items() if names is not None)
    yield from ((label, str(text)) for label, text in texts.items() if text)
