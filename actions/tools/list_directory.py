"""The tool `list_directory`: what is in a folder."""

import asyncio
import os
import stat
from itertools import islice
from pathlib import Path

from pydantic import Field

from ..ports import ToolContext, ToolOutcome, ToolTraits
from ..workspace.paths import FileProblem, counted, resolved, shown, size_text, special_kind, translated
from .builtin import BuiltinTool
from .schema import PlainText, ToolArguments

MAX_ENTRIES = 1000
_MOST_READ = 200_000

_DESCRIPTION = (
    "List a folder, hidden entries included: folders first, with a slash, then files with their sizes and"
    f" links with their targets, each group sorted by name. At most {MAX_ENTRIES} entries are shown."
)


class ListDirectoryArguments(ToolArguments):
    path: PlainText = Field(description="The folder; relative paths start at the working folder.")


class ListDirectory(BuiltinTool[ListDirectoryArguments]):
    traits = ToolTraits(subject="path", is_quiet=True, shows="names", also_called=("ls",))

    def __init__(self) -> None:
        super().__init__("list_directory", _DESCRIPTION, ListDirectoryArguments)

    async def run(self, arguments: ListDirectoryArguments, context: ToolContext) -> ToolOutcome:
        try:
            return ToolOutcome("ok", await asyncio.to_thread(_listed, resolved(arguments.path, context.cwd)))
        except FileProblem as error:
            return ToolOutcome("error", str(error))


def _listed(path: Path) -> str:
    with translated(path, "read"):
        if not stat.S_ISDIR(path.stat().st_mode):
            raise FileProblem(f"{shown(path)} is not a folder; use read_file to read it.")
        with os.scandir(path) as found:
            entries = list(islice(found, _MOST_READ + 1))
    is_cut = len(entries) > _MOST_READ
    entries = sorted(entries[:_MOST_READ], key=_order)
    folders = sum(entry.is_dir(follow_symlinks=False) for entry in entries)
    more = "more than " if is_cut else ""
    heading = f"{shown(path)}: {more}{counted(folders, 'folder')}, {counted(len(entries) - folders, 'file')}"
    lines = [heading, *(_described(entry) for entry in entries[:MAX_ENTRIES])]
    if len(entries) > MAX_ENTRIES:
        lines.append(
            f"[{more}{len(entries) - MAX_ENTRIES:,} more entries not shown; glob finds them by name]"
        )
    return "\n".join(lines)


def _order(entry: os.DirEntry[str]) -> tuple[bool, str]:
    return not entry.is_dir(follow_symlinks=False), entry.name


def _described(entry: os.DirEntry[str]) -> str:
    name = shown(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return f"{name}/"
        if stat.S_ISLNK(status.st_mode):
            return _link(entry, name)
    except OSError as error:
        return f"{name} ({error.strerror})"
    kind = special_kind(status.st_mode)
    return f"{name} ({kind or size_text(status.st_size)})"


def _link(entry: os.DirEntry[str], name: str) -> str:
    target = shown(Path(entry.path).readlink())
    try:
        is_folder = entry.is_dir()
        Path(entry.path).stat()
    except OSError:
        return f"{name} -> {target} (broken link)"
    return f"{name} -> {target}{'/' if is_folder and not target.endswith('/') else ''}"
