"""The programs of the pages about sub-agents, hand-offs and hubs run; that about hubs names each call."""

import re
from pathlib import Path

import pytest
from support.places import ROOT

from sandbur import MessageHub
from sandbur.agent.agents.hub.talk import Participant

PAGES = ("agents.md", "handoffs.md", "hub.md")
BLOCKS = [
    pytest.param(page, block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.S)
    )
]
CALLS = ("broadcast", "next", "run", "ask_all", "group", "add", "remove", "transcript")


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_a_program_of_a_page_runs(
    page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SANDBUR_HOME", str(tmp_path / "data"))
    exec(compile(block, f"docs/{page}", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("name", CALLS)
def test_the_page_about_hubs_names_a_call(name: str) -> None:
    assert hasattr(MessageHub, name)
    assert re.search(rf"hub\.{name}\b", (ROOT / "docs" / "hub.md").read_text("utf-8"))


@pytest.mark.parametrize("name", ["run", "ask"])
def test_the_page_about_hubs_names_a_call_of_a_participant(name: str) -> None:
    assert hasattr(Participant, name)
    assert f'hub["ada"].{name}(' in (ROOT / "docs" / "hub.md").read_text("utf-8")
