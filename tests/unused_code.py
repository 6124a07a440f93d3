"""Lists code that nothing uses: .venv/bin/python tests/unused_code.py [ends with 1 if there is some]

Vulture reads the sources. Beside what they name in code, these names count as used: those in strings such as
`.agent.runtime:Runtime` and `diff.diff_runs`, by which modules are loaded when they are needed; those in a
`Literal`, a `cast` and in tables of names, by which methods are looked up; those in the Python and the code
words of pages and in examples, which programs of users use; the fields of classes, which are data; and those
in `[tool.vulture]` of `pyproject.toml`, with their reasons.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path

from vulture import Vulture

LAYERS = ("agent", "actions", "state", "ui")
ROOT = Path(__file__).resolve().parent.parent
HOME = re.compile(r"[\w.]*[.:]([A-Za-z_]\w*)")
CODE = re.compile(r"^```python\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
WORD = re.compile(r"[A-Za-z_]\w*")


def find_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names in the home strings, literal types, casts and tables of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (found[1] for found in [HOME.fullmatch(node.value)] if found)
        is_literal = isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
        is_cast = isinstance(node, ast.Call) and ast.unparse(node.func) == "cast"
        if is_literal or is_cast or isinstance(node, ast.Tuple):
            inside = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            yield from (word for one in inside if isinstance(one, str) for word in one.split(" | "))


def find_fields(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of the fields of classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (one.lineno for one in node.body if isinstance(one, ast.AnnAssign))


def list_names_of_users() -> set[str]:
    """Return the names in the code of pages and examples."""
    pages = (path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    examples = (path.read_text("utf-8") for path in (ROOT / "examples").rglob("*.py"))
    blocks = ("".join(found) for page in pages for found in CODE.findall(page))
    return {name for text in (*blocks, *examples) for name in WORD.findall(text)}


def list_unused() -> list[str]:
    """Return a line for each piece of code that nothing uses."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["vulture"]
    vulture = Vulture(ignore_names=settings["ignore_names"], ignore_decorators=settings["ignore_decorators"])
    vulture.scavenge([str(ROOT / path) for path in settings["paths"]])
    paths = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    trees = {path: ast.parse(path.read_text("utf-8")) for path in (*paths, ROOT / "sandbur.py")}
    names = list_names_of_users().union(*map(find_names, trees.values()))
    usable = sorted(name for name in names if name.isidentifier() and not iskeyword(name))
    vulture.scan("\n".join(f"_.{name}" for name in usable), filename="used names")
    fields = {(path, line) for path, tree in trees.items() for line in find_fields(tree)}
    found = (one for one in vulture.get_unused_code() if one.typ != "unreachable_code")
    return [one.get_report() for one in found if (Path(one.filename), one.first_lineno) not in fields]


if __name__ == "__main__":
    unused = list_unused()
    print(*unused, sep="\n")
    sys.exit(1 if unused else 0)
