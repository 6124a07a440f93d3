"""Finds the tools of installed packages and of a trusted project's `.sandbur/tools`."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ....actions.ports import Tool
from ....actions.tools.functions.function_tool import FunctionTool
from ....state.errors import ConfigError, SandburError
from ...config.load import TOOLS_GROUP, has_entry_points
from ...session.secrets import describe_error
from .project_tools import project_tools


class FoundTools:
    """The tools that were found. It implements `actions.ports.ToolSource`; if tools cannot be loaded, they
    are left out with a notice."""

    name = "found"

    def __init__(self, cwd: Path, env: Mapping[str, str]) -> None:
        self._cwd = cwd
        self._env = env
        self._found: tuple[Tool, ...] | None = None
        self._notices: list[str] = []

    async def tools(self) -> Sequence[Tool]:
        if self._found is None:
            self._found = (*self._list_package_tools(), *self._load_project_tools())
        return self._found

    def notices(self) -> Sequence[str]:
        return self._notices

    async def aclose(self) -> None: ...

    def _list_package_tools(self) -> Iterator[Tool]:
        if not has_entry_points():
            return

        for entry in entry_points(group=TOOLS_GROUP):
            what = f"the entry point {entry.name} ({entry.value})"
            yield from self._load_tools(what, lambda entry=entry, what=what: _tools_in(entry.load(), what))

    def _load_project_tools(self) -> Iterator[Tool]:
        try:
            found = project_tools(self._cwd)
        except ConfigError as error:
            self._notices.append(str(error))
            return
        if found is not None and not found.is_trusted(self._env):
            why = "these files, as they are now, are not trusted. The chat asks about them."
            self._notices.append(f"Ignored {found.folder}: {why}")
        elif found is not None:
            for name, content in found.files.items():
                path = found.folder / name
                yield from self._load_tools(str(path), lambda path=path, content=content: _run(path, content))

    def _load_tools(self, what: str, load: Callable[[], list[Tool]]) -> list[Tool]:
        """Run third-party code. If it fails, only its own tools are left out."""
        try:
            return load()
        except SandburError as error:
            self._notices.append(str(error))
        except Exception as bug:
            self._notices.append(f"The tools of {what} are left out: {describe_error(bug, self._cwd)}")
        return []


def _run(path: Path, content: bytes) -> list[Tool]:
    """Run a file and return the tools that it defines."""
    # Data classes and forward references look up their module by name.
    module = ModuleType(f"sandbur_tools_of_project.{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(content, str(path), "exec"), module.__dict__)

    return [each for each in vars(module).values() if isinstance(each, FunctionTool)]


def _tools_in(given: Any, what: str) -> list[Tool]:
    """Return the tools of an entry point; raises `ConfigError` for an object that is not a tool."""
    if isinstance(given, Tool):
        return [given]
    made: Any = given() if callable(given) else given
    tools: list[Any] = [made] if isinstance(made, Tool) else list(made)
    for each in tools:
        if not isinstance(each, Tool):
            raise ConfigError(
                f"{what} brings {each!r}, which is not a tool.", "Decorate it with sandbur.tool."
            )
    return tools
