"""Finds the Markdown agents of a person and a project."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ....state.errors import ConfigError
from ...config.paths import text_folders
from ...extensions.markdown_files import TextFolder, list_files
from ...extensions.registry import list_shipped_models
from ...runtime.agent_definition import SubAgentDefinition
from .agent_parser import parse_agent
from .agent_spec import AgentSpec
from .front_matter import Notices

PATTERN = "*.md"
_MOST_AGENTS = 200
_MOST_LISTED, _MOST_DESCRIPTION = 20, 200


class FoundAgents(NamedTuple):
    agents: Mapping[str, AgentSpec]
    """The agents that a session can start, by name, the nearest first."""
    untrusted: tuple[TextFolder, ...]
    """The folders of the project that are not trusted, so that their agents are ignored."""
    notices: tuple[str, ...]


NO_AGENTS = FoundAgents({}, (), ())


def find_agents(cwd: Path, env: Mapping[str, str], aliases: Iterable[str] = ()) -> FoundAgents:
    """Return the agents that a session in a folder can start; of two with one name, the nearer one.

    `aliases` are those of the settings: a file that asks for another short name gets the model of the parent.
    A file with a mistake is left out, with a notice that names file, line and key.
    """
    notices: list[str] = []
    of_files = Notices()
    read = partial(_read, known_models(aliases), of_files, {})
    found, untrusted = list_files("agent", PATTERN, cwd, env, _MOST_AGENTS, read, notices)
    return FoundAgents(found, untrusted, (*notices, *of_files.render()))


def has_isolated_agents(cwd: Path, env: Mapping[str, str], aliases: Iterable[str] = ()) -> bool:
    """Return whether an agent that a session in a folder can start works in a copy."""
    if not text_folders("agents", cwd, env):
        return False
    return any(agent.isolation for agent in find_agents(cwd, env, aliases).agents.values())


def read_untrusted_agents(
    folders: Iterable[TextFolder], aliases: Iterable[str] = ()
) -> tuple[list[AgentSpec], list[str]]:
    """Return the agents of folders that are not trusted, to list them, and a sentence for each file with a
    mistake."""
    read = partial(_read, known_models(aliases), Notices(), {})
    agents: list[AgentSpec] = []
    mistakes: list[str] = []
    for folder in folders:
        try:
            names = folder.find_names(PATTERN)
        except ConfigError:
            continue  # the folder has too many files, which a notice of `find_agents` says
        for name in names:
            try:
                agents.append(replace(read(folder, name)[1], is_trusted=False))
            except ConfigError as mistake:
                mistakes.append(str(mistake))
    return agents, mistakes


def catalogue(agents: Mapping[str, AgentSpec | SubAgentDefinition]) -> str:
    """Return the list of agents for the model: one line each, and how many more there are."""
    listed = list(agents.values())[:_MOST_LISTED]
    lines = [f"- {agent.name}: {_shorten(agent.description)}" for agent in listed]
    more = len(agents) - len(listed)
    return "\n".join([*lines, *([f"and {more} more: sandbur agents list"] if more else [])])


def known_models(aliases: Iterable[str]) -> frozenset[str]:
    """Return the names of models without a provider: aliases, and models that ship."""
    return frozenset((*aliases, *list_shipped_models()))


def _read(
    models: Container[str],
    notices: Notices,
    places: dict[tuple[Path, str], str],
    folder: TextFolder,
    file: str,
) -> tuple[str, AgentSpec]:
    """Return the name and the agent of a file; `places`: folder and name -> the file that was read first."""
    path = folder.path / file
    spec = parse_agent(path, folder.text(file), models, notices)
    first = places.setdefault((folder.path, spec.name), file)
    if first != file:
        raise ConfigError(f"{path} describes an agent `{spec.name}`, as {folder.path / first} does.")
    return spec.name, replace(spec, is_of_project=folder.is_project)


def _shorten(description: str) -> str:
    """Return a description as one short line without control characters: the text of files is untrusted."""
    line = " ".join("".join(c if c.isprintable() else " " for c in description).split())
    return line if len(line) <= _MOST_DESCRIPTION else f"{line[: _MOST_DESCRIPTION - 3].rstrip()}..."
