"""The tool `glob`: finds files by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import expanduser, join
from typing import TYPE_CHECKING

from pydantic import Field

from ...ports import ToolTraits
from ...workspace.paths import (
    FileProblem,
    format_path,
    locate,
    make_absolute,
    require_folder,
)
from ...workspace.patterns import PathPattern, split_fixed
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import Access, FileSystem, FileView
from .file_tool import SearchingFileTool

if TYPE_CHECKING:
    from .search.searches import Searches

MAX_FILES = 1000
_WILDCARD = re.compile(r"[*?\[{]")

_DESCRIPTION = (
    "Find files by a pattern with *, ?, [...], {a,b} and ** (any folders). A pattern without a slash matches"
    " names at any depth, otherwise the path from the searched folder. Sorted by path. Leaves out what"
    " .gitignore names and, unless the pattern names it, what begins with a dot."
    f" At most {MAX_FILES} files are shown."
)


class GlobArguments(ToolArguments):
    pattern: PlainText = Field(description="Such as *.py, src/**/test_*.py or *.{yml,yaml}.")
    path: PlainText = Field(".", description="The folder to search. Default: the working folder.")


class Glob(SearchingFileTool[GlobArguments]):
    traits = ToolTraits(
        subject="pattern", summary_arguments=("pattern", "path"), is_quiet=True, shows="names"
    )
    access: Access = "names"
    most = MAX_FILES

    def __init__(self, use_ripgrep: bool = True, limit_s: float = 30, files: FileSystem = DISK) -> None:
        super().__init__("glob", _DESCRIPTION, GlobArguments, files, use_ripgrep, limit_s)

    def aim(self, arguments: GlobArguments) -> GlobArguments:
        """If the pattern begins with a path of a back end, move the folders without wildcards from the
        pattern to `path`.
        """
        fixed, rest = split_fixed(arguments.pattern)
        if not arguments.pattern.startswith("/") or not self._has_other_name(fixed):
            return arguments
        return arguments.model_copy(update={"path": fixed, "pattern": f"./{rest or '**'}"})

    def _has_other_name(self, path: str) -> bool:
        """Return whether a path is not on the disk, or is another one there."""
        return self._files.is_virtual(path) or self._files.find_disk_path(path) != path

    def list_disk_paths(self, arguments: GlobArguments) -> Sequence[str]:
        return (arguments.path, _reach(arguments.pattern, arguments.path))

    def reaches_hidden(self, arguments: GlobArguments) -> bool:
        return True

    async def search(self, arguments: GlobArguments, view: FileView, searches: Searches) -> str:
        fixed, rest = _split_outside(arguments.pattern)
        if self._has_other_name(arguments.path) and _leads_out(arguments.pattern):
            raise FileProblem(
                f"The pattern {format_path(arguments.pattern)} leads out of {format_path(arguments.path)}."
                " Change the pattern or the path."
            )
        root = make_absolute(fixed, view.path)
        folder = require_folder(locate(root, view.context.reach, "searched", searches=True))
        return await searches.list_names(root, folder, PathPattern(rest), view.context.cwd)


def _reach(pattern: str, base: str) -> str:
    """Return a folder that contains everything that a search below `base` can find; `/` if the pattern
    contains `..`.
    """
    pattern = expanduser(pattern)
    found = _WILDCARD.search(pattern)
    if found is None:
        return join(base, pattern)
    fixed, wild = pattern[: found.start()], pattern[found.start() :]
    if ".." in wild or "{/" in wild or ",/" in wild:
        return "/"
    return join(base, fixed[: fixed.rfind("/") + 1])


def _leads_out(pattern: str) -> bool:
    return pattern.startswith(("/", "~")) or ".." in pattern.split("/")


def _split_outside(pattern: str) -> tuple[str, str]:
    """Split off the folders without wildcards of a pattern that begins at the root, at the home folder, or
    above.
    """
    fixed, rest = split_fixed(pattern)
    is_elsewhere = fixed.startswith(("/", "~")) or ".." in fixed.split("/")
    return (fixed, f"./{rest or '**'}") if is_elsewhere else ("", pattern)
