"""A call that waits for a person, as it is shown: by what its tool declares, not by the names it uses."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.ui.terminal.lines import preview

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
