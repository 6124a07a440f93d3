"""Finds the tools of installed packages and of a trusted project's `.sandbur/tools`."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ....actions.ports import Tool
from ....actions.tools.functions.function_tool import FunctionTool
from ....state.errors import ConfigError, SandburError
from ...config.load import TOOLS_FOLDER, TOOLS_GROUP, has_entry_points
from ...config.paths import project_folders, read_whole
from ...config.trust import is_trusted_place, trust_place

_MOST_FILES = 50
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ProjectTools:
    """The Python files of a project's `.sandbur/tools`, with the content that was read. Exactly the trusted
    content runs."""

    folder: Path
    files: Mapping[str, bytes]
    """Name -> content, in the order in which they are run."""

    @property
    def digest(self) -> bytes:
        parts = (f"{name} {hashlib.sha256(content).hexdigest()}\n" for name, content in self.files.items())
        return "".join(parts).encode()

    def is_trusted(self, env: Mapping[str, str]) -> bool:
        return is_trusted_place(self.folder, self.digest, env)

    def trust(self, env: Mapping[str, str]) -> None:
        """Trust exactly these files until one of them changes."""
        trust_place(self.folder, self.digest, env)


def project_tools(cwd: Path) -> ProjectTools | None:
    """Return the files of the nearest `.sandbur/tools`, from `cwd` up to the root of the repository.

    Return None if there are none.
    """
    for parent in project_folders(cwd):
        folder = parent / TOOLS_FOLDER
        names = sorted(path.name for path in folder.glob("*.py")) if folder.is_dir() else []
        if names:
            if len(names) > _MOST_FILES:
                raise ConfigError(f"{folder} has {len(names)} files; the limit is {_MOST_FILES}.")
            return ProjectTools(folder, {name: _content(folder / name) for name in names})
    return None


def _content(path: Path) -> bytes:
    content = read_whole(path, _MOST_BYTES, os.O_NOFOLLOW)
    if content is None:
        raise ConfigError(f"{path} cannot be read.", "Make it a regular file of the project.")
    return content


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
            self._found = (*self._list_package_tools(), *self._of_project())
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

    def _of_project(self) -> Iterator[Tool]:
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
            self._notices.append(f"The tools of {what} are left out: {type(bug).__name__}: {bug}")
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
