"""Turns what a step of a plan may do into allow rules, and refuses what would allow too much."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ...actions.tools.registry import load_declared_traits
from ...state.errors import UsageError
from ..policy.rules.path_rules import Workspace, is_pattern
from ..policy.rules.rule_suggestions import NO_PREFIX
from ..policy.rules.rules import exact_rule, parse_rule
from .plan_text import UnreadablePlan

_WILD = re.compile(r"[*?\[]")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_JOINS = re.compile(r"[;&|<>$`\n(){}]")
_VERSION = re.compile(r"[0-9.]+$")
_EVERYTHING = frozenset({"", ".", "./", "*", "**", "./*", "./**", "**/*", "./**/*"})


class Permissions:
    """Compiles permissions for one workspace."""

    def __init__(self, cwd: Path, add_dirs: Sequence[Path] = ()) -> None:
        self._workspace = Workspace(cwd, add_dirs)
        traits = load_declared_traits()
        self._writers = [name for name, one in traits.items() if one.writes_files]
        self._shells = [name for name, one in traits.items() if one.runs_commands]
        self._fetchers = [name for name, one in traits.items() if one.reaches == "address"]

    @property
    def by_key(self) -> Mapping[str, Callable[[str], Iterator[str]]]:
        return {
            "writes": self._allow_writing,
            "runs": self._allow_running,
            "hosts": self._allow_host,
            "tools": self._allow_tool,
            "agents": self._allow_agent,
        }

    def _allow_writing(self, path: str) -> Iterator[str]:
        if path in _EVERYTHING:
            raise UnreadablePlan(f"`{path}` would allow writing every file. Name the folders and files.")
        if not is_pattern(path):
            raise UnreadablePlan(f"The pattern `{path}` cannot be read. Check its square brackets.")
        fixed = _WILD.split(path, maxsplit=1)[0]
        folder = fixed if fixed == path else fixed.rpartition("/")[0] or "."
        try:
            is_inside = self._workspace.contains(folder)
            is_folder = path.endswith("/") or Path(self._workspace.real(path)).is_dir()
        except (ValueError, OSError):
            raise UnreadablePlan(f"`{path}` is no path.") from None
        if not is_inside:
            raise UnreadablePlan(f"`{path}` leads outside the workspace, where a plan allows nothing.")
        pattern = f"{path.rstrip('/')}/**" if is_folder else path
        if "/" not in pattern:
            # A pattern without a slash would cover files of that name in every folder.
            pattern = f"./{pattern}"
        for name in self._writers:
            yield f"{name}({pattern})"

    def _allow_running(self, command: str) -> Iterator[str]:
        command = command.removesuffix(" *").strip()
        words = command.split()
        if not words or words[0] == "*":
            raise UnreadablePlan(f"`{command}` would allow every command. Write the first words of one.")
        program = words[0].rpartition("/")[2]
        is_open = bool({program, _VERSION.sub("", program)} & NO_PREFIX)
        if is_open and len(words) == 1:
            raise UnreadablePlan(f"`{program}` can run or change anything. Write the whole command.")
        for name in self._shells:
            exact = exact_rule(name, command)
            yield exact
            if not is_open and not _JOINS.search(command):
                yield f"{exact[:-1]} *)"

    def _allow_host(self, host: str) -> Iterator[str]:
        host = host.lower().removeprefix("https://").removeprefix("http://").rstrip("/")
        if not _HOST.fullmatch(host):
            raise UnreadablePlan(f"`{host}` is no host. Write one such as pypi.org.")
        for name in self._fetchers:
            yield f"{name}(*://{host}/*)"

    def _allow_tool(self, rule: str) -> Iterator[str]:
        try:
            parsed = parse_rule(rule)
        except UsageError as error:
            raise UnreadablePlan(f"{error.message} {error.hint}") from None
        if _WILD.search(parsed.tool):
            raise UnreadablePlan(f"`{rule}` names many tools. Name each one.")
        key = "writes" if parsed.tool in self._writers else "runs" if parsed.tool in self._shells else ""
        if key:
            raise UnreadablePlan(f"What {parsed.tool} may do is written as `- {key}: ...`.")
        yield parsed.text

    def _allow_agent(self, name: str) -> Iterator[str]:
        if not re.fullmatch(r"[\w-]+", name):
            raise UnreadablePlan(f"`{name}` is no name of an agent.")
        yield f"task({name})"
