"""The tool `grep`: find lines of files by a regular expression."""

from pathlib import Path

from pydantic import Field

from ...ports import ToolOutcome, ToolTraits
from ...workspace.paths import (
    folder_and_file,
    format_count,
    format_path_from,
    locate,
)
from ...workspace.patterns import BadPattern, PathPattern
from ...workspace.tree import FileFilter, FileListing
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import Access, FileSystem, FileView
from .file_tool import ReadingFileTool
from .search.engine import Search, SearchResult
from .search.matches import cap_lines, translate_pattern

MAX_MATCHES = 250
_MAX_FILE_BYTES = 64 << 20

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


class Grep(ReadingFileTool[GrepArguments]):
    traits = ToolTraits(
        subject="pattern", summary_arguments=("pattern", "path"), is_quiet=True, shows="content"
    )
    access: Access = "tree"

    def __init__(self, use_ripgrep: bool = True, limit_s: float = 30, files: FileSystem = DISK) -> None:
        super().__init__("grep", _DESCRIPTION, GrepArguments, files)
        self._use_ripgrep = use_ripgrep
        self._limit_s = limit_s

    def reaches_hidden(self, arguments: GrepArguments) -> bool:
        try:
            return arguments.glob is not None and PathPattern(arguments.glob).reaches_hidden
        except BadPattern:
            return True

    async def look(self, arguments: GrepArguments, view: FileView) -> ToolOutcome:
        path, context = view.path, view.context
        pattern = translate_pattern(arguments.pattern)
        only = PathPattern(arguments.glob) if arguments.glob is not None else None
        root, names = folder_and_file(locate(path, context.reach, "searched"))
        search = Search(root, self._use_ripgrep, self._limit_s)
        listing = FileListing(names) if names else await _candidates(search, only)
        found = await search.find(pattern, listing.paths, MAX_MATCHES) if listing.paths else SearchResult()
        return ToolOutcome("ok", _report(found, listing, path, bool(names), context.cwd))


async def _candidates(search: Search, only: PathPattern | None) -> FileListing:
    hidden = only is not None and only.reaches_hidden
    listing = await search.list_files(FileFilter(hidden, _MAX_FILE_BYTES))
    if only is not None:
        listing.paths = [path for path in listing.paths if only.matches(path)]
    return listing


def _report(found: SearchResult, listing: FileListing, path: Path, is_file: bool, cwd: Path) -> str:
    """Format the matches for the model; `path` is the searched path as the model named it."""
    lines = [
        f"{format_path_from(path if is_file else path / file.path, cwd)}:{line.number}:{line.text}"
        for file in found.files
        for line in file.lines
    ]
    listed = cap_lines(lines)
    notes = [] if lines else [f"No match in {format_count(len(listing.paths), 'file')}."]
    if found.count > len(listed):
        notes.append(
            f"[{len(listed):,} of {found.count:,} matching lines in {len(found.files):,} files shown;"
            " use a narrower pattern, path or glob]"
        )
    if not (found.is_complete and listing.is_complete):
        notes.append("[stopped before everything was searched; the result is a part of it]")
    return "\n".join(listed + notes)
