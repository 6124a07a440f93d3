"""The question about an edit: the lines around the change, the colours of the code, the changed words."""

import difflib
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sandbur.ui.terminal.lines import preview
from sandbur.ui.terminal.render import Renderer
from sandbur.ui.terminal.text.diffs import Emphasized, number_diff

NUMBER = 14
LINES = [f"line {number}" for number in range(NUMBER)]
CODE = "import os\n\n\ndef first(a):\n    # why\n    return a + 1\n\n\ndef second(a):\n    return 'x'\n"


def show(folder: Path, name: str, content: str, **change: object) -> list[str]:
    folder.joinpath(name).write_text(content)
    lines = preview("edit_file", json.dumps({"path": name, **change}), str(folder))
    return [text for _, text in lines]


def differ(before: str, after: str) -> list[str]:
    """Return the difference of two whole files, as it is displayed."""
    rows = difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=3)
    return [text for _, text in number_diff("".join(rows).removesuffix("\n"))]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("at", range(NUMBER - 2))
def test_an_edit_has_three_lines_of_the_file_above_and_below_it(tmp_path: Path, at: int, size: int) -> None:
    before = "\n".join(LINES) + "\n"
    old = "\n".join(LINES[at : at + size]) + ("\n" if size > 1 else "")
    shown = show(tmp_path, "a.txt", before, old=old, new="another\n")
    assert shown[1:] == differ(before, before.replace(old, "another\n", 1))


def test_an_edit_of_every_occurrence_shows_every_occurrence(tmp_path: Path) -> None:
    before = "\n".join([*LINES, "the word", *LINES, "the word", *LINES]) + "\n"
    change = {"old": "the word", "new": "a word", "replace_all": True}
    shown = show(tmp_path, "a.txt", before, **change)
    assert shown[1:-1] == differ(before, before.replace("the word", "a word"))


@pytest.mark.parametrize(
    ("tool", "change"),
    [
        ("edit_file", {"old": "a + 1", "new": "None"}),
        ("write_file", {"content": CODE.replace("a + 1", "None")}),
    ],
)
def test_code_has_its_colours_and_the_changed_words_are_marked(
    tmp_path: Path, tool: str, change: dict[str, str]
) -> None:
    tmp_path.joinpath("a.py").write_text(CODE)
    lines = preview(tool, json.dumps({"path": "a.py", **change}), str(tmp_path))
    found = {str(text).split()[-1]: text for _, text in lines if isinstance(text, Emphasized)}
    comment, removed, added = found["why"], found["1"], found["None"]
    assert [comment[a:b] for a, b, _ in comment.colors] == ["# why"]
    assert [removed[a:b] for a, b, _ in removed.colors] == ["return", "1"]
    assert [added[a:b] for a, b in added.parts] == ["None"]


def test_the_colours_are_on_the_screen(tmp_path: Path) -> None:
    tmp_path.joinpath("a.py").write_text(CODE)
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="standard", highlight=False)
    arguments = json.dumps({"path": "a.py", "old": "a + 1", "new": "None"})
    Renderer(console, answers=True).lines(preview("edit_file", arguments, str(tmp_path)))
    for above, code in (("dim", "def"), ("removed", "return"), ("added", "return")):
        style = console.get_style(above) + console.get_style("bright_blue")
        assert style.render(code) in out.getvalue()
