"""What the pages in `docs/` draw is what is there."""

import re

from support.places import ROOT

from sandbur.agent.graph import ACTIONS
from sandbur.state.databases.schema import TABLES

LAYERS = ("state", "actions", "agent", "ui")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def picture(number: int) -> str:
    return re.findall(r"```mermaid\n(.*?)```", ARCHITECTURE, re.S)[number]


def test_the_picture_of_the_rooms_shows_every_folder_and_no_other() -> None:
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for layer in LAYERS
        for path in (ROOT / layer).rglob("__init__.py")
    }
    drawn: set[str] = set()
    for layer, inside in re.findall(r"subgraph (\w+)\[.*?\n(.*?)\n    end", picture(0), re.S):
        drawn.add(layer)
        drawn |= {f"{layer}/{name}" for name in re.findall(r'\["([\w/]+)<br/>', inside)}
    assert drawn == folders


def test_the_actions_that_the_pages_name_are_those_of_the_graph() -> None:
    text = picture(1) + ARCHITECTURE.split("```")[-1]
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
