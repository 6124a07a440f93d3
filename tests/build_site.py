"""Build the documentation as a site, and check it. Usage: python tests/build_site.py [--diagrams]

With `--diagrams`, only the program that draws the diagrams is fetched.

The pages of the repository are put into `.site/source` as they are, so that a link between two pages works
here and on a code host; `.site/html` is the site. Its packages are in the extra `dev`, its settings in
`mkdocs.yml`.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "mkdocs.yml"
PAGES = ("README.md", "README.zh-CN.md", "CHANGELOG.md", "CONTRIBUTING.md")
LAYERS = ("agent", "actions", "state", "ui")
FOLDER_LINK = re.compile(r"\]\(((?:\.\./)*examples)(?:/[\w/]*)?\)")
HEADINGS = {
    "agent/sdk": "Agents and sessions",
    "agent/agents": "Several agents",
    "agent/knowledge": "Memory and retrieval",
    "agent/extensions/middleware": "Middleware",
    "agent": "Extensions, limits and plans",
    "actions/tools": "Tools",
    "actions": "Models, messages and events",
    "state": "Stores, messages and errors",
    "ui": "The terminal",
}
"""A folder of the package -> the heading of its names in the reference. The longest one that fits counts."""


MERMAID = "mermaid@12.3.0"
"""What draws the diagrams in a browser: one file of this package of npm becomes a part of the site."""
MERMAID_FILE = Path(sys.prefix) / "site/package/dist/mermaid.min.js"


def main() -> None:
    place = ROOT / ".site"
    fetch_mermaid()
    if sys.argv[1:] == ["--diagrams"]:
        return
    stage(place)
    print(build(place), end="")
    problems = check(place / "html")
    print("\n".join(problems) or f"{place / 'html' / 'index.html'}: every link leads somewhere.")
    sys.exit(bool(problems))


def fetch_mermaid() -> None:
    """Get the program for diagrams from npm, unless it is there. Without npm a diagram is its text."""
    if MERMAID_FILE.exists() or shutil.which("npm") is None:
        return
    folder = MERMAID_FILE.parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(
        ["npm", "pack", "--silent", MERMAID], cwd=folder, capture_output=True, text=True, check=True
    )
    name = packed.stdout.split()[-1]
    subprocess.run(
        ["tar", "-xzf", name, "package/dist/mermaid.min.js", "package/LICENSE"], cwd=folder, check=True
    )
    (folder / name).unlink()


def stage(place: Path) -> None:
    """Put pages, examples and the package that the API reference describes into a folder."""
    shutil.rmtree(place, ignore_errors=True)
    source = place / "source"
    shutil.copytree(ROOT / "docs", source / "docs")
    ignored = shutil.ignore_patterns("__pycache__", "*.md")
    shutil.copytree(ROOT / "examples", source / "examples", ignore=ignored)
    if MERMAID_FILE.exists():
        shutil.copy(MERMAID_FILE, source / "docs/site/mermaid.min.js")
        shutil.copy(MERMAID_FILE.parents[1] / "LICENSE", source / "docs/site/mermaid.LICENSE")
    for name in PAGES:
        shutil.copy(ROOT / name, source / name)
    (source / "docs/api.md").write_text(write_reference(), "utf-8")
    (source / "examples/index.md").write_text(list_examples(), "utf-8")
    for page in source.rglob("*.md"):
        # A folder is no page of a site.
        text = FOLDER_LINK.sub(r"](\1/index.md)", page.read_text("utf-8"))
        page.write_text(text, "utf-8")
    package = place / "python/sandbur"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "sandbur.py", package / "__init__.py")
    for layer in LAYERS:
        (package / layer).symlink_to(ROOT / layer)


def list_examples() -> str:
    """Return the page that lists the examples, each with the first sentence of its docstring."""
    lines = [
        "# Examples",
        "",
        "Each file is a program to run; [the index](../docs/index.md) groups them.",
        "",
    ]
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name = path.relative_to(ROOT / "examples").as_posix()
        about = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0]
        lines.append(f"* [{name}]({name}): {' '.join(about.split())}")
    return "\n".join(lines) + "\n"


def write_reference() -> str:
    """Return the page with every name that `sandbur` exports, by the folder that defines it."""
    groups: dict[str, list[str]] = {heading: [] for heading in HEADINGS.values()}
    for name, folder in find_exports():
        fits = max((known for known in HEADINGS if f"{folder}/".startswith(f"{known}/")), key=len)
        groups[HEADINGS[fits]].append(name)
    parts = [
        "# Python API",
        "",
        "Everything that `import sandbur` offers. [Agents in Python](sdk.md) explains it.",
    ]
    for heading, names in groups.items():
        parts += ["", f"## {heading}"]
        for name in sorted(names):
            parts += ["", f"::: sandbur.{name}"]
    return "\n".join(parts) + "\n"


def find_exports() -> Iterator[tuple[str, str]]:
    """Yield each exported name with the folder or module that defines it."""
    tree = ast.parse((ROOT / "sandbur.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                name = alias.asname or alias.name
                if not name.startswith("_") and alias.name != "events":
                    yield name, (node.module or "").replace(".", "/")


def build(place: Path) -> str:
    """Build the site of a staged folder `.site`; return what the builder printed."""
    config = place.parent / CONFIG.name
    if config != CONFIG:
        shutil.copy(CONFIG, config)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(config)]
    done = subprocess.run(command, cwd=place.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what a browser loads for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(values.get("href", ""))
        elif "src" in values:
            self.loads.append(values["src"])


def check(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for each request to another host."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    problems: list[str] = []
    for path, page in pages.items():
        own = path.relative_to(site).as_posix()
        for target in (*page.links, *page.loads):
            if urlsplit(target).scheme or target.startswith("//"):
                if target in page.loads and not target.startswith("data:"):
                    problems.append(f"{own} loads {target}")
            elif problem := _find_problem(site, pages, path, target):
                problems.append(f"{own} links to {target}: {problem}")
    for style in site.rglob("*.css"):
        targets = re.findall(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)", style.read_text("utf-8"))
        problems += [f"{style.relative_to(site)} loads {target}" for target in targets]
    return problems


def _find_problem(site: Path, pages: dict[Path, Page], page: Path, target: str) -> str:
    """Return what is wrong with a link inside of the site, or an empty text."""
    own = "http://site/" + page.relative_to(site).as_posix()
    whole, anchor = urldefrag(urljoin(own, target))
    place = site / unquote(urlsplit(whole).path).lstrip("/")
    place = place / "index.html" if place.is_dir() else place
    if page.name == "404.html" and not place.exists():
        return ""
    if not place.exists():
        return "there is no such file"
    if anchor and place in pages and unquote(anchor) not in pages[place].anchors and anchor != "__top":
        return "there is no such anchor"
    return ""


if __name__ == "__main__":
    main()
