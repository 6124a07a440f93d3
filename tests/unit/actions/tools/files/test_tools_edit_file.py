"""Exact edits of real files."""

import json
import stat
from pathlib import Path

import pytest

from sandbur.actions.ports import ToolContext, ToolOutcome
from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.workspace.text import format_diff


async def edit(folder: Path, path: str, old: str, new: str, **options: bool) -> ToolOutcome:
    tool = EditFile()
    context = ToolContext("c1", folder, lambda text: None)
    return await tool.run(tool.parse(json.dumps({"path": path, "old": old, "new": new, **options})), context)


async def test_a_unique_piece_is_replaced_and_shown_as_a_diff(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    outcome = await edit(tmp_path, "a.py", "line 10\nline 11\n", "ten\n")
    assert outcome.outcome == "ok"
    assert outcome.content.split("\n") == [
        "Edited a.py: 1 place.",
        "--- a/a.py",
        "+++ b/a.py",
        "@@ -7,8 +7,7 @@",
        " line 7",
        " line 8",
        " line 9",
        "-line 10",
        "-line 11",
        "+ten",
        " line 12",
        " line 13",
        " line 14",
    ]
    assert "line 9\nten\nline 12" in path.read_text()


async def test_a_piece_that_is_there_twice_is_refused_with_its_lines(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\ny = 2\nx = 1\n" + "x = 1\n" * 20)
    before = path.read_bytes()
    outcome = await edit(tmp_path, "a.py", "x = 1", "x = 3")
    assert outcome.outcome == "error"
    assert "old is in a.py 22 times (lines 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)" in outcome.content
    assert path.read_bytes() == before


async def test_replace_all_replaces_every_place(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("aXbXc\nX\n")
    outcome = await edit(tmp_path, "a.py", "X", "-", replace_all=True)
    assert outcome.content.startswith("Edited a.py: 3 places.")
    assert path.read_text() == "a-b-c\n-\n"


async def test_a_piece_that_is_not_there_brings_the_nearest_lines(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("def first():\n    pass\n\ndef compute_total(items):\n    return sum(items)\n")
    outcome = await edit(tmp_path, "a.py", "def compute_totals(item):\n    return 0\n", "x")
    assert outcome.outcome == "error"
    assert "old was not found in a.py. The nearest lines are" in outcome.content
    assert "     4\tdef compute_total(items):" in outcome.content


async def test_nothing_similar_is_said_too(tmp_path: Path):
    tmp_path.joinpath("a.py").write_text("abc\n")
    outcome = await edit(tmp_path, "a.py", "something entirely different", "x")
    assert "Nothing in the file looks like it" in outcome.content


async def test_blanks_count(tmp_path: Path):
    tmp_path.joinpath("a.py").write_text("if x:\n        y()\n")
    outcome = await edit(tmp_path, "a.py", "if x:\n    y()\n", "z()\n")
    assert (outcome.outcome, "blanks count" in outcome.content) == ("error", True)


async def test_the_same_text_or_no_text_is_refused(tmp_path: Path):
    from sandbur.actions.ports import BadArguments

    tmp_path.joinpath("a.py").write_text("abc")
    assert "nothing to change" in (await edit(tmp_path, "a.py", "abc", "abc")).content
    with pytest.raises(BadArguments, match="old must be a non-empty string, got an empty string"):
        await edit(tmp_path, "a.py", "", "abc")


@pytest.mark.parametrize(
    ("stored", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\nb\nc\n", "a\r\nb\r\n", "x\r\n", b"x\nc\n"),
        (b"a\nb\r\nc\n", "b\r\n", "x\r\n", b"a\nx\r\nc\n"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        ("ä\r\nb".encode("utf-16"), "ä\nb", "ö\nb", "ö\r\nb".encode("utf-16")),
        ("café\n".encode("latin-1"), "café", "thé", "thé\n".encode("latin-1")),
        (b"a\x0cb\x0bc\n", "b", "x", b"a\x0cx\x0bc\n"),
        ("a\u2028b\n".encode(), "b", "x", "a\u2028x\n".encode()),
        (b"no end", "end", "End", b"no End"),
        (b"keep\ndrop\n", "drop\n", "", b"keep\n"),
    ],
)
async def test_an_edit_changes_nothing_else(
    tmp_path: Path, stored: bytes, old: str, new: str, expected: bytes
):
    path = tmp_path / "a.txt"
    path.write_bytes(stored)
    outcome = await edit(tmp_path, "a.txt", old, new)
    assert outcome.outcome == "ok", outcome.content
    assert path.read_bytes() == expected


async def test_mode_and_link_stay(tmp_path: Path):
    path = tmp_path / "a.sh"
    path.write_text("old")
    path.chmod(0o751)
    tmp_path.joinpath("link").symlink_to("a.sh")
    await edit(tmp_path, "link", "old", "new")
    assert tmp_path.joinpath("link").is_symlink()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o751)


async def test_a_character_that_the_encoding_lacks_changes_nothing(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes("café".encode("latin-1"))
    outcome = await edit(tmp_path, "a.txt", "café", "5 €")
    assert "is LATIN-1, which cannot hold '€'" in outcome.content
    assert path.read_bytes() == "café".encode("latin-1")


async def test_what_cannot_be_edited_is_said(tmp_path: Path):
    tmp_path.joinpath("bin").write_bytes(bytes(100))
    with tmp_path.joinpath("big").open("wb") as file:
        file.truncate(1_000_000_000)
    assert "is a binary file" in (await edit(tmp_path, "bin", "a", "b")).content
    assert "too large to be changed as a whole (1.0 GB" in (await edit(tmp_path, "big", "a", "b")).content
    assert "does not exist" in (await edit(tmp_path, "none", "a", "b")).content
    assert "is a folder" in (await edit(tmp_path, ".", "a", "b")).content


async def test_a_long_diff_is_capped(tmp_path: Path):
    tmp_path.joinpath("a.txt").write_text("x\n" * 500)
    outcome = await edit(tmp_path, "a.txt", "x", "y", replace_all=True)
    assert outcome.content.endswith("[803 more lines of the diff left out]")
    assert len(outcome.content.split("\n")) == 202


def test_a_diff_of_two_large_files_takes_no_time():
    old = "".join(f"{n}\n" for n in range(100_000))
    new = "".join(f"{n} changed\n" for n in range(100_000))
    assert format_diff(old, new, "a") == "(no diff: from line 1 on, 100,000 lines became 100,000)"
    one_line = format_diff(old, old.replace("\n70000\n", "\nx\n"), "a")
    assert "@@ -69998,7 +69998,7 @@\n 69997" in one_line


def test_a_diff_at_the_ends_of_a_file_is_right():
    assert format_diff("", "a\n", "f").split("\n")[2:] == ["@@ -0,0 +1 @@", "+a"]
    assert format_diff("a\n", "", "f").split("\n")[2:] == ["@@ -1 +0,0 @@", "-a"]
    appended = format_diff("1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "f").split("\n")
    assert appended[2:] == ["@@ -3,3 +3,4 @@", " 3", " 4", " 5", "+6"]
    assert format_diff("a\na\n", "a\na\na\n", "f").split("\n")[2] == "@@ -1,2 +1,3 @@"


async def test_a_placeholder_does_not_get_into_the_file_and_is_explained(tmp_path: Path):
    path = tmp_path / ".env"
    path.write_text("KEY=real\nMODE=a\n")
    outcome = await edit(tmp_path, ".env", "MODE=a", "MODE=[masked value of KEY]")
    assert "new contains [masked value of KEY]" in outcome.content
    outcome = await edit(tmp_path, ".env", "KEY=[masked value of KEY]\nMODE=a", "MODE=b")
    assert "old contains [masked value of KEY]" in outcome.content
    assert path.read_text() == "KEY=real\nMODE=a\n"
    assert (await edit(tmp_path, ".env", "MODE=a", "MODE=b")).outcome == "ok"
