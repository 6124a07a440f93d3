"""Citations in answers are links to files: whole, wrapped and redrawn, without codes of the model."""

import os
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sandbur.actions.ports.events import TextDelta
from sandbur.agent.extensions.extension import CitedFile
from sandbur.agent.knowledge.retrieval.cited_files import CitedFiles
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.text.citation_links import make_file_address
from sandbur.ui.terminal.text.markdown_blocks import render_block

XTERM = {"TERM": "xterm-256color"}
OPENED = re.compile(r"\x1b\]8;[^;]*;([^\x1b]*)\x1b\\")


def draw(block: str, links: dict[str, str], width: int = 60) -> str:
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard", markup=False)
    console.print(render_block(block, links=links))
    return out.getvalue()


def list_linked(drawn: str) -> list[tuple[str, str]]:
    """Return the address and the visible text of each link."""
    parts = OPENED.split(drawn)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [(address, re.sub(r"\x1b\[[\d;]*m", "", text)) for address, text in pairs if address]


def test_a_citation_is_a_link_in_text_lists_and_tables() -> None:
    links = {"[docs/a.md:1-2]": "file://host/docs/a.md"}
    block = "See [docs/a.md:1-2].\n\n- and **[docs/a.md:1-2]**\n\n| x |\n|---|\n| [docs/a.md:1-2] |"
    assert list_linked(draw(block, links)) == [("file://host/docs/a.md", "[docs/a.md:1-2]")] * 3
    assert "\x1b]8" not in draw(block, {})


def test_a_citation_keeps_its_underscores_and_is_a_link_over_several_rows() -> None:
    citation = "[pkg/__init__/a folder with a long name.py:3]"
    drawn = draw(f"x {citation} y", {citation: "file:///p"}, width=20)
    linked = list_linked(drawn)
    assert len(linked) > 1
    assert "".join("".join(text for _, text in linked).split()) == "".join(citation.split())
    assert {address for address, _ in linked} == {"file:///p"}


def test_other_brackets_stay_as_they_are() -> None:
    drawn = draw("[a.md:1] [docs/b.md:1](https://x.org)", {"[docs/b.md:1]": "file:///b"})
    assert "[a.md:1]" in drawn
    assert "https://x.org" in drawn


def test_an_address_has_the_host_and_the_line_only_where_the_terminal_knows_them() -> None:
    host = os.uname().nodename
    assert make_file_address("/a b;\x1b\\é/x.md", 7, XTERM) == f"file://{host}/a%20b%3B%1B%5C%C3%A9/x.md"
    assert make_file_address("/x", 7, XTERM | {"KITTY_WINDOW_ID": "1"}) == f"file://{host}/x#7"
    assert make_file_address("/x", 0, XTERM | {"TERM_PROGRAM": "iTerm.app"}) == f"file://{host}/x"
    assert make_file_address("/x", 7, XTERM | {"TERM_PROGRAM": "vscode"}) == "file:///x#7"
    for term in ("linux", "dumb"):
        assert make_file_address("/x", 7, {"TERM": term}) == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project/docs").mkdir(parents=True)
    (tmp_path / "base").mkdir()
    for name in ("project/docs/a.md", "base/b.md", "outside.md", "project/run.sh"):
        (tmp_path / name).write_text("text\n")
    (tmp_path / "project/run.sh").chmod(0o755)
    (tmp_path / "project/link.md").symlink_to(tmp_path / "outside.md")
    return tmp_path.resolve()


def test_only_files_of_the_folder_and_of_the_bases_are_linked(folder: Path) -> None:
    files = CitedFiles(folder / "project", [str(folder / "base")])
    text = (
        f"[docs/a.md:3-4] [{folder}/base/b.md:1] [docs/m.pdf:p2] [../outside.md:1] [link.md:1] [run.sh:1]"
        " [docs/none.md:1] [https://x.org/a:1] [text:n.md:1] [docs/\0.md:1] [/etc/passwd:1] [docs/:1]"
    )
    assert files.find(text) == {
        "[docs/a.md:3-4]": CitedFile(f"{folder}/project/docs/a.md", 3),
        f"[{folder}/base/b.md:1]": CitedFile(f"{folder}/base/b.md", 1),
    }
    assert files.find("[docs/a.md:p3]") == {"[docs/a.md:p3]": CitedFile(f"{folder}/project/docs/a.md", 0)}


def test_an_answer_that_arrives_in_pieces_has_one_link_and_no_code_of_the_model(folder: Path) -> None:
    out = StringIO()
    console = Console(file=out, width=60, height=30, force_terminal=True, markup=False, _environ=XTERM)
    renderer = Renderer(console, answers=True)
    renderer.link_files(CitedFiles(folder / "project", []).find, XTERM)
    text = "It is so [docs/a.md:3-4], \x1b]8;;file:///evil\x1b\\click\x1b]8;;\x1b\\ it.\n\nEnd.\n\n"
    for piece in re.findall(r"(?s).{1,7}", text):
        renderer.show(TextDelta(delta=piece))
        renderer.tick()
    renderer.forget_live()
    linked = list_linked(out.getvalue())
    assert {address for address, _ in linked} == {f"file://{os.uname().nodename}{folder}/project/docs/a.md"}
    assert all(shown in "[docs/a.md:3-4]" for _, shown in linked)
    opened = OPENED.findall(out.getvalue())
    assert opened[1::2] == [""] * (len(opened) // 2)  # each one is closed
