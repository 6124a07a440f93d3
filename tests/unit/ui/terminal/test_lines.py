"""A call that waits for a person, as it is shown: by what its tool declares, not by the names it uses."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.actions.ports.events import ToolFinished
from sandbur.ui.terminal.lines import finish_line, is_folded, preview, result_lines
from sandbur.ui.terminal.terminal import Glyphs

OWN_CALLS: list[tuple[dict[str, Any], list[str]]] = [
    ({"command": "pause", "player": "kitchen"}, ["command: pause", "player: kitchen"]),
    ({"path": "a.txt", "content": "new"}, ["path: a.txt", "content: new"]),
    ({"path": "a.txt", "old": "was", "new": "is"}, ["path: a.txt", "old: was", "new: is"]),
]


def shown(tool: str, arguments: dict[str, Any], cwd: Path) -> list[str]:
    return [text for _, text in preview(tool, json.dumps(arguments), str(cwd))]


@pytest.mark.parametrize(("arguments", "lines"), OWN_CALLS)
def test_a_tool_of_ones_own_is_shown_by_its_arguments(
    tmp_path: Path, arguments: dict[str, Any], lines: list[str]
):
    """It says of no argument that it is a shell command, or the content of a file."""
    tmp_path.joinpath("a.txt").write_text("was\n")
    assert shown("my_own_tool", arguments, tmp_path) == lines


def test_a_shell_command_is_shown_as_one(tmp_path: Path):
    assert shown("run_shell_command", {"command": "ls\npwd", "timeout_s": 3}, tmp_path) == [
        "$ ls",
        "  pwd",
        "timeout_s: 3",
    ]


def test_what_a_file_becomes_is_shown_as_a_difference(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("one\nwas\n")
    for tool, arguments in (
        ("write_file", {"path": "a.txt", "content": "one\nis\n"}),
        ("edit_file", {"path": "a.txt", "old": "was", "new": "is"}),
    ):
        lines = shown(tool, arguments, tmp_path)
        assert lines[0] == "a.txt"
        assert not any(line.startswith(("content:", "old:", "new:")) for line in lines)


def test_arguments_that_are_no_object_are_shown_as_they_are():
    assert [text for _, text in preview("write_file", "no json", ".")] == ["no json"]


@pytest.mark.parametrize("width", [40, 80])
def test_what_the_runtime_says_of_a_lost_call_is_shown_whole(width: int) -> None:
    at = "2026-11-22T20:08:17.979+00:00"
    said = f"This was running when the process died (started {at}). It may or may not have taken effect."
    event = ToolFinished("c1", "run_shell_command", "unknown", said, 5)
    rows = [text for _, text in result_lines(event, Glyphs(), verbose=False, width=width)]
    assert all(len(row) <= width for row in rows)
    assert " ".join(" ".join(row.removeprefix("  │ ").split()) for row in rows) == said


def test_a_nested_call_is_indented_and_its_result_is_folded():
    nested = ToolFinished("c1/2", "find_customer", "ok", "Ada", 5)
    glyphs = Glyphs()
    assert finish_line(nested, "find_customer", glyphs)[1].startswith(f"  {glyphs.done} find_customer")
    assert is_folded(nested)
    assert list(result_lines(nested, glyphs, verbose=False)) == []
    assert [text.strip(f" {glyphs.bar}") for _, text in result_lines(nested, glyphs, verbose=True)] == ["Ada"]
    failed = ToolFinished("c1/3", "find_customer", "error", "No such customer.", 5)
    assert not finish_line(ToolFinished("c1", "execute_python", "ok", "", 9), "x", glyphs)[1].startswith(" ")
    assert is_folded(failed)
