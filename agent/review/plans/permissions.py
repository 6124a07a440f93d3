"""Turns what a step of a plan may do into allow rules, and refuses what would allow too much."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import isabs, relpath

from ....actions.tools.registry import SERVER_PREFIX, load_declared_traits
from ....actions.tools.shell.language.parser import HOLDS_BRACES, ShellReader
from ....state.errors import UsageError
from ...policy.rules.path_rules import Workspace, covers, is_pattern
from ...policy.rules.rule_suggestions import NO_PREFIX, NO_SUBCOMMAND
from ...policy.rules.rules import exact_rule, parse_rule
from ...policy.shell.far_options import is_far_reaching
from ...policy.shell.inner_commands.wrappers import find_wrapped_commands
from ...policy.shell.own_commands import calls_sandbur
from ...policy.shell.seen_commands import look
from .plan_text import UnreadablePlan

_WILD = re.compile(r"[*?\[]")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
_JOINS = re.compile(r"[;&|<>$`\n(){}]")
_VERSION = re.compile(r"[0-9.]+$")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+-]+")
_OPEN = frozenset(
    name.lower() for name in (
        *NO_PREFIX, ".", "export", "alias", "set", "enable", "entr", "hyperfine", "bwrap", "valgrind", "perf",
        "xvfb-run", "faketime", "fakeroot", "nix-shell", "ipython", "sqlite3", "psql", "mysql", "m4", "make",
        "gmake", "tox", "nox", "coverage",
    )
)  # fmt: skip
"""Programs that can run or change anything, whatever their first words are."""
_OPEN_ALONE = frozenset((
    "npm", "pnpm", "yarn", "uv", "poetry", "cargo", "go", "conda", "hatch", "pdm", "nix", "git", "pip", "gem",
    "bundle", "dotnet", "mvn", "gradle", "rake", "just",
))  # fmt: skip
"""Programs of which some subcommands can."""
_ANY_FILE = ("a-file", "a-folder/a-file", "a-folder/b/c/a-file")


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
        if not is_pattern(path):
            raise UnreadablePlan(f"The pattern `{path}` cannot be read. Check its square brackets.")
        if ".." in path.split("/") or path.startswith("~"):
            raise UnreadablePlan(f"`{path}` leaves its folder. Write the path from the working folder.")
        if isabs(path):
            path = self._make_relative(path)
        fixed = _WILD.split(path, maxsplit=1)[0]
        folder = fixed if fixed == path else fixed.rpartition("/")[0] or "."
        if not self._workspace.contains(folder):
            raise UnreadablePlan(f"`{path}` leads outside the workspace, where a plan allows nothing.")
        is_folder = path.endswith("/") or Path(self._workspace.real(path)).is_dir()
        pattern = f"{path.rstrip('/')}/**" if is_folder else path
        # A pattern without a slash would cover files of that name in every folder.
        pattern = pattern if "/" in pattern else f"./{pattern}"
        if any(covers(pattern, one, self._workspace) for one in _ANY_FILE):
            raise UnreadablePlan(f"`{path}` would allow writing every file. Name the folders and files.")
        for name in self._writers:
            yield f"{name}({pattern})"

    def _make_relative(self, path: str) -> str:
        """Return a path in the working folder as seen from there. Links in it are not followed later."""
        given = relpath(path, self._workspace.cwd)
        if given.startswith(".."):
            raise UnreadablePlan(f"`{path}` is outside the working folder. Write a path in it.")
        return f"{given}/" if path.endswith("/") else given

    def _allow_running(self, command: str) -> Iterator[str]:
        command = command.removesuffix(" *").strip()
        words = command.split()
        if not words or words[0] == "*":
            raise UnreadablePlan(f"`{command}` would allow every command. Write the first words of one.")
        _require_one_command(command)
        is_open = _is_open(words)
        if is_open and len(words) == 1:
            raise UnreadablePlan(f"`{command}` can run or change anything. Write the whole command.")
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
        if parsed.tool.startswith(SERVER_PREFIX) and "__" not in parsed.tool.removeprefix(SERVER_PREFIX):
            raise UnreadablePlan(f"`{rule}` names all tools of a server. Name each one.")
        keys = {"writes": self._writers, "runs": self._shells, "hosts": self._fetchers}
        if key := next((key for key, tools in keys.items() if parsed.tool in tools), ""):
            raise UnreadablePlan(f"What {parsed.tool} may do is written as `- {key}: ...`.")
        yield parsed.text

    def _allow_agent(self, name: str) -> Iterator[str]:
        if not re.fullmatch(r"[\w-]+", name):
            raise UnreadablePlan(f"`{name}` cannot name an agent.")
        yield f"task({name})"


def _require_one_command(command: str) -> None:
    """Raise `UnreadablePlan` unless a text is the beginning of one command, and of a program of others."""
    reader = ShellReader(command)
    reader.read()
    doubt = next((doubt for doubt in reader.doubts if doubt != HOLDS_BRACES), "")
    if not doubt and len(reader.commands) != 1:
        doubt = "it holds several commands" if reader.commands else "it holds no command"
    elif not doubt and (command.endswith(";") or reader.commands[0].redirections):
        doubt = "it ends with `;`" if command.endswith(";") else "it redirects"
    elif not doubt and command.startswith("-"):
        doubt = "it begins with an option"
    if doubt:
        raise UnreadablePlan(
            f"`{command}` is not the beginning of one command: {doubt}. Write each command on a line of its"
            " own, without pipes, redirections and variables."
        )
    if calls_sandbur(look(command)):
        raise UnreadablePlan(f"`{command}` runs Sandbur itself, which no plan allows. Leave it out.")


def _is_open(words: list[str]) -> bool:
    """Return whether commands that begin with these words can run or change anything."""
    program = words[0].rpartition("/")[2].lower()
    return (
        _PLAIN_WORD.fullmatch(words[0]) is None
        or bool({program, _VERSION.sub("", program)} & _OPEN)
        or words[-1] in NO_SUBCOMMAND
        or (len(words) == 1 and program in _OPEN_ALONE)
        or is_far_reaching(words, "")
        or next(find_wrapped_commands([*words, "x"]), None) is not None
    )
