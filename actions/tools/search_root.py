"""Checks where a search starts."""

import stat
from pathlib import Path

from actions.tools.files import FileProblem, require_regular, translated
from actions.tools.places import shown


def require_folder(path: Path) -> Path:
    """Return the folder itself, all links followed."""
    root, names = folder_and_file(path)
    if names:
        raise FileProblem(f"{shown(path)} is a file, not a folder.")
    return root


def folder_and_file(path: Path) -> tuple[Path, list[str]]:
    """Return the folder to start in, and the one file to search if the path is a file."""
    with translated(path, "searched"):
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return path, []
        require_regular(path, status)
        return path.parent, [path.name]
