"""The page about Markdown agents names every key, and its file and its commands are right."""

import re
import shlex
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur.agent.agents import EXTENSION
from sandbur.agent.agents.markdown.agent_parser import KEYS, parse_agent
from sandbur.agent.agents.markdown.front_matter import Notices
from sandbur.agent.config.paths import TEXT_FOLDERS
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "agents.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


def test_the_table_has_every_key_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert sorted(rows) == sorted(KEYS)


def test_the_file_of_the_page_is_an_agent_without_a_notice() -> None:
    notices = Notices()
    (text,) = blocks("markdown")
    spec = parse_agent(Path("reviewer.md"), text, (), notices)
    assert list(notices.render()) == []
    assert (spec.name, spec.mode, spec.max_turns) == ("reviewer", "plan", 30)


@pytest.mark.parametrize("line", blocks("sh")[0].splitlines())
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    assert parse(shlex.split(line, comments=True)[1:]).name == "agents"


def test_the_folders_and_the_settings_are_named() -> None:
    for name in (*TEXT_FOLDERS["agents"], *(row.key for row in EXTENSION.settings)):
        assert f"`{name}`" in PAGE
