"""`sandbur index`: what it prints, and what it says to wrong arguments."""

import json
from pathlib import Path

import pytest
from support.commands.command import Command


@pytest.fixture
def docs(command: Command) -> Path:
    folder = command.folder / "docs"
    folder.mkdir()
    (folder / "install.md").write_text("# Install\nUse the zebra package.\n")
    (folder / "key.pem").write_text("zebra")
    return folder


def test_a_folder_is_added_searched_updated_and_removed(command: Command, docs: Path) -> None:
    added = command.run("index", "add", "docs")
    assert (added.code, added.out) == (0, "")
    assert added.err.splitlines() == [
        "Files of project: 1 added.",
        "Left out: docs/key.pem: it is a file of secrets.",
    ]
    found = command.run("index", "search", "zebra")
    assert found.out.splitlines()[:2] == ["docs/install.md:1-2  Install", "    # Install"]
    (docs / "more.txt").write_text("An okapi.")
    assert "Files of project: 1 added, 1 unchanged." in command.run("index", "update").err
    listed = command.run("index", "list").out.splitlines()
    assert listed == ["project  (this project: 2 files, 2 passages)", f"    {docs}"]
    assert "Removed 2 files" in command.run("index", "remove", "docs").err
    assert command.run("index", "search", "zebra").code == 1


def test_json_has_one_object_per_line(command: Command, docs: Path) -> None:
    command.run("index", "add", "docs", "--base", "manuals")
    (base,) = command.run("index", "list", "--json").lines
    assert (base["name"], base["scope"], base["files"], base["left_out"]) == ("manuals", "project", 1, 1)
    (passage,) = command.run("index", "search", "zebra", "--json").lines
    assert (passage["path"], passage["first"], passage["last"]) == ("docs/install.md", 1, 2)
    assert (passage["unit"], passage["state"], len(passage["digest"])) == ("line", "unchanged", 64)


def test_a_base_for_all_projects_is_found_from_another_folder(command: Command, docs: Path) -> None:
    command.run("index", "add", "docs", "--base", "notes", "--user")
    (command.folder / "other").mkdir()
    found = command.run("-C", "other", "index", "search", "zebra")
    found = command.run("index", "search", "zebra", "-C", "other") if found.code == 2 else found
    assert f"{docs}/install.md:1-2" in found.out


def test_a_whole_base_is_removed_only_after_consent(command: Command, docs: Path) -> None:
    command.run("index", "add", "docs")
    refused = command.run("index", "remove")
    assert refused.code == 2
    assert "This removes the knowledge base project. Confirm it with --yes." in refused.err
    assert command.run("index", "remove", "--yes").code == 0
    assert command.run("index", "list").out == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("add",), "`sandbur index add` needs a DIR, FILE or URL."),
        (("search", " "), "`sandbur index search` needs a QUERY."),
        (("list", "docs"), "`docs` is one word too many."),
        (("add", "docs", "--json"), "--json belongs to `sandbur index list`."),
        (("add", "missing"), "missing does not exist."),
        (("add", "docs", "--base", "\x1b[1m"), "'\\x1b[1m' cannot name a knowledge base."),
        (("update", "--base", "gone"), "There is no knowledge base 'gone' here."),
        (("add", "http://127.0.0.1:9/x"), "127.0.0.1"),
    ],
)
def test_wrong_arguments_get_one_sentence(
    command: Command, docs: Path, words: tuple[str, ...], sentence: str
) -> None:
    ended = command.run("index", *words)
    assert ended.code == 2
    assert sentence in ended.err
    assert "Traceback" not in ended.err


def test_what_is_printed_has_no_control_characters(command: Command, docs: Path) -> None:
    (docs / "evil\x1b[2J.md").write_text("# \x1b]0;owned\x07 zebra\nzebra \x1b[31m red")
    command.run("index", "add", "docs")
    found = command.run("index", "search", "zebra")
    assert "\x1b" not in found.out
    assert "\x1b" not in json.dumps(found.err)
