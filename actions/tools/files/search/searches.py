"""The searches of the tools `glob` and `grep`, and their results as text for the model."""

from pathlib import Path
from typing import NamedTuple

from ....ports import ToolContext
from ....workspace.paths import format_count, format_path_from, locate, split_folder_and_file
from ....workspace.patterns import PathPattern
from ....workspace.tree import FileFilter
from .engine import Search, SearchResult
from .matches import cap_lines, translate_pattern

_MAX_FILE_BYTES = 64 << 20


class Searches(NamedTuple):
    """The searches with the limits of a tool. They raise `FileProblem`."""

    use_ripgrep: bool
    limit_s: float
    most: int
    """The largest number of files or lines in the text."""

    async def list_names(self, root: Path, folder: Path, pattern: PathPattern, cwd: Path) -> str:
        """Return a text with the files below the folder that match. `root` is the folder as the model named
        it.
        """
        search = Search(folder, self.use_ripgrep, self.limit_s)
        listing = await search.list_files(FileFilter(hidden=pattern.reaches_hidden))
        names = pattern.select(listing.paths)
        there = await search.select_existing(names[: self.most])
        lines = cap_lines([format_path_from(root / name, cwd) for name in there])
        notes = [] if names else ["No file matches."]
        if len(names) > len(lines):
            notes.append(f"[{len(lines):,} of {len(names):,} files shown; use a narrower pattern or path]")
        if not listing.is_complete:
            notes.append("[not all folders could be searched in time; use a narrower path]")
        return "\n".join(lines + notes)

    async def list_lines(
        self, path: Path, expression: str, only: PathPattern | None, context: ToolContext
    ) -> str:
        """Return a text with the lines that match a regular expression, in the files that match `only`."""
        pattern = translate_pattern(expression)
        root, names = split_folder_and_file(locate(path, context.reach, "searched"))
        search = Search(root, self.use_ripgrep, self.limit_s)
        if names:
            found = await search.find(pattern, names, self.most)
        else:
            hidden = only is not None and only.reaches_hidden
            found = await search.find_below(pattern, FileFilter(hidden, _MAX_FILE_BYTES), only, self.most)
        return _report(found, path, bool(names), context.cwd)


def _report(found: SearchResult, path: Path, is_file: bool, cwd: Path) -> str:
    """Format the matches for the model. `path` is the searched path as the model named it."""
    lines = [
        f"{format_path_from(path if is_file else path / file.path, cwd)}:{line.number}:{line.text}"
        for file in found.files
        for line in file.lines
    ]
    listed = cap_lines(lines)
    notes = [] if lines else [f"No match in {format_count(found.searched, 'file')}."]
    if found.has_more:
        notes.append(
            f"[{len(listed):,} of {found.count:,} matching lines in the first"
            f" {format_count(found.searched, 'file')} shown; the other files were not searched:"
            " use a narrower pattern, path or glob]"
        )
    elif found.count > len(listed):
        files = format_count(len(found.files), "file")
        notes.append(
            f"[{len(listed):,} of {found.count:,} matching lines in {files} shown;"
            " use a narrower pattern, path or glob]"
        )
    if not found.is_complete:
        notes.append("[stopped before everything was searched; the result is a part of it]")
    return "\n".join(listed + notes)
