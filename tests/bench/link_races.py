"""Counts how often a file tool follows a link to the outside that replaces a file during the call."""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.victims.link_races import SECRET, Race, race

from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.tools.files.glob import Glob
from sandbur.actions.tools.files.grep import Grep
from sandbur.actions.tools.files.list_directory import ListDirectory
from sandbur.actions.tools.files.read_file import ReadFile
from sandbur.actions.tools.files.write_file import WriteFile

CALLS: tuple[tuple[str, Any, dict[str, str], int], ...] = (
    ("read_file", ReadFile(), {"path": "folder/file"}, 1),
    ("write_file", WriteFile(), {"path": "folder/file", "content": "new\n"}, 1),
    ("write_file, new", WriteFile(), {"path": "folder/a/b", "content": "new\n"}, 1),
    ("edit_file", EditFile(), {"path": "folder/file", "old": "n", "new": "n_", "replace_all": True}, 1),
    ("list_directory", ListDirectory(), {"path": "folder"}, 1),
    ("glob, Python", Glob(use_ripgrep=False), {"pattern": "**/*only*"}, 1),
    ("glob, ripgrep", Glob(), {"pattern": "**/*only*"}, 10),
    ("grep, Python", Grep(use_ripgrep=False), {"pattern": "stays|only"}, 50),
    ("grep, ripgrep", Grep(), {"pattern": "stays|only"}, 50),
)  # fmt: skip


def by_name(running: Race, times: int) -> int:
    """Return how often a path that was found inside a moment before is opened outside."""
    path, escaped = running.root / "folder" / "file", 0
    for _ in range(times):
        with suppress(OSError):
            if Path(os.path.realpath(path)).is_relative_to(running.root):
                escaped += SECRET in path.read_text()
    return escaped


async def measure(_: Path, times: int) -> None:
    with tempfile.TemporaryDirectory() as folder, race(Path(folder)) as running:
        print(f"looked at, then opened by name: {by_name(running, times)} of {times} escaped")
    for title, tool, arguments, share in CALLS:
        tries = max(1, times // share)
        with tempfile.TemporaryDirectory() as folder, race(Path(folder)) as running:
            began = time.perf_counter()
            found = await running.repeat(tool, tries, **arguments)
            took = (time.perf_counter() - began) / tries * 1000
        print(
            f"{title}: {found.escaped} of {tries} escaped;"
            f" {found.done} done, {found.refused} refused, {took:.2f} ms each"
        )
