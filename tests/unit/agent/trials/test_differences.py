"""The difference between a folder and its copy, in an overlay's upper layer or in a whole copy."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.samples.trial_folders import TrialWork as Work

from sandbur.actions.workspace.copies.comparison import KeptOriginals
from sandbur.actions.workspace.copies.diff_text import count_lines, diff_files
from sandbur.agent.review.trials.outcome import end_trial, read_differences


@pytest.fixture(params=["overlay", "copy"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return Work(tmp_path, request.param == "overlay")


def write(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        (root / name).write_text(text)


def test_added_changed_and_removed_files_are_the_difference(work: Work) -> None:
    write(work.root, a="one\n", b="two\n", c="same\n")
    assert (
        work.run("cat a; echo three > a; rm b; echo same > c; mkdir d; echo new > d/e; ls")
        == "one\na\nc\nd\n"
    )
    assert work.changes == {"a": "changed", "b": "removed", "d/e": "added"}
    assert (work.root / "a").read_text() == "one\n"
    assert (work.root / "b").exists()
    changes = list(diff_files(work.difference))
    assert count_lines(changes) == "3 files, +2 -2"
    assert changes[0].text == "changed: a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+three"


def test_removed_renamed_and_replaced_folders_are_read_file_by_file(work: Work) -> None:
    for folder in ("gone", "moved", "made"):
        (work.root / folder / "sub").mkdir(parents=True)
        write(work.root / folder / "sub", x="x\n", y="y\n")
    work.run("rm -r gone; mv moved elsewhere; rm -r made; mkdir made; echo z > made/z; echo f > gone")
    assert work.changes == {
        "gone": "added", "gone/sub/x": "removed", "gone/sub/y": "removed",
        "elsewhere/sub/x": "added", "elsewhere/sub/y": "added",
        "moved/sub/x": "removed", "moved/sub/y": "removed",
        "made/sub/x": "removed", "made/sub/y": "removed", "made/z": "added",
    }  # fmt: skip


def test_links_and_modes_are_part_of_the_difference(work: Work) -> None:
    write(work.root, tool="#!/bin/sh\n", file="text\n")
    (work.root / "link").symlink_to("file")
    work.run("chmod 755 tool; ln -sf tool link; rm file; ln -s nowhere file; touch -h link")
    found = {file.path: file for file in work.difference.files}
    assert {path: file.kind for path, file in found.items()} == dict.fromkeys(
        ("file", "link", "tool"), "changed"
    )
    assert found["tool"].before == found["tool"].after
    texts = {one.size.file.path: one.text for one in diff_files(work.difference)}
    assert texts["tool"] == "changed: tool (mode 644 -> 755)"
    assert texts["link"] == "changed: link (link to tool)"
    assert texts["file"] == "changed: file (link to nowhere)"


def test_empty_folders_and_pipes_are_listed_as_skipped(work: Work) -> None:
    write(work.root, a="one\n")
    work.run("mkdir -p empty; mkfifo pipe; echo b > b")
    assert [(one.path, one.reason) for one in work.difference.skipped] == [
        ("empty", "an empty folder"), ("pipe", "a named pipe"),
    ]  # fmt: skip
    assert work.changes == {"b": "added"}


def test_commits_and_ignored_files_stay_in_the_copy_and_are_told(work: Work) -> None:
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y")
    write(work.root, a="one\n")
    (work.root / ".gitignore").write_text("*.log\nbuild/\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run([*git, *words], cwd=work.root, check=True)
    work.run("mkdir build; echo o > build/out; echo l > x.log; echo two > a; git status --short")
    assert work.changes == {"a": "changed"}
    assert work.difference.notices == ("2 changed files that git ignores are left out, such as build/out.",)
    (whole,) = read_differences(work.place, work.trial, includes_ignored=True)
    assert [file.path for file in whole.files] == ["a", "build/out", "x.log"]
    work.run("git -c user.name=x -c user.email=x@y commit -qam second")
    assert "other commits, branches or tags" in work.difference.notices[0]
    subjects = subprocess.run(
        ["git", "log", "--format=%s"], cwd=work.root, capture_output=True, text=True, check=True
    )
    assert subjects.stdout == "first\n"


def test_an_original_that_moved_on_keeps_its_first_content_if_the_trial_ended_before(work: Work) -> None:
    write(work.root, early="one\n", late="one\n")
    work.run("echo two > early; echo two > late")
    (work.root / "early").write_text("other\n")
    end_trial(work.place, work.trial)
    (work.root / "late").write_text("other\n")
    early, late = work.difference.files
    assert (early.before, early.base) == (None, None)
    assert late.base is not None
    assert late.base.read_text() == "one\n"
    assert next(iter(diff_files(work.difference))).text == "changed: early (the original has changed since)"


def test_a_difference_is_the_same_after_any_changes_in_either_kind_of_copy(tmp_path: Path) -> None:
    """The same script gives the same difference in an overlay and in a whole copy."""
    script = (
        "mkdir -p n/m; echo 1 > n/m/f; mv a n/a; rm -rf d; cp b b2; printf '\\000\\001' > bin; mv e d;"
        " rm n/m/f; rmdir n/m; echo x >> c; chmod 600 c; mv c c2; mv c2 c"
    )
    results: list[list[object]] = []
    for kind in ("overlay", "copy"):
        folder = tmp_path / kind
        folder.mkdir()
        work = Work(folder, kind == "overlay")
        write(work.root, a="a\n", b="b\n", c="c\n")
        for name in ("d", "e"):
            (work.root / name).mkdir()
            write(work.root / name, f=f"{name}\n", g="g\n")
        work.run(script)
        results.append(
            [(one.path, one.kind, one.before, one.after, one.after_mode) for one in work.difference.files]
        )
    assert results[0] == results[1]
    assert len(results[0]) > 5


def test_a_copy_is_mounted_by_a_user_who_is_not_root(work: Work) -> None:
    write(work.root, a="one\n")
    assert work.run("echo two > a; cat a; id -u", is_bare=True) == f"two\n{os.geteuid()}\n"
    assert work.changes == {"a": "changed"}
    assert (work.root / "a").read_text() == "one\n"


def test_contents_of_secret_files_are_not_kept(work: Work) -> None:
    (work.root / ".env").write_text("KEY=one\n")
    write(work.root, a="one\n")
    work.run("echo KEY=two > .env; echo two > a")
    end_trial(work.place, work.trial)
    folder = work.place.part(work.trial.folders[0], "base")
    assert sorted(path.read_text() for path in folder.iterdir() if path.name != "index.json") == ["one\n"]
    assert [(file.path, file.before is None) for file in work.difference.files] == [
        (".env", False),
        ("a", False),
    ]


def test_an_original_that_changes_while_it_is_kept_is_not_kept(work: Work) -> None:
    write(work.root, a="one\n")
    work.run("echo two > a")
    difference = work.difference
    write(work.root, a="later\n")
    folder = work.place.part(work.trial.folders[0], "base")
    KeptOriginals(folder).keep(difference)
    assert [path.name for path in folder.iterdir()] == ["index.json"]


def test_no_command_in_an_overlay_reaches_the_original(tmp_path: Path) -> None:
    work = Work(tmp_path, may_overlay=True)
    write(work.root, a="one\n")
    work.run(
        'umount "$PWD" || true; umount -l "$PWD" || true; mount -o remount,ro "$PWD" || true; echo two > a'
    )
    assert (work.root / "a").read_text() == "one\n"


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{")], ids=["gone", "damaged"])
def test_a_missing_or_damaged_manifest_is_an_error_in_one_sentence(
    work: Work, spoil: Callable[[Path], object]
) -> None:
    work.run("echo x > x")
    spoil(work.place.part(work.trial.folders[0], "manifest"))
    with pytest.raises(Exception, match=r"^The record .*manifest is missing or damaged\.$"):
        _ = work.difference
    assert os.access(work.root, os.W_OK)
