"""Changes of a trial that are not applied: no original is removed because its new file cannot be applied."""

import os
import subprocess
from pathlib import Path

import pytest
from support.samples.trial_folders import TrialWork, make_ended_trial

from sandbur.agent.review.trials.applying.files import apply_steps
from sandbur.agent.review.trials.applying.plan import plan_apply
from sandbur.agent.review.trials.outcome import read_differences
from sandbur.agent.review.trials.trial import TrialPlace


@pytest.fixture(params=["overlay", "copy"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> TrialWork:
    return TrialWork(tmp_path, request.param == "overlay")


def skipped(work: TrialWork) -> dict[str, str]:
    return {one.path: one.reason for one in work.difference.skipped}


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


def test_a_file_that_cannot_be_read_any_more_is_not_removed(work: TrialWork) -> None:
    (work.root / "key").write_text("key\n")
    work.run("chmod 000 key; echo b > b; echo c > c; chmod 000 c")
    changes, left = work.read_without_rights()
    assert changes == {"b": "added"}
    assert left == dict.fromkeys(("c", "key"), "a file that cannot be read")


def test_the_files_of_a_folder_that_was_closed_are_not_removed(work: TrialWork) -> None:
    for name in ("closed/in", "listed", "gone"):
        (work.root / name).mkdir(parents=True)
        (work.root / name / "x").write_text("x\n")
    work.run("chmod 000 closed; echo y > listed/y; chmod 600 listed; echo b > b; rm -r gone")
    changes, left = work.read_without_rights()
    assert changes == {"b": "added", "gone/x": "removed"}
    assert left == dict.fromkeys(("closed", "listed"), "a folder that cannot be read")


def test_a_closed_workspace_has_no_changes(work: TrialWork) -> None:
    (work.root / "x").write_text("x\n")
    work.run("rm x; echo y > y; chmod 000 .")
    assert work.read_without_rights() == ({}, {".": "a folder that cannot be read"})


def test_a_folder_that_could_never_be_read_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "ws/closed").mkdir(parents=True)
    (tmp_path / "ws/closed").chmod(0)
    trial = make_ended_trial(tmp_path / "data", tmp_path / "ws", lambda copy: (copy / "b").touch())
    (found,) = read_differences(TrialPlace(tmp_path / "data", trial.id), trial)
    assert ([one.path for one in found.files], found.skipped) == (["b"], ())


def test_a_file_or_folder_that_a_pipe_replaced_is_not_removed(work: TrialWork) -> None:
    (work.root / "file").write_text("x\n")
    (work.root / "folder").mkdir()
    (work.root / "folder/x").write_text("x\n")
    work.run("rm -r file folder; mkfifo file folder")
    assert work.changes == {}
    assert skipped(work) == {"file": "a named pipe", "folder": "a named pipe"}


def test_a_file_that_was_moved_to_an_ignored_place_is_not_removed(work: TrialWork) -> None:
    (work.root / ".gitignore").write_text("dist/\n")
    for name in ("data.csv", "twice", "old", "empty"):
        (work.root / name).write_text("" if name == "empty" else f"{name}\n")
    work.run("mkdir dist; mv data.csv empty dist; cp twice dist; mv twice kept; rm old")
    assert work.changes == {"empty": "removed", "kept": "added", "old": "removed", "twice": "removed"}
    assert skipped(work) == {
        "data.csv": "it was moved to dist/data.csv, which git ignores; --ignored applies both"
    }
    (whole,) = read_differences(work.place, work.trial, includes_ignored=True)
    assert {"data.csv", "dist/data.csv"} < {file.path for file in whole.files}
    assert apply_steps(plan_apply([whole]).steps).failed == []
    assert (work.root / "dist/data.csv").read_text() == "data.csv\n"
    assert not (work.root / "data.csv").exists()


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_tracked_file_is_part_of_the_difference_although_a_rule_matches_it(
    work: TrialWork, version: str
) -> None:
    (work.root / ".gitignore").write_text("dist/\n*.log\n")
    (work.root / "dist/deep").mkdir(parents=True)
    for name in ("a.log", "b.log", "dist/a.js", "dist/deep/a.js", f"dist/{'long' * 50}.js"):
        (work.root / name).write_text("1\n")
    git(work.root, "init", "-q")
    git(work.root, "add", "-f", "a.log", "dist")
    git(work.root, "update-index", "--index-version", version)
    if version == "3":
        (work.root / "later.log").touch()
        git(work.root, "add", "-f", "-N", "later.log")
    work.run("for one in *.log dist/*.js dist/deep/a.js; do echo 2 > $one; done; echo n > dist/new.js")
    later = {"later.log"} if version == "3" else set[str]()
    assert work.changes.keys() == {"a.log", "dist/a.js", "dist/deep/a.js", f"dist/{'long' * 50}.js", *later}
    work.run("git add -f dist/new.js")
    assert "dist/new.js" in work.changes


def test_tracked_files_are_found_with_sha256_in_inner_and_outer_repositories(tmp_path: Path) -> None:
    outer, workspace = tmp_path / "outer", tmp_path / "outer/part"
    (workspace / "inner").mkdir(parents=True)
    for folder in (workspace, workspace / "inner"):
        (folder / ".gitignore").write_text("*.log\n")
        for name in ("kept.log", "left.log"):
            (folder / name).write_text("1\n")
    git(outer, "init", "-q", "--object-format=sha256")
    git(workspace / "inner", "init", "-q")
    git(outer, "add", "-f", "part/kept.log")
    git(workspace / "inner", "add", "-f", "kept.log")

    def change(copy: Path) -> None:
        for name in ("kept.log", "left.log", "inner/kept.log", "inner/left.log"):
            (copy / name).write_text("2\n")

    trial = make_ended_trial(tmp_path / "data", workspace, change)
    (found,) = read_differences(TrialPlace(tmp_path / "data", trial.id), trial)
    assert [file.path for file in found.files] == ["inner/kept.log", "kept.log"]


@pytest.mark.parametrize(
    "content", [b"", b"DIRC\0\0\0\2\0\0\0\7short", b"DIRC\0\0\0\x09\0\0\0\1" + bytes(99)]
)
def test_a_damaged_index_leaves_the_rules_alone(work: TrialWork, content: bytes) -> None:
    (work.root / ".git").mkdir()
    (work.root / ".git/index").write_bytes(content)
    (work.root / ".gitignore").write_text("*.log\n")
    work.run("echo x > a.log; echo x > a")
    assert work.changes == {"a": "added"}


def test_a_gitignore_of_the_trial_holds_for_its_new_files(work: TrialWork) -> None:
    (work.root / "node_modules/old").mkdir(parents=True)
    (work.root / "node_modules/old/i.js").write_text("1\n")
    (work.root / "b").mkdir()
    (work.root / "b/.gitignore").write_text("out\n")
    work.run(
        "git init -q .; echo node_modules/ > .gitignore; mkdir node_modules/new;"
        " echo 1 > node_modules/new/i.js; rm -r node_modules/old;"
        " mkdir -p sub/lib; echo '*.o' > sub/.gitignore; echo 1 > sub/lib/a.o;"
        " git init -q sub/lib; echo x > sub/lib/b.o; rm b/.gitignore; echo o > b/out"
    )
    assert work.changes == {
        ".gitignore": "added", "sub/.gitignore": "added", "b/.gitignore": "removed", "b/out": "added",
        # A repository inherits no rules of the folders above.
        "sub/lib/a.o": "added", "sub/lib/b.o": "added",
    }  # fmt: skip


def test_removed_empty_folders_and_pipes_are_listed(work: TrialWork) -> None:
    for name in ("empty/in", "full/empty"):
        (work.root / name).mkdir(parents=True)
    (work.root / "full/x").write_text("x\n")
    os.mkfifo(work.root / "pipe")
    work.run("rm -r empty full; rm -f pipe; mkdir again; rmdir again")
    pipe = {"pipe": "a named pipe that was removed"} if work.trial.kind == "overlay" else {}
    assert work.changes == {"full/x": "removed"}
    assert skipped(work) == {"empty": "an empty folder that was removed", **pipe}


def test_links_of_a_copy_at_another_path_keep_their_targets(tmp_path: Path) -> None:
    work = TrialWork(tmp_path, may_overlay=False, may_mount=False)
    (work.root / "sub").mkdir()
    (work.root / "sub/t").write_text("1\n")
    (work.root.parent / "outside").write_text("o\n")
    targets = {
        "abs": f"{work.root}/sub/t", "touched": "../outside", "rel": "../outside", "inner": "sub/t",
        "far": str(tmp_path), "deep": "../outside", "again": f"{work.root}/sub/t",
    }  # fmt: skip
    for name, target in targets.items():
        (work.root / name).symlink_to(target)
    work.run(
        "mv abs abs2; mv rel rel2; mv inner inner2; mv far far2; mv deep sub/deep; touch -h touched again;"
        ' ln -s "$PWD/sub" new'
    )
    for _ in range(2):
        found = {file.path: file for file in work.difference.files if file.source is not None}
        assert {path: str(file.source and file.source.readlink()) for path, file in found.items()} == {
            "abs2": targets["abs"], "rel2": "../outside", "inner2": "sub/t", "far2": str(tmp_path),
            "sub/deep": str(work.root.parent / "outside"), "new": f"{work.root}/sub",
        }  # fmt: skip
    assert skipped(work) == {}
    assert apply_steps(plan_apply([work.difference]).steps).failed == []
    assert (work.root / "abs2").readlink() == Path(targets["abs"])
    assert (work.root / "rel2").readlink() == Path("../outside")
    assert not (work.root / "abs").is_symlink()


@pytest.mark.parametrize("place", ["linked", "main/sub"])
def test_commits_of_a_repository_elsewhere_are_named(tmp_path: Path, place: str) -> None:
    work = TrialWork(tmp_path, may_overlay=False)
    main = tmp_path / "main"
    (main / "sub").mkdir(parents=True)
    (main / "sub/a").write_text("x\n")
    git(main, "init", "-q")
    git(main, "add", "-A")
    git(main, "commit", "-qm", "first")
    git(main, "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    work.root = tmp_path / place
    work.run("git status --short; echo y > new; git add new")
    assert work.difference.notices == ()
    work.run("git -c user.name=x -c user.email=x@y commit -qm second")
    assert "other commits, branches or tags" in work.difference.notices[0]
