"""The core and its extensions: nothing in the core imports an extension, and each declares what it has."""

import ast
from pathlib import PurePosixPath

import pytest
from support.places import ROOT

from sandbur.agent.extensions.extension import load
from sandbur.agent.extensions.registry import SHIPPED, list_shipped

pytestmark = pytest.mark.slow

FOLDERS = {extension.name: extension.folders for extension in list_shipped()}
"""The extensions that ship -> their folders and files; everything else in the product is the core."""
LAYERS = ("state", "actions", "agent", "ui")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path
    for layer in LAYERS
    for path in sorted((ROOT / layer).rglob("*.py"))
}


def extension_of(path: str) -> str:
    """Return the extension that a file belongs to; empty: the core."""
    parents = {path, *map(str, PurePosixPath(path).parents)}
    return next((name for name, folders in FOLDERS.items() if parents & set(folders)), "")


def imported_files(path: str) -> set[str]:
    """Return the files of the product that a file imports, at its top or in a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(SOURCES[path].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = PurePosixPath(path).parents[node.level - 1]
            base = base.joinpath(*filter(None, (node.module or "").split(".")))
            for candidate in (base, *(base / alias.name for alias in node.names)):
                found |= {f"{candidate}.py", f"{candidate}/__init__.py"} & SOURCES.keys()
    return found


def test_every_extension_that_ships_is_declared() -> None:
    assert len(FOLDERS) == len(SHIPPED)
    missing = [folder for folders in FOLDERS.values() for folder in folders if not (ROOT / folder).exists()]
    assert missing == []


def test_no_module_of_the_core_imports_an_extension() -> None:
    broken = [
        f"{path} imports {found} of {extension_of(found)}"
        for path in SOURCES
        if not extension_of(path)
        for found in sorted(imported_files(path))
        if extension_of(found)
    ]
    assert broken == []


def test_every_home_that_an_extension_names_is_there() -> None:
    for extension in list_shipped():
        entries = (*extension.commands, *extension.slash)
        files = (file.parse for file in extension.files)
        readers = (row.reader for row in extension.settings)
        completions = (home for entry in extension.slash for home in (entry.complete, entry.editor))
        homes = (extension.runtime, extension.find_slash, extension.doctor, *extension.models.values())
        for home in (*homes, *(entry.home for entry in entries), *files, *readers, *completions):
            assert not home or load(home)


def test_every_extension_has_a_page() -> None:
    assert [one.name for one in list_shipped() if not (ROOT / "docs" / one.page).is_file()] == []
