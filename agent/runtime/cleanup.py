"""Removes the files and processes that remain of killed runs, and the files of deleted sessions."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from ...actions.tools.shell.execution.abandoned import end_abandoned
from ...actions.workspace.content_cache import sweep_temporaries
from ...state.process.temporaries import remove_of_killed
from ..extensions.extension import load
from ..extensions.registry import list_shipped
from .wiring import places_of


def clear_up(home: Path) -> None:
    """End the commands that no process supervises any more, and remove unfinished files."""
    remove_of_killed(home)
    if (scratch := home / "scratch").is_dir():
        end_abandoned(scratch)
    if (snapshots := home / "snapshots").is_dir():
        sweep_temporaries(snapshots)


def clear_scratch(home: Path, session_id: str) -> None:
    """Remove the files that the calls of a deleted session left, and those of extensions about it."""
    shutil.rmtree(places_of(home, session_id).scratch, ignore_errors=True)
    for extension in list_shipped():
        if extension.forget_session:
            load(extension.forget_session)(home, session_id)


def strays(home: Path, sessions: Iterable[str]) -> list[Path]:
    """Return the scratch folders that belong to no session in `sessions`."""
    known = {places_of(home, session_id).scratch for session_id in sessions}
    scratch = home / "scratch"
    return [folder for folder in scratch.iterdir() if folder not in known] if scratch.is_dir() else []


def size_of(folders: Iterable[Path]) -> int:
    """Return the total size of all files in the folders, in bytes."""
    files = (file for folder in folders for file in folder.rglob("*"))
    return sum(file.lstat().st_size for file in files if file.is_file())
