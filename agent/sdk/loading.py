"""Loads an agent from a program or a file, by `package.module:name` or by the path of the file."""

import asyncio
import importlib
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ...state.errors import ConfigError, SandburError, UsageError
from ...state.session import AgentFileText, SessionSettings
from ..config.load import load_settings
from ..config.paths import CONFIG_NAME
from ..config.settings import Overrides, Settings
from ..config.trust import is_trusted_agent, is_trusted_agent_file, trust_agent, trust_agent_file
from ..extensions.registry import find_agent_file_parser
from ..runtime.agent_definition import PLAIN, AgentParts, Definition
from ..session.secrets import describe_error, mask_report
from .agent import Agent, define_as
from .file_agents import narrow, parse_agent_text, read_agent_text, restore_for

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


def load_named_agent(settings: Settings, overrides: Overrides, env: Mapping[str, str]) -> Definition:
    """Load the agent that a flag, a variable or a trusted configuration names.

    The agent is trusted from then on, so that its stored sessions can load it again. A file that a project
    names has to be trusted before, in its present version.
    """
    source, folder = settings.agent or "", settings.cwd
    error: type[SandburError] = UsageError if overrides.get("agent") else ConfigError
    if find_agent_file_parser(source) is not None:
        return _load_named_file(settings, env, error)
    found = load_agent(source, folder, error)
    if not is_trusted_agent(source, folder, env):
        trust_agent(source, folder, env)
    return found


def _load_named_file(settings: Settings, env: Mapping[str, str], error: type[SandburError]) -> Definition:
    named_by = next(iter(settings.sources.get("agent", ())), "")
    is_project = named_by.endswith(f"/{CONFIG_NAME}")
    folder = settings.cwd
    if named_by.endswith("/config.toml"):
        folder = Path(named_by.removesuffix(CONFIG_NAME)) if is_project else Path(named_by).parent
    file = read_agent_text(folder / Path(settings.agent or "").expanduser(), error)
    file = file.model_copy(update={"is_project": is_project})
    path = Path(file.path)
    if not is_trusted_agent_file(path, file.digest, env):
        if is_project:
            raise error(
                f"{named_by} names the agent file {path}, but its present version is not trusted.",
                f"Read it, and trust it once with --agent {path}",
            )
        trust_agent_file(path, file.digest, env)
    return _define(file, settings, env)


def _define(file: AgentFileText, settings: Settings, env: Mapping[str, str]) -> Definition:
    """Return the definition in a file, with nothing looser than the person's settings."""

    def parse(text: AgentFileText) -> AgentParts:
        return narrow(parse_agent_text(text, env), settings)

    def build(parts: AgentParts) -> Definition:
        return parts.complete(Agent(**parts.arguments, env=env).definition)

    def may_use(stored: AgentFileText) -> bool:
        return is_trusted_agent_file(Path(stored.path), stored.digest, env)

    made = build(parse(file))
    return replace(made, restore=restore_for(file, lambda: made, build, parse, may_use))


def _load_known_file(session: SessionSettings, env: Mapping[str, str]) -> tuple[Definition, list[str]]:
    """Load the agent of a stored session from its stored file. A text that is not trusted does not count."""
    stored = session.agent_file
    again = f"Resume it with --agent {session.agent}"
    if stored is None or not is_trusted_agent_file(Path(stored.path), stored.digest, env):
        return PLAIN, [
            f"This session belongs to the agent {session.agent}, which is not trusted here. {again}"
        ]
    settings = load_settings({"cwd": Path(session.cwd)}, env)
    try:
        now = read_agent_text(Path(stored.path))
    except SandburError as error:
        if not stored.is_whole:
            return PLAIN, [f"The agent of this session is not here: {error.message} {again}"]
        gone = f"The file {stored.path} is gone: this session goes on with what it began with."
        return _define(stored, settings, env), [gone]
    if stored.is_whole and now.digest != stored.digest:
        changed = f"The file {stored.path} has changed since this session began"
        return _define(stored, settings, env), [f"{changed}: it goes on with what it began with."]
    if now.digest != stored.digest:
        return PLAIN, [f"The file {stored.path} has changed, and had a secret in it. {again}"]
    return _define(now.model_copy(update={"is_project": stored.is_project}), settings, env), []


