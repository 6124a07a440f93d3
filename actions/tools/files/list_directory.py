"""The tool `list_directory`: lists the entries of a folder."""

import asyncio
import os
import stat
from itertools import islice
from pathlib import Path

from pydantic import Field

from ...ports import ToolOutcome, ToolTraits
from ...workspace.paths import (
    FileProblem,
    format_count,
    format_path,
    format_size,
    locate,
    name_special_kind,
    translate_errors,
)
from ...workspace.safe_open import PathScope, open_folder, read_status
from ..schema import PlainText, ToolArguments
from .disk import DISK
from .file_system import Access, FileSystem, FileView
from .file_tool import ReadingFileTool

MAX_ENTRIES = 1000
_MOST_READ = 200_000

_DESCRIPTION = (
    "List a folder, hidden entries included: folders first, with a slash, then files with their sizes and"
    f" links with their targets, each group sorted by name. At most {MAX_ENTRIES} entries are shown."
)


class ListDirectoryArguments(ToolArguments):
    path: PlainText = Field(description="The folder; relative paths start at the working folder.")


class ListDirectory(ReadingFileTool[ListDirectoryArguments]):
    traits = ToolTraits(subject="path", is_quiet=True, shows="names", word="list", also_called=("ls",))
    access: Access = "names"

    def __init__(self, files: FileSystem = DISK) -> None:
        super().__init__("list_directory", _DESCRIPTION, ListDirectoryArguments, files)

    async def look(self, arguments: ListDirectoryArguments, view: FileView) -> ToolOutcome:
        return ToolOutcome("ok", await asyncio.to_thread(_list, view.path, view.context.reach))


def _list(path: Path, reach: PathScope) -> str:
    real = locate(path, reach, "read")
    with translate_errors(path, "read"):
        if not stat.S_ISDIR(read_status(real).st_mode):
            raise FileProblem(f"{format_path(path)} is not a folder; use read_file to read it.")
        with open_folder(real, os.O_RDONLY) as folder, os.scandir(folder) as found:
            return _format_listing(path, folder, list(islice(found, _MOST_READ + 1)))


def _format_listing(path: Path, folder: int, entries: list[os.DirEntry[str]]) -> str:
    is_cut = len(entries) > _MOST_READ
    entries = sorted(entries[:_MOST_READ], key=_get_sort_key)
    folders = sum(entry.is_dir(follow_symlinks=False) for entry in entries)
    more = "more than " if is_cut else ""
    counts = f"{format_count(folders, 'folder')}, {format_count(len(entries) - folders, 'file')}"
    heading = f"{format_path(path)}: {more}{counts}"
    lines = [heading, *(_format_entry(entry, folder) for entry in entries[:MAX_ENTRIES])]
    if len(entries) > MAX_ENTRIES:
        lines.append(
            f"[{more}{len(entries) - MAX_ENTRIES:,} more entries not shown; glob finds them by name]"
        )
    return "\n".join(lines)


def _get_sort_key(entry: os.DirEntry[str]) -> tuple[bool, str]:
    return not entry.is_dir(follow_symlinks=False), entry.name


def _format_entry(entry: os.DirEntry[str], folder: int) -> str:
    name = format_path(entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return f"{name}/"
        if stat.S_ISLNK(status.st_mode):
            return _link(entry, name, folder)
    except OSError as error:
        return f"{name} ({error.strerror})"
    kind = name_special_kind(status.st_mode)
    return f"{name} ({kind or format_size(status.st_size)})"


def _link(entry: os.DirEntry[str], name: str, folder: int) -> str:
    target = format_path(os.readlink(entry.name, dir_fd=folder))
    try:
        is_folder = entry.is_dir()
        os.stat(entry.name, dir_fd=folder)
    except OSError:
        return f"{name} -> {target} (broken link)"
    return f"{name} -> {target}{'/' if is_folder and not target.endswith('/') else ''}"
