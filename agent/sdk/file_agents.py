"""Agents from files: reads a file, restricts a project's agent, and restores that of a stored session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...actions.turn.output.types import TypedOutput
from ...state.errors import ConfigError, SandburError
from ...state.session import AgentFileText, SessionSettings
from ..config.paths import decode_text, read_bytes
from ..config.settings import MODES, Settings
from ..extensions.extension import load
from ..extensions.registry import find_agent_file_parser
from ..runtime.agent_definition import AgentParts, Definition
from ..session.run_limits import Limits
from .runs.rules import RunRules

_MOST_BYTES = 1_000_000
Build = Callable[[AgentParts], Definition]
"""Makes an agent from the parts of a file and those of a program; returns its definition."""


def read_agent_text(path: Path, error: type[SandburError] = ConfigError) -> AgentFileText:
    """Read an agent file; raises `error` if it does not exist, and `ConfigError` if it cannot be read."""
    found = read_bytes(path, _MOST_BYTES)
    if found is None:
        raise error(f"The file {path} does not exist.", "Check the path.")
    content, size = found
    if size > len(content):
        raise ConfigError(f"{path} is larger than {_MOST_BYTES // 1_000_000} MB.", "Make it smaller.")
    text = decode_text(content, path).removeprefix("\ufeff")
    return AgentFileText(
        path=str(path.absolute()), digest=hashlib.sha256(text.encode()).hexdigest(), text=text
    )


def parse_agent_text(
    file: AgentFileText, env: Mapping[str, str] | None = None, more_tools: frozenset[str] = frozenset()
) -> AgentParts:
    """Return the parts of the agent in a file; raises `ConfigError` with file, line and key."""
    home = find_agent_file_parser(file.path)
    if home is None:
        raise ConfigError(
            f"{file.path} is not an agent file.", "Its name has to end with .json, .yaml, .yml or .toml."
        )
    parts: AgentParts = load(home)(file, env, more_tools)
    return parts


def join_arguments(parts: AgentParts, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Agent`: tools, middleware and flows of both, the rest as it is given."""
    joined = {**parts.arguments, **{key: value for key, value in given.items() if value is not None}}
    for key in ("tools", "middleware", "flows"):
        joined[key] = (*parts.arguments.get(key, ()), *given.get(key, ()))
    return joined


def complete_agent(parts: AgentParts, made: Definition) -> tuple[Definition, RunRules[Any]]:
    """Return the definition of an agent with the additions of its file, and the rules of its runs."""
    own = parts.complete(made)
    typed: TypedOutput[Any] | None = None if own.output is None else TypedOutput(own.output, _keep_value)
    return own, RunRules(typed)


def _keep_value(value: Any) -> Any:
    """Return an answer as its JSON value."""
    return value


def restore_for(
    file: AgentFileText,
    current: Callable[[], Definition],
    build: Build,
    parse: Callable[[AgentFileText], AgentParts],
    may_use: Callable[[AgentFileText], bool] = lambda _: True,
) -> Callable[[SessionSettings], tuple[Definition, list[str]]]:
    """Return a function that returns the agent of a stored session as it was when the session began.

    `current` returns the definition of the present `file`. `may_use` decides whether a stored text counts,
    because a person who can write to a store must not choose which code runs.
    """

    def restore(session: SessionSettings) -> tuple[Definition, list[str]]:
        stored = session.agent_file
        if stored is None or stored.path != file.path or stored.digest == file.digest:
            return current(), []
        changed = f"The file {stored.path} has changed since this session began"
        if not stored.is_whole:
            return current(), [f"{changed}, and contained a secret: the session uses the present file."]
        if not may_use(stored):
            return current(), [
                f"{changed}, and the earlier version is not trusted here: the session uses the present file."
            ]
        return build(parse(stored)), [f"{changed}: it goes on with what it began with."]

    return restore


def narrow(parts: AgentParts, settings: Settings) -> AgentParts:
    """Return the parts with mode, limits and sandbox no looser than the person's settings.

    A project's file never starts in a looser mode than the person's own, even if that is the default.
    """
    arguments = dict(parts.arguments)
    notices = list(parts.notices)
    has_mode = "mode" in settings.sources or parts.file.is_project
    if has_mode and _is_looser(arguments.get("mode"), settings.mode):
        notices.append(f"Ignored `mode` in {parts.file.path}: your own is {settings.mode}.")
        arguments["mode"] = settings.mode
    arguments.setdefault("mode", settings.mode)
    own: Limits = arguments.get("limits", Limits())
    limits: dict[str, Any] = {name: _lower(one, getattr(settings, name)) for name, one in asdict(own).items()}
    arguments["limits"] = Limits(**limits)
    # A value that the file does not set is the person's, not the default of `Agent`.
    arguments |= {"sandbox": settings.sandbox, "compress_at": settings.compress_at}
    return replace(parts, arguments=arguments, notices=tuple(notices))


_BY_FREEDOM = (MODES[1], MODES[0], *MODES[2:])


def _is_looser(mode: str | None, own: str) -> bool:
    return mode is not None and _BY_FREEDOM.index(mode) > _BY_FREEDOM.index(own)


def _lower(one: float | None, other: float | None) -> float | None:
    given = [value for value in (one, other) if value is not None]
    return min(given, default=None)
