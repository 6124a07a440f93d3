"""The house rules: who may import whom, how long things may be, who may print."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("state", "actions", "agent", "ui")
HEAVY = ("openai", "anthropic", "burr", "rich", "prompt_toolkit", "genai_prices", "pydantic")
MAX_FILE_LINES, MAX_FUNCTION_LINES = 300, 50
BROAD_BORDERS = {"actions/tool_runner.py", "agent/run.py", "ui/cli.py"}

SOURCES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in SOURCES}
everywhere = pytest.mark.parametrize("name", TREES)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""


@everywhere
def test_imports_point_one_way(name: str) -> None:
    own = LAYERS.index(name.split("/")[0])
    tops = {module.split(".")[0] for module in imported(TREES[name])}
    assert not tops & set(LAYERS[own + 1 :])


@everywhere
def test_a_file_holds_one_idea_of_at_most_300_lines(name: str) -> None:
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= MAX_FILE_LINES
    assert name.endswith("py.typed") or ast.get_docstring(TREES[name])


@everywhere
def test_a_function_is_at_most_50_lines(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, node.name


@everywhere
def test_only_ui_prints_and_imports_rich(name: str) -> None:
    if name.startswith("ui/"):
        return
    assert not {"rich", "prompt_toolkit"} & {module.split(".")[0] for module in imported(TREES[name])}
    calls = (node.func for node in ast.walk(TREES[name]) if isinstance(node, ast.Call))
    assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


@everywhere
def test_everything_is_caught_at_the_borders_only(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ExceptHandler) and name not in BROAD_BORDERS:
            assert node.type is not None
            caught = {part.id for part in ast.walk(node.type) if isinstance(part, ast.Name)}
            assert not caught & {"Exception", "BaseException"} or _raises_again(node)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_is_typed_and_costs_nothing_to_import(layer: str) -> None:
    assert (ROOT / layer / "py.typed").exists()
    code = f"import sys, {layer}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout.strip() == "[]"


def test_the_command_line_imports_nothing_heavy_for_help() -> None:
    code = (
        "import sys\ntry:\n    from ui.cli import main\n    sys.argv = ['sandbur', '--help']\n    main()\n"
        f"except SystemExit: pass\nprint('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "HEAVY []" in run.stdout
