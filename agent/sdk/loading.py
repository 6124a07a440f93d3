"""Loads an agent that a program defines, by `package.module:name`."""

import asyncio
import importlib
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...state.errors import ConfigError, SandburError, UsageError
from ..config.trust import is_trusted_agent, trust_agent
from ..runtime.agent_definition import PLAIN, Definition
from .agent import Agent

_STARTS_A_RUN = frozenset(
    {
        Agent.run_sync.__code__,
        asyncio.run.__code__,
        asyncio.Runner.run.__code__,
        asyncio.BaseEventLoop.run_until_complete.__code__,
    }
)
"""Functions that run a coroutine from sync code; they fail in a module imported inside an event loop."""
_SOURCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_named_agent(
    source: str, folder: Path, env: Mapping[str, str], is_named_by_person: bool
) -> Definition:
    """Load the agent that a flag (`is_named_by_person`), a variable or a trusted configuration names.

    The agent is trusted from then on, so that its stored sessions can load it again.
    """
    error: type[SandburError] = UsageError if is_named_by_person else ConfigError
    found = load_agent(source, folder, error)
    if not is_trusted_agent(source, folder, env):
        trust_agent(source, folder, env)
    return found


def load_known_agent(source: str, folder: Path, env: Mapping[str, str]) -> tuple[Definition, list[str]]:
    """Load the agent of a stored session if it is trusted for that folder on this machine.

    Otherwise return the plain agent and the notices for the user: a record must not choose which code runs.
    """
    again = f"Resume it with --agent {source}."
    if not is_trusted_agent(source, folder, env):
        return PLAIN, [f"This session belongs to the agent {source}, which is not loaded by itself. {again}"]
    try:
        return load_agent(source, folder, UsageError), []
    except SandburError as error:
        return PLAIN, [f"The agent of this session is not here: {error.message} {again}"]


def load_agent(source: str, folder: Path, error: type[SandburError]) -> Definition:
    """Import an agent with `folder` on the import path; raises `error` with a message for the user."""
    if not _SOURCE.fullmatch(source):
        raise error(f"`{source}` names no agent.", "Write MODULE:NAME, such as support.bot:agent.")
    module_name, _, name = source.partition(":")
    agent = getattr(_import_module(module_name, folder, error), name, None)
    if agent is None:
        raise error(f"The module {module_name} has no `{name}`.", "Check the part after the colon.")
    if not isinstance(agent, Agent):
        raise error(f"{source} is a {type(agent).__name__}, no sandbur.Agent.", "Name the agent itself.")
    return agent.definition_of(source)


def _import_module(module_name: str, folder: Path, error: type[SandburError]) -> Any:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and module_name.startswith(missing.name):
            raise error(f"There is no module {module_name} in {folder}.", "Check -C and the name.") from None
        raise error(f"{module_name} cannot be imported: {missing}.", "Install what it needs.") from missing
    except Exception as bug:
        if place := _run_at_import(bug):
            raise error(
                f"{place} while it is imported.",
                'Put what runs the agent below `if __name__ == "__main__":`.',
            ) from bug
        if isinstance(bug, SandburError):
            raise
        why = f"{type(bug).__name__}: {bug}".rstrip(":. ")
        raise error(f"{module_name} cannot be imported: {why}.", "-v shows where.") from bug


def _run_at_import(bug: Exception) -> str:
    """Return the line of the module that started a run while it was imported; empty if no line did."""
    frames = list(traceback.walk_tb(bug.__traceback__))
    if not any(frame.f_code in _STARTS_A_RUN for frame, _ in frames):
        return ""
    own = [(frame.f_code.co_filename, line) for frame, line in frames if frame.f_code.co_name == "<module>"]
    return f"{Path(own[-1][0]).name} starts a run in line {own[-1][1]}" if own else ""
