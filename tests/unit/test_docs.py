"""What the pages in `docs/` draw is what is there."""

import re
import tomllib
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.agent.graph import ACTIONS
from sandbur.agent.models.providers import PROFILES
from sandbur.state.databases.schema import TABLES
from sandbur.ui.commands.setup.help import EXIT_CODES

LAYERS = ("state", "actions", "agent", "ui")
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


BOX = re.compile(r'^ +(?:(\w+) --- )?(\w+)\["<b>(\w+)</b><br/>.+"\]$', re.M)


def pictures(heading: str) -> list[str]:
    """Return the diagrams below a heading of the page about the architecture."""
    section = re.split(rf"^#+ {heading}.*$", ARCHITECTURE, maxsplit=1, flags=re.M)[1]
    return re.findall(r"^```mermaid\n(.*?)^```", re.split(r"^#+ ", section, flags=re.M)[0], re.M | re.S)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_pictures_of_a_layer_show_every_folder_and_no_other(layer: str) -> None:
    drawn: dict[str, str] = {}
    for parent, box, name in BOX.findall("\n".join(pictures(f"{layer}: "))):
        drawn[box] = f"{drawn.get(parent, layer)}/{name}"
    modules = (path.parent.relative_to(ROOT).as_posix() for path in (ROOT / layer).rglob("__init__.py"))
    assert sorted(drawn.values()) == sorted({*modules} - {layer})


def test_the_actions_that_the_pages_name_are_those_of_the_graph() -> None:
    text = pictures("A turn")[0] + ARCHITECTURE.split("```")[-1]
    for name in ACTIONS:
        assert name in ARCHITECTURE
    named = set(re.findall(r"`(vibe_\w+|step_\w+|context_\w+|execute_\w+)`", text))
    assert named <= set(ACTIONS)


def test_every_table_is_explained() -> None:
    tables = set(re.findall(r"CREATE TABLE (\w+)", "\n".join(TABLES)))
    page = ARCHITECTURE.split("## What is on disk")[1]
    assert set(re.findall(r"`(\w+)`", page)) == tables


def test_a_file_that_a_page_names_exists() -> None:
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for name in re.findall(r"`((?:state|actions|agent|ui|tests)/[a-z_/]+\.py)`", page.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_a_test_that_a_page_names_exists() -> None:
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for page in (ROOT / "docs").glob("*.md"):
        named = set(re.findall(r"(test_[a-z_]+\.py)`", page.read_text("utf-8")))
        assert named <= known, f"{page.name} names {sorted(named - known)}"


def test_the_graph_is_drawn_with_every_action_and_no_other() -> None:
    (graph,) = pictures("The graph")
    drawn = set(re.findall(r"\b([a-z_]+)\b(?= -->)|--> ([a-z_]+)", graph))
    named = {name for pair in drawn for name in pair if name}
    assert named | {"context_compressor"} == set(ACTIONS)
    assert "context_compressor" in graph


def text_of(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def anchors(page: Path) -> set[str]:
    """Return what a link to a heading of this page may be, as the usual renderers make it."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(place), f"{page.name} links to {target}"


def test_the_index_has_every_page_and_every_example_with_a_sentence() -> None:
    index = text_of("index.md")
    rows = re.findall(r"^\| (\[.+\)) \| (.+) \|$", index, re.M)
    listed = {target: about for links, about in rows for target in re.findall(r"\]\(([^)]+)\)", links)}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    examples = {f"../examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert pages | examples <= set(listed)
    assert not [target for target, about in listed.items() if len(about) < 5]


def test_the_readme_is_short_and_leads_to_the_index() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 130
    assert "(docs/index.md)" in readme


def test_every_exit_code_has_a_row_with_what_to_do() -> None:
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*) \|$", text_of("troubleshooting.md"), re.M)
    assert [(int(code), why) for code, why, _ in rows] == list(EXIT_CODES)
    assert all(advice.strip() for _, _, advice in rows)


def test_every_provider_and_its_key_stands_in_the_page_about_models() -> None:
    table = text_of("models.md").split("```")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == {*PROFILES, "demo"}
    for profile in PROFILES.values():
        (row,) = (row for row in rows if f"`{profile.name}`" in row.split("|")[1])
        assert all(f"`{variable}`" in row for variable in profile.key_env), row


def test_every_extra_stands_in_the_page_about_installing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    section = text_of("install.md").split("## Extras")[1].split("## ")[0]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(project["optional-dependencies"]) - {"test", "dev"}


def test_the_glossary_is_in_alphabetical_order_and_defines_a_term_once() -> None:
    terms = [row.lower() for row in re.findall(r"^\| ([^|]+) \| .+ \|$", text_of("glossary.md"), re.M)][1:]
    assert terms == sorted(set(terms))
