"""Finds the extensions: the built-in ones, and those of installed packages."""

import os
import sys
from functools import cache
from importlib import import_module

from ...state.errors import SandburError
from ..config.setting import Setting, insert_rows
from .extension import Extension, load

GROUP = "sandbur.extensions"
"""The group of entry points in which installed packages declare their extensions. Each entry point names an
`Extension`."""
_DESCRIBE_ERROR = ".agent.session.secrets:describe_error"
_ROOT = __name__.partition(".")[0]
SHIPPED = (
    ".agent.history.telemetry",
    ".agent.extensions.http_tools",
    ".agent.extensions.hooks",
    ".agent.extensions.mcp",
    ".agent.extensions.flows",
    ".agent.extensions.skills",
    ".agent.extensions.python_code",
    ".agent.extensions.agent_files",
    ".agent.agents",
    ".agent.review.plans",
    ".agent.review.trials",
    ".agent.review.evaluation",
    ".agent.knowledge.retrieval",
    ".agent.knowledge.memory",
    ".agent.fleet",
    ".agent.knowledge.extraction",
    ".agent.history.tracking",
    ".agent.history.replay",
    ".ui.acp",
    ".ui.server",
    ".agent.models.demo",
)
"""The packages that have a built-in `EXTENSION`. A package whose folder was deleted is left out.

Tools and observers of the extensions have this order in a session.
"""


@cache
def list_shipped() -> tuple[Extension, ...]:
    """Return the declarations of the built-in extensions whose folders exist."""
    return tuple(found for home in SHIPPED if (found := _load_declaration(home)) is not None)


def _load_declaration(home: str) -> Extension | None:
    try:
        return import_module(home, _ROOT).EXTENSION
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{_ROOT}{home}.".startswith(f"{missing.name}."):
            raise
        return None


def list_shipped_models() -> dict[str, str]:
    """Return name -> home of each model that has no provider."""
    return {name: home for extension in list_shipped() for name, home in extension.models.items()}


def find_agent_file_parser(name: str) -> str | None:
    """Return the home of the parser for agent files with this name, or None if no parser reads them."""
    _, dot, suffix = name.rpartition(".")
    parsers = {key: home for extension in list_shipped() for key, home in extension.agent_files.items()}
    return parsers.get(f"{dot}{suffix}".lower())


class Packages:
    """The extensions of installed packages, loaded once per process."""

    def __init__(self) -> None:
        self._found: tuple[Extension, ...] | None = None
        self.problems: tuple[str, ...] = ()
        """One sentence for each extension that was left out."""

    @property
    def loaded(self) -> tuple[Extension, ...]:
        return self._found or ()

    def load(self, rows: list[Setting]) -> bool:
        """Load the extensions and insert their settings into `rows`; return True for the first call."""
        if self._found is not None:
            return False
        self._found = ()
        problems: list[str] = []
        if GROUP in entry_point_groups(tuple(sys.path)):
            from importlib.metadata import entry_points

            names = {one.name for one in list_shipped()}
            for entry in sorted(entry_points(group=GROUP)):
                what = f"The extension {entry.name} ({entry.value})"
                try:
                    made = entry.load()
                    self._add(made, names, rows)
                except SandburError as error:
                    problems.append(f"{what} is left out: {error.message}")
                except Exception as bug:
                    problems.append(f"{what} is left out: {load(_DESCRIBE_ERROR)(bug)}")
        self.problems = tuple(problems)
        return bool(self._found)

    def _add(self, made: object, names: set[str], rows: list[Setting]) -> None:
        if not isinstance(made, Extension):
            raise SandburError(f"{made!r:.80} is not an `Extension`.")
        if made.name in names:
            raise SandburError(f"Another extension has the name {made.name}.")
        try:
            insert_rows(rows, made.settings)
        except ValueError as taken:
            raise SandburError(f"Another setting has the name {taken}.") from None
        names.add(made.name)
        self._found = (*self.loaded, made)


PACKAGES = Packages()


def extensions() -> tuple[Extension, ...]:
    """Return all extensions: the built-in ones, then those of installed packages."""
    return (*list_shipped(), *PACKAGES.loaded)


@cache
def entry_point_groups(paths: tuple[str, ...]) -> frozenset[str]:
    """Return the names of Sandbur's entry point groups that installed packages use; `paths` is `sys.path`.

    It searches the text of the metadata files for the names, because parsing all metadata takes ten times as
    long.
    """
    found: set[str] = set()
    for place in paths:
        try:
            with os.scandir(place or ".") as entries:
                infos = [entry.path for entry in entries if entry.name.endswith(".dist-info")]
        except OSError:
            continue
        for info in infos:
            try:
                with open(f"{info}/entry_points.txt", "rb") as file:  # noqa: PTH123 -- help loads no pathlib
                    text = file.read()
            except OSError:
                continue
            found |= {group for group in (GROUP, "sandbur.tools") if group.encode() in text}
    return frozenset(found)
