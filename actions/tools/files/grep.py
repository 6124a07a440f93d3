"""The tool `grep`: finds lines in files by a regular expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from ...ports import ToolTraits
from ...workspace.patterns import BadPattern, PathPattern
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import Access, FileSystem, FileView
from .file_tool import SearchingFileTool

if TYPE_CHECKING:
    from .search.searches import Searches

MAX_MATCHES = 250

_DESCRIPTION = (
    "Search file contents, line by line, for a regular expression (Python syntax; (?i) at the start ignores"
    " case). Returns path:line:text sorted by path. Leaves out what .gitignore names, hidden and binary"
    f" files, and in a folder files over 64 MB. At most {MAX_MATCHES} lines are shown, all are counted."
)


class GrepArguments(ToolArguments):
    pattern: PlainText = Field(max_length=4000, description="The regular expression.")
    path: PlainText = Field(".", description="A folder or one file. Default: the working folder.")
    glob: PlainText | None = Field(
        None, description="Only files whose name matches, such as *.py or src/**/*.{ts,tsx}."
    )


class Grep(SearchingFileTool[GrepArguments]):
    traits = ToolTraits(
        subject="pattern", summary_arguments=("pattern", "path"), is_quiet=True, shows="content"
    )
    access: Access = "tree"
    most = MAX_MATCHES

    def __init__(self, use_ripgrep: bool = True, limit_s: float = 30, files: FileSystem = DISK) -> None:
        super().__init__("grep", _DESCRIPTION, GrepArguments, files, use_ripgrep, limit_s)

    def reaches_hidden(self, arguments: GrepArguments) -> bool:
        try:
            return arguments.glob is not None and PathPattern(arguments.glob).reaches_hidden
        except BadPattern:
            return True

    async def search(self, arguments: GrepArguments, view: FileView, searches: Searches) -> str:
        only = PathPattern(arguments.glob) if arguments.glob is not None else None
        return await searches.list_lines(view.path, arguments.pattern, only, view.context)
