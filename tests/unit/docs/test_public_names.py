"""What programs may import stands on a page, and what pages name in code is there."""

import re
from pathlib import Path

import pytest
from support.places import ROOT

import sandbur
import sandbur.testing

DOCS = sorted((ROOT / "docs").glob("*.md"))
CODE = re.compile(r"^```\w*\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
WORD = re.compile(r"[A-Za-z_]\w*")


def words_in_code(page: Path) -> set[str]:
    found = ("".join(parts) for parts in CODE.findall(page.read_text("utf-8")))
    return {word for text in found for word in WORD.findall(text)}


@pytest.mark.parametrize("module", [sandbur, sandbur.testing], ids=lambda one: one.__name__)
def test_every_public_name_stands_on_a_page(module: object) -> None:
    named = set[str]().union(*map(words_in_code, DOCS))
    assert set(module.__all__) - named == set()  # type: ignore[attr-defined]


OF_OTHERS = ("coming-from.md", "features.md", "comparison.md")
"""The pages about other products, which name what those have."""
PAGES = [ROOT / "CONTRIBUTING.md", *(page for page in DOCS if page.name not in OF_OTHERS)]
ROOMS = ("agent", "actions", "state", "ui", "tests", "docs", "examples", ".ci")
OWN = Path(__file__).name
SUFFIXES = (".py", "", ".toml", ".sh", ".ts", ".js", ".html", ".yml", ".json")
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(map(re.escape, ROOMS))})/[\w./-]*\w)(?![\w*])")
NAME = re.compile(r"(?<![\w/.-])[A-Za-z]\w*(?:\.[a-z_]\w*)*(?:\(\))?")
EXAMPLES = {
    "docs/login.png", "src/a.py", "tests/fixtures/store-N.sql", "save_custmer", "read_stock",
    "my_package.tools", "test_resume_does_not_run_the_tool_twice", "flow_NAME",
    "mcp__SERVER", "mcp__SERVER__TOOL",
}  # fmt: skip
"""Names that a page makes up."""
FOREIGN = {
    "KillMode", "auth_required", "gcs_server", "autovacuum_vacuum_scale_factor", "TEXT_MESSAGE_",
    "TOOL_CALL_", "list_mcp_resources", "read_mcp_resource", "DASHSCOPE_BASE_URL", "DEEPSEEK_BASE_URL",
    "OPENROUTER_BASE_URL",
}  # fmt: skip
"""Names of other programs, and variables that are made from the name of a provider."""


def list_known_words() -> set[str]:
    """Return the words of the sources, and the names of their files."""
    found = {"pyproject", "mkdocs"}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            if path.is_file() and path.suffix in SUFFIXES and path.name != OWN:
                found |= {path.stem, *WORD.findall(path.read_text("utf-8", "replace"))}
    for name in ("sandbur.py", "hatch_build.py", "pyproject.toml"):
        found.update(WORD.findall((ROOT / name).read_text("utf-8")))
    return found


KNOWN = list_known_words()
FILES = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")]
MODULE = re.compile(r"(?<![\w*./-])([a-z_][a-z_/]*\.py)")
PLACED = re.compile(r"`(\w+)(?:\(\))?`,? (?:\(|in |of )`([a-z_][a-z_/]*\.py)`")


def _find_files(name: str) -> list[str]:
    """Return the files of this path, which may lack its beginning."""
    return [one for one in (*FILES, "sandbur.py", "hatch_build.py") if f"/{one}".endswith(f"/{name}")]


def find_missing(text: str) -> set[str]:
    """Return the paths, and the names of modules, functions, classes and settings, that are not there."""
    text = re.sub(r"^```.*?^```|^## Coming from elsewhere.*?(?=^## )", "", text, flags=re.M | re.S)
    missing: set[str] = set()
    for name, place in PLACED.findall(text):
        sources = [(ROOT / one).read_text("utf-8") for one in _find_files(place)]
        if not any(name in WORD.findall(source) for source in sources):
            missing.add(f"{name} ({place})")
    for span in SPAN.findall(text):
        missing |= {one for one in MODULE.findall(span) if not _find_files(one)}
        missing |= {path for path in PATH.findall(span) if not (path.isupper() or (ROOT / path).exists())}
        for name in NAME.findall(span):
            parts = name.removesuffix("()").split(".")
            is_of_code = [one for one in parts if name.endswith("()") or _looks_like_code(one)]
            missing |= {name} if not KNOWN.issuperset(is_of_code) else set()
    return {one for one in missing - EXAMPLES - FOREIGN if "NAME" not in one}


def _looks_like_code(word: str) -> bool:
    return "_" in word.strip("_") or re.fullmatch(r"[A-Z][a-z]+[A-Z]\w*", word) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_in_code_is_there(page: Path) -> None:
    assert find_missing(page.read_text("utf-8")) == set()


def test_a_name_that_is_not_there_is_found() -> None:
    there = (
        "`graph.py`, `agent/graph.py`, `GRAPH_VERSION` (`state/application.py`), `ripgrep`, `tests/fixtures/`"
    )
    gone = {"agent/gone.py", "make_nothing()", "sandbur.nothing_here", "NeverDefined", "gone/tables.py"}
    assert find_missing(there) == set()
    assert find_missing(" ".join(f"`{one}`" for one in gone)) == gone
    assert find_missing("`WireFormat` (`agent/graph.py`)") == {"WireFormat (agent/graph.py)"}
