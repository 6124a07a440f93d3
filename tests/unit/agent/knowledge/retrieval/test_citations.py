"""`sandbur sessions verify` checks the citations of answers against what the searches returned."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands.command import Command
from support.models.server import ModelServer, call, say
from support.screens.html_check import Page

from sandbur.agent.knowledge.retrieval.citations import find_citations

ANSWER = """\
It is zebra [docs/install.md:2]. Not [docs/install.md:1-40], [docs/other.md:1], [1] or [a:1].
"""


@pytest.fixture
def docs(command: Command) -> Path:
    folder = command.folder / "docs"
    folder.mkdir()
    (folder / "install.md").write_text("# Install\nUse the zebra package.\n")
    assert command.run("index", "add", "docs").code == 0
    return folder


def answer(command: Command, text: str) -> str:
    """Return the id of a session with this answer after a search."""
    with_search = [call("retrieve", query="zebra"), say(text)]

    async def run() -> str:
        async with ModelServer(with_search) as server:
            env = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": server.base_url}
            ended = command.run("-p", "?", "-m", "openai/x", "--output-format", "json", **env)
            return str(ended.result["session_id"])

    return asyncio.run(run())


def test_citations_that_hold_are_counted(command: Command, docs: Path) -> None:
    session = answer(command, "It is zebra [docs/install.md:1-2].")
    verified = command.run("sessions", "verify", session)
    assert verified.code == 0
    assert "Citations: 1 checked, 0 that do not hold." in verified.err


def test_invented_places_and_wrong_lines_are_problems(command: Command, docs: Path) -> None:
    session = answer(command, ANSWER)
    verified = command.run("sessions", "verify", session)
    assert verified.code == 1
    assert verified.out.splitlines() == [
        "[docs/install.md:1-40]: the file has 2 lines.",
        "[docs/other.md:1] was not found by a search: its source was not.",
    ]
    as_json = json.loads(command.run("sessions", "verify", session, "--json").out)
    assert as_json["problems"] == verified.out.splitlines()
    assert as_json["holds"] is False


def test_a_source_that_changed_or_is_gone_is_a_problem(command: Command, docs: Path) -> None:
    session = answer(command, "It is zebra [docs/install.md:1-2].")
    (docs / "install.md").write_text("# Install\nUse the okapi package.\n")
    changed = command.run("sessions", "verify", session)
    assert (changed.code, changed.out) == (
        1,
        "[docs/install.md:1-2]: the file has changed since the answer.\n",
    )
    (docs / "install.md").unlink()
    assert command.run("sessions", "verify", session).out == "[docs/install.md:1-2]: the file is gone.\n"


def read_page(command: Command, session: str) -> Page:
    return Page(command.run("sessions", "export", session, "--format", "html").out)


def test_a_report_links_the_cited_files_and_says_what_changed_since(command: Command, docs: Path) -> None:
    (docs / "<b>&.md").write_text("# Zebra\nzebra zebra\n")
    (docs / "other.md").write_text("# Okapi\n")
    evil = '[docs/"onclick=alert(1).md:1] [javascript:alert/1:1]'
    command.run("index", "update")
    text = f"It is [docs/install.md:1-2], [docs/<b>&.md:1-2], [docs/other.md:1], {evil}."
    session = answer(command, text)
    made = read_page(command, session)
    names = ("install.md", "%3Cb%3E%26.md", "other.md")
    assert made.files == {f"file://{docs}/{name}" for name in names}
    assert "[docs/other.md:1] (not found by a search)" in made.text
    (docs / "install.md").write_text("# Install\nUse the okapi package.\n")
    (docs / "<b>&.md").unlink()
    assert "[docs/install.md:1-2] (changed since)" in read_page(command, session).text
    assert "[docs/<b>&.md:1-2] (gone)" in read_page(command, session).text
    (docs / "install.md").write_text("short")
    problems = command.run("sessions", "verify", session).out
    assert "[docs/install.md:1-2]: the file has 1 line.\n" in problems


def test_a_session_without_a_base_says_nothing_about_citations(command: Command) -> None:
    command.run("-p", "hello", "-m", "demo")
    (session,) = [one["id"] for one in command.run("sessions", "--json").lines]
    assert "Citations" not in command.run("sessions", "verify", session).err


def test_citations_name_lines_pages_and_addresses() -> None:
    text = "[a/b.md:1-2] [m.pdf:p3] [m.pdf:p3-4] [https://x.org/a:7] [text:note.md:1] [no:1] [x.md]"
    found = [(one.name, one.unit, one.first, one.last) for one in find_citations(text)]
    assert found == [
        ("a/b.md", "", 1, 2),
        ("m.pdf", "p", 3, 3),
        ("m.pdf", "p", 3, 4),
        ("https://x.org/a", "", 7, 7),
        ("text:note.md", "", 1, 1),
    ]


@given(st.text(alphabet="[]:-p019a./\n", max_size=300))
def test_any_text_has_citations_or_none(text: str) -> None:
    for one in find_citations(text):
        assert one.text in text
