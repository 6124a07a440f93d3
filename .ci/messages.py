"""Print every text of the sources that a person can see: python .ci/messages.py [WORD...]

Errors with their hints, lines on stderr and stdout, notices, findings of `sandbur doctor`, helps, slash
commands, settings, pages, and tables of texts, by file. An expression in a text is shown as {…}. With words:
only the texts that contain one of them.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("state", "actions", "agent", "ui")
SHOWN_BY = {
    "say", "_say", "put", "print", "tell", "warn", "notice", "notify", "Notice", "Finding", "Listed",
    "Action", "flag", "switch", "word", "_row", "SlashEntry", "CommandEntry", "SlashCommand", "add_argument",
}  # fmt: skip
"""Functions and classes whose texts a person reads."""
PAGES = ("ui/web/", "ui/report/", "ui/server/pages/", "ui/commands/review/evaluation/page.py")
"""Where texts become HTML: `tag` and `join` are called there alone."""
OF_PAGES = {"tag", "join", "Setting", "link", "paragraph"}


class Message(NamedTuple):
    path: str
    line: int
    shown_by: str
    text: str


def error_names() -> set[str]:
    """Return the names of all error classes of the sources."""
    names = {"SandburError"}
    classes = [node for path in sources() for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]
    size = 0
    while size != len(names):
        size = len(names)
        for node in classes:
            if {base.id for base in node.bases if isinstance(base, ast.Name)} & names:
                names.add(node.name)
    return names


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def messages() -> Iterator[Message]:
    """Yield every text that is passed to an error or to a function that shows it."""
    shown_by = SHOWN_BY | error_names()
    for path in sources():
        where = path.relative_to(ROOT).as_posix()
        tree = parse(path)
        yield from tables(tree, where)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_of_page = name == "Setting" or (name in OF_PAGES and where.startswith(PAGES))
            if name not in shown_by and not is_of_page:
                continue
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            texts = [text for value in values for text in texts_of(value) if " " in text.strip()]
            if texts:
                yield Message(where, node.lineno, name, " | ".join(texts))


def tables(tree: ast.Module, where: str) -> Iterator[Message]:
    """Yield the texts of tables in `ui/`: values of dictionaries that are constants of a module."""
    if not where.startswith("ui/"):
        return
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            texts = [text for value in node.value.values for text in texts_of(value) if " " in text.strip()]
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if texts:
                yield Message(where, node.lineno, ast.unparse(target), " | ".join(texts))


def texts_of(node: ast.expr) -> Iterator[str]:
    """Yield the texts of an argument: also of both branches of a condition, and of the parts of a tuple."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "{…}"
            for part in node.values
        )
    elif isinstance(node, ast.IfExp):
        yield from texts_of(node.body)
        yield from texts_of(node.orelse)
    elif isinstance(node, ast.Tuple | ast.List):
        for item in node.elts:
            yield from texts_of(item)
    elif isinstance(node, ast.BinOp):
        yield from texts_of(node.left)
        yield from texts_of(node.right)


def main() -> int:
    """Print the texts; return the exit code."""
    wanted = [word.lower() for word in sys.argv[1:]]
    last = ""
    for one in sorted(messages()):
        if wanted and not any(word in one.text.lower() for word in wanted):
            continue
        if one.path != last:
            print(f"\n{one.path}")
            last = one.path
        text = " ".join(one.text.split())
        print(f"  {one.line:>4} {one.shown_by}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