def load_known_agent(session: SessionSettings, env: Mapping[str, str]) -> tuple[Definition, list[str]]:
    """Load the agent of a stored session if it is trusted for the session's folder on this machine.

    Otherwise return the plain agent and notices for the user, because a record must not choose which code
    runs.
    """
    source, folder = session.agent, Path(session.cwd)
    if find_agent_file_parser(source) is not None:
        return _load_known_file(session, env)
    again = f"Resume it with --agent {source}."
    if not is_trusted_agent(source, folder, env):
        return PLAIN, [f"This session belongs to the agent {source}, which is not trusted here. {again}"]
    try:
        return load_agent(source, folder, UsageError).of_session(session)
    except SandburError as error:
        return PLAIN, [f"The agent of this session is not here: {error.message} {again}"]


def load_agent(source: str, folder: Path, error: type[SandburError]) -> Definition:
    """Import the definition of an agent; raises `error` as `import_agent` does."""
    return define_as(import_agent(source, folder, error), source)


def open_agent(source: str, folder: Path) -> Agent[Any]:
    """Return the agent that a person names: MODULE:NAME, or an agent file. Raises `UsageError`."""
    if find_agent_file_parser(source) is not None:
        path = (folder / Path(source).expanduser()).resolve()
        if not path.exists():
            raise UsageError(f"The file {path} does not exist.", "Check the path.")
        return Agent.from_file(path)
    return import_agent(source, folder, UsageError)


def open_named_agent(source: str, folder: Path) -> tuple[str, Agent[Any]]:
    """Return an agent as `open_agent` does, after the name by which every process finds it: MODULE:NAME, or
    the whole path of its file."""
    agent = open_agent(source, folder)
    is_file = find_agent_file_parser(source) is not None
    return agent.definition.source if is_file else source, agent


def import_agent(source: str, folder: Path, error: type[SandburError]) -> Agent[Any]:
    """Import an agent with `folder` on the import path; raises `error` with a sentence for the user."""
    if not _SOURCE.fullmatch(source):
        raise error(f"`{source}` does not name an agent.", "Write MODULE:NAME, such as support.bot:agent.")
    module_name, _, name = source.partition(":")
    agent = getattr(_import_module(module_name, folder, error), name, None)
    if agent is None:
        raise error(f"The module {module_name} has no `{name}`.", "Check the part after the colon.")
    if not isinstance(agent, Agent):
        raise error(f"{source} is a {type(agent).__name__}, not a sandbur.Agent.", "Name the agent itself.")
    return cast("Agent[Any]", agent)


def _import_module(module_name: str, folder: Path, error: type[SandburError]) -> Any:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        # Stdout belongs to the answer.
        with redirect_stdout(sys.stderr):
            return importlib.import_module(module_name)
    except SystemExit:
        raise error(
            f"{module_name} ends the process while it is imported.",
            'Put what does so below `if __name__ == "__main__":`.',
        ) from None
    except ModuleNotFoundError as missing:
        if missing.name is not None and module_name.startswith(missing.name):
            raise error(f"There is no module {module_name} in {folder}.", "Check -C and the name.") from None
        why = mask_report(str(missing), folder)
        raise error(f"{module_name} cannot be imported: {why}.", "Install what it needs.") from missing
    except Exception as bug:
        if place := _run_at_import(bug):
            raise error(
                f"{place} while it is imported.",
                'Put what runs the agent below `if __name__ == "__main__":`.',
            ) from bug
        if isinstance(bug, SandburError):
            raise
        why = describe_error(bug, folder).rstrip(":. ")
        raise error(f"{module_name} cannot be imported: {why}.", "-v shows where.") from bug


def _run_at_import(bug: Exception) -> str:
    """Return `FILE starts a run in line N` for a run that started during an import; otherwise empty."""
    frames = list(traceback.walk_tb(bug.__traceback__))
    if not any(frame.f_code in _STARTS_A_RUN for frame, _ in frames):
        return ""
    own = [(frame.f_code.co_filename, line) for frame, line in frames if frame.f_code.co_name == "<module>"]
    return f"{Path(own[-1][0]).name} starts a run in line {own[-1][1]}" if own else ""
