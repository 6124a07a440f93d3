"""The six file tools for one file system."""

from ...ports import Tool
from .disk import DISK
from .edit_file import EditFile
from .file_system import FileSystem
from .glob import Glob
from .grep import Grep
from .list_directory import ListDirectory
from .read_file import ReadFile
from .write_file import WriteFile


def make_file_tools(files: FileSystem = DISK) -> tuple[Tool, ...]:
    """Return the tools that read, write, edit, list, glob and grep. By default they work on the disk."""
    return (
        ReadFile(files),
        WriteFile(files),
        EditFile(files),
        ListDirectory(files),
        Glob(files=files),
        Grep(files=files),
    )
