"""Programs on pages are marked as Python, which tests run, and import what is there."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT
from support.required import lacks

PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
PROGRAMS = [page for page in PAGES if "```python" in page.read_text("utf-8")]
HARNESSES = Path(sys.prefix, "harnesses")
"""Packages without what they depend on, so that they cannot be imported."""
HARNESS = "inspect_ai"
"""test_inspect_adapter.py checks its program by types, and runs it where the whole package is installed."""
GENERATED = "sandbur_client"
"""test_generated_clients.py generates it."""


def parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def find_imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the modules that a program imports, each with a name from it or an empty text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", one.name) for one in node.names)


def is_there(module: str, name: str) -> bool:
    if module == GENERATED:
        return True
    if module.partition(".")[0] == HARNESS:
        folder = HARNESSES.joinpath(*module.split("."))
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        return name in {one for _, one in find_imports(ast.parse(path.read_text("utf-8")))} | {""}
    try:
        return not name or hasattr(importlib.import_module(module), name)
    except ImportError as error:
        # An adapter needs the package of its harness.
        return "inspect-ai" in str(error)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_program_on_a_page_is_marked_as_python(page: Path) -> None:
    for language, text in FENCE.findall(page.read_text("utf-8")):
        tree = None if language == "python" else parse(text)
        assert tree is None or not list(find_imports(tree)), f"```{language}\n{text}"


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_a_program_on_a_page_imports_what_is_there(page: Path) -> None:
    for language, text in FENCE.findall(page.read_text("utf-8")):
        if language != "python":
            continue
        tree = parse(text)
        assert tree is not None, text
        found = set(find_imports(tree))
        if not HARNESSES.is_dir() and any(module.startswith(HARNESS) for module, _ in found):
            lacks("the packages of the harnesses are not here: tests/run installs them.")
        assert {one for one in found if not is_there(*one)} == set()
