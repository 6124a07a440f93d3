"""The walk in plain Python leaves out exactly what ripgrep leaves out, on many random trees."""

import random
import time
from pathlib import Path
from threading import Event

import pytest
from support.required import needs

from sandbur.actions.tools.files.search.ripgrep import list_files
from sandbur.actions.workspace.tree import FileFilter, list_search_files

NAMES = (
    "a", "b", "build", "src", ".hid", "x.py", "y.js", "keep.log", "z.log", "foo bar", "a.b", "node_modules",
    ".env", "dist", "é",
)  # fmt: skip
PATTERNS = (
    "build/", "*.log", "!keep.log", "/a", "src/*.py", "**/b", "a/**", "!.hid", ".env", "*", "!*/", "!*.py",
    "foo\\ bar", "/src/", "**/node_modules/**", "x.*", "[ab]", "!a", "d?st", "a/**/b", "/*", "!/src", "é",
    "*/x.py", "#c", "b  ", ".*", "!.env", "/**/a", "a**b", "src/**/", "[!a]*", "{a,b}", "*.{log,py}", "\\!a",
)  # fmt: skip


def plant(folder: Path, chance: random.Random, depth: int = 0) -> None:
    for name in chance.sample(NAMES, chance.randint(1, 6)):
        path = folder / name
        if depth < 3 and chance.random() < 0.5 and "." not in name[1:]:
            path.mkdir()
            plant(path, chance, depth + 1)
        else:
            path.touch()
    if chance.random() < 0.4:
        lines = chance.sample(PATTERNS, chance.randint(1, 5))
        folder.joinpath(".gitignore").write_text("\n".join(lines) + "\n")
    if chance.random() < (0.7 if depth == 0 else 0.08):
        folder.joinpath(".git/info").mkdir(parents=True)
        folder.joinpath(".git/info/exclude").write_text("\n".join(chance.sample(PATTERNS, 2)) + "\n")


@needs("rg")
@pytest.mark.parametrize("seed", range(60))
async def test_a_walk_finds_what_ripgrep_finds(tmp_path: Path, seed: int):
    plant(tmp_path, random.Random(seed))
    folders = [tmp_path, *(path for path in tmp_path.iterdir() if path.is_dir() and path.name != ".git")]
    for folder in folders:
        for wanted in (FileFilter(), FileFilter(hidden=True)):
            theirs = await list_files("rg", folder, wanted, 10)
            ours = list_search_files(folder, wanted, time.monotonic() + 10, Event())
            assert theirs is not None
            assert ours.paths == sorted(theirs.paths)


def test_a_hostile_ignore_file_costs_no_time(tmp_path: Path):
    tmp_path.joinpath(".gitignore").write_text("*a" * 100 + "b\n" + "**/a/" * 50 + "b\n[z-a]\n[\n!\n/\n\\\n")
    tmp_path.joinpath("a" * 200).touch()
    began = time.monotonic()
    assert list_search_files(tmp_path, FileFilter(), began + 10, Event()).paths == ["a" * 200]
    assert time.monotonic() - began < 10


def test_a_walk_that_is_late_says_that_it_is_a_part(tmp_path: Path):
    tmp_path.joinpath("a").touch()
    assert not list_search_files(tmp_path, FileFilter(), time.monotonic() - 1, Event()).is_complete
    stop = Event()
    stop.set()
    assert not list_search_files(tmp_path, FileFilter(), time.monotonic() + 10, stop).is_complete
