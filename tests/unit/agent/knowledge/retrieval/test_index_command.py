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
        (
            ("add", "http://127.0.0.1:9/x"),
            "such as web_fetch(http://127.0.0.1:9/*). Rules are in `allow` of",
        ),
        (("add", "ftp://x/y"), "ftp://x/y cannot be added: ftp is not supported."),
        (("dance",), "sandbur: `dance` is not a known value; the values are add, list"),
    ],
)
def test_wrong_arguments_get_one_sentence(
    command: Command, docs: Path, words: tuple[str, ...], sentence: str
) -> None:
    ended = command.run("index", *words)
    assert ended.code == 2
    assert sentence in ended.err
    assert "Traceback" not in ended.err


def test_a_rule_that_denies_an_address_is_named(command: Command) -> None:
    config = command.folder / ".config/sandbur/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('deny = ["web_fetch(http://127.0.0.1:9/*)"]')
    refused = command.run("index", "add", "http://127.0.0.1:9/x")
    assert refused.code == 2
    assert "The rule web_fetch(http://127.0.0.1:9/*) denies http://127.0.0.1:9/x." in refused.err


@pytest.mark.parametrize("is_below_a_folder", [True, False])
def test_a_named_file_that_cannot_be_searched_is_refused_and_not_kept(
    command: Command, docs: Path, is_below_a_folder: bool
) -> None:
    (docs / "bin.dat").write_bytes(bytes(range(256)) * 9)
    (docs / "broken.docx").write_bytes(b"PK\x03\x04 garbage")
    if is_below_a_folder:
        assert command.run("index", "add", "docs").code == 0
    for name, why in (
        ("bin.dat", "it is not text (unknown type)"),
        ("broken.docx", "it is not of the format that its name says (.docx)"),
    ):
        refused = command.run("index", "add", f"docs/{name}")
        assert (refused.code, f"docs/{name} cannot be added: {why}." in refused.err) == (2, True)
        assert name not in command.run("index", "list").out


def test_all_actions_count_the_same_files(command: Command, docs: Path) -> None:
    (docs / "empty.txt").write_text("")
    assert "Files of project: 2 added." in command.run("index", "add", "docs").err
    assert command.run("index", "list").out.startswith("project  (this project: 2 files, 1 passage)")
    assert "Removed 2 files" in command.run("index", "remove", "docs").err


def test_a_base_without_vectors_is_named_if_there_is_a_model(command: Command, docs: Path) -> None:
    command.run("index", "add", "docs")
    assert "a vector" not in command.run("index", "list").out
    env = {"SANDBUR_EMBEDDINGS": "openai/small", "OPENAI_API_KEY": "key"}
    listed = command.run("index", "list", **env).out.splitlines()
    make = "sandbur index update --base project"
    assert listed[1] == f"    1 passage without a vector, found by words only: {make}"
    assert command.run("index", "list", "--json", **env).result["without_vectors"] == 1
    found = command.run("index", "search", "zebra", **env)
    assert found.code == 0
    assert found.err.strip() == (
        f"project has no vectors, so it is searched by words only. Make them: {make}"
    )


def test_what_is_printed_has_no_control_characters(command: Command, docs: Path) -> None:
    (docs / "evil\x1b[2J.md").write_text("# \x1b]0;owned\x07 zebra\nzebra \x1b[31m red")
    command.run("index", "add", "docs")
    found = command.run("index", "search", "zebra")
    assert "\x1b" not in found.out
    assert "\x1b" not in json.dumps(found.err)
