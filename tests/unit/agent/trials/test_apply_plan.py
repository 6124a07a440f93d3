"""The plan of an apply: what is written, what is a conflict, and what an undo restores."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.samples.trial_folders import list_files, make_ended_trial

from sandbur.actions.workspace.content_cache import digest_of
from sandbur.actions.workspace.copies.difference import ChangedFile, Difference
from sandbur.agent.review.trials.applying.files import apply_steps
from sandbur.agent.review.trials.applying.plan import MAX_KEPT_BYTES, ApplyPlan, OnConflict, plan_apply
from sandbur.agent.review.trials.outcome import read_differences
from sandbur.agent.review.trials.trial import TrialPlace

TEXT = "a\nb\nc\nd\ne\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "one.txt").write_text(TEXT)
    (folder / "two.txt").write_text("two\n")
    return folder


def plan(
    workspace: Path,
    change: Callable[[Path], object],
    meanwhile: Callable[[Path], object] = lambda folder: None,
    on_conflict: OnConflict = "refuse",
) -> ApplyPlan:
    """Return the plan for a trial, during which other programs changed the workspace."""
    home = workspace.parent / "data"
    trial = make_ended_trial(home, workspace, change)
    meanwhile(workspace)
    return plan_apply(read_differences(TrialPlace(home, trial.id), trial), on_conflict)


def reasons(found: ApplyPlan) -> dict[str, str]:
    return {conflict.path.name: conflict.reason for conflict in found.conflicts}


def change_all(copy: Path) -> None:
    (copy / "one.txt").write_text(TEXT.replace("a", "A"))
    (copy / "two.txt").unlink()
    (copy / "deep/er").mkdir(parents=True)
    (copy / "deep/er/new.txt").write_text("new\n")
    (copy / "link").symlink_to("one.txt")
    (copy / "run.sh").write_text("true\n")
    (copy / "run.sh").chmod(0o755)


def test_the_workspace_has_the_files_of_the_copy_after_an_apply(workspace: Path) -> None:
    found = plan(workspace, change_all)
    assert (found.conflicts, found.done, len(found.steps)) == ((), 0, 5)
    done = apply_steps(found.steps)
    assert (done.added, done.changed, done.removed, done.failed) == (3, 1, 1, [])
    assert list_files(workspace) == {
        "deep/er/new.txt": "new\n",
        "link": "-> one.txt",
        "one.txt": TEXT.replace("a", "A"),
        "run.sh": "true\n",
    }
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o755


def test_a_second_plan_finds_everything_done(workspace: Path) -> None:
    home = workspace.parent / "data"
    trial = make_ended_trial(home, workspace, change_all)
    found = read_differences(TrialPlace(home, trial.id), trial)
    apply_steps(plan_apply(found).steps)
    again = plan_apply(found)
    assert (again.steps, again.conflicts, again.done) == ((), (), 5)


def test_a_file_may_become_a_folder_and_a_folder_a_file(workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder/inner.txt").write_text("inner\n")

    def swap(copy: Path) -> None:
        (copy / "two.txt").unlink()
        (copy / "two.txt").mkdir()
        (copy / "two.txt/x").write_text("x\n")
        (copy / "folder/inner.txt").unlink()
        (copy / "folder").rmdir()
        (copy / "folder").write_text("a file\n")

    found = plan(workspace, swap)
    assert apply_steps(found.steps).failed == []
    assert list_files(workspace) == {"folder": "a file\n", "one.txt": TEXT, "two.txt/x": "x\n"}
    assert {step.path.name: step.new_folders for step in found.steps}["x"] == 1


def test_a_folder_with_new_files_does_not_become_a_file(workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder/inner.txt").write_text("inner\n")

    def replace(copy: Path) -> None:
        (copy / "folder/inner.txt").unlink()
        (copy / "folder").rmdir()
        (copy / "folder").write_text("a file\n")

    found = plan(workspace, replace, lambda folder: (folder / "folder/mine").touch())
    assert reasons(found) == {"folder": "it is a folder now, with files that the trial did not remove"}


@pytest.mark.parametrize(
    ("meanwhile", "name", "reason"),
    [
        (lambda ws: (ws / "one.txt").write_text("mine\n"), "one.txt", "it was changed since the trial began"),
        (lambda ws: (ws / "one.txt").unlink(), "one.txt", "it was removed since the trial began"),
        (lambda ws: (ws / "two.txt").write_text("mine\n"), "two.txt", "it was changed since the trial began"),
        (
            lambda ws: (ws / "link").write_text("mine\n"),
            "link",
            "a file of this name was created since the trial began",
        ),
        (lambda ws: (ws / "deep").symlink_to("/tmp"), "new.txt", "a folder above it is a link now"),
        (lambda ws: (ws / "deep").write_text("a file"), "new.txt", "a folder above it is a file now"),
        (lambda ws: os.mkfifo(ws / "link"), "link", "it is not a regular file now"),
    ],
)
def test_a_file_that_moved_on_is_a_conflict(
    workspace: Path, meanwhile: Callable[[Path], object], name: str, reason: str
) -> None:
    found = plan(workspace, change_all, meanwhile)
    assert reasons(found) == {name: reason}
    assert len(found.steps) == 4


def test_a_mode_that_both_changed_is_a_conflict_and_one_that_only_others_changed_is_kept(
    workspace: Path,
) -> None:
    def change(copy: Path) -> None:
        (copy / "one.txt").chmod(0o755)
        (copy / "two.txt").write_text("more\n")

    def meanwhile(folder: Path) -> None:
        (folder / "one.txt").chmod(0o600)
        (folder / "two.txt").chmod(0o600)

    found = plan(workspace, change, meanwhile)
    assert reasons(found) == {"one.txt": "its mode was changed since the trial began"}
    apply_steps(found.steps)
    assert (workspace / "two.txt").stat().st_mode & 0o777 == 0o600


def test_no_file_gets_set_user_bits(workspace: Path) -> None:
    found = plan(workspace, lambda copy: (copy / "one.txt").chmod(0o4755))
    apply_steps(found.steps)
    assert (workspace / "one.txt").stat().st_mode & 0o7777 == 0o755


def test_changes_of_different_lines_are_merged(workspace: Path) -> None:
    found = plan(
        workspace,
        lambda copy: (copy / "one.txt").write_text(TEXT.replace("a", "A")),
        lambda folder: (folder / "one.txt").write_text(TEXT.replace("e", "E")),
        "merge",
    )
    assert [path.name for path in found.merged] == ["one.txt"]
    apply_steps(found.steps)
    assert (workspace / "one.txt").read_text() == TEXT.replace("a", "A").replace("e", "E")


def test_changes_of_the_same_line_stay_a_conflict(workspace: Path) -> None:
    def change(copy: Path) -> None:
        (copy / "one.txt").write_text(TEXT.replace("a", "A"))
        (copy / "two.txt").write_text("more\n")

    found = plan(workspace, change, lambda ws: (ws / "one.txt").write_text(TEXT.replace("a", "X")), "merge")
    assert reasons(found) == {
        "one.txt": "it was changed since the trial began, and both changed the same lines"
    }
    assert [step.path.name for step in found.steps] == ["two.txt"]


def test_a_removed_file_that_others_changed_is_not_merged(workspace: Path) -> None:
    found = plan(
        workspace,
        lambda copy: (copy / "two.txt").unlink(),
        lambda folder: (folder / "two.txt").write_text("mine\n"),
        "merge",
    )
    assert list(reasons(found)) == ["two.txt"]


def test_a_file_that_changes_after_the_plan_is_left_as_it_is(workspace: Path) -> None:
    found = plan(workspace, change_all)
    (workspace / "one.txt").write_text("mine\n")
    done = apply_steps(found.steps)
    assert [conflict.path.name for conflict in done.failed] == ["one.txt"]
    assert (workspace / "one.txt").read_text() == "mine\n"


def test_a_copy_that_changes_after_the_plan_is_not_written(workspace: Path) -> None:
    home = workspace.parent / "data"
    trial = make_ended_trial(home, workspace, change_all)
    found = plan_apply(read_differences(TrialPlace(home, trial.id), trial))
    (Path(trial.folders[0].copy_path) / "one.txt").write_text("changed again\n")
    done = apply_steps(found.steps)
    assert [conflict.path.name for conflict in done.failed] == ["one.txt"]
    assert (workspace / "one.txt").read_text() == TEXT
    assert not list(workspace.glob(".sandbur-*"))


def test_what_an_undo_cannot_restore_is_known_before_anything_is_written(workspace: Path) -> None:
    (workspace / "large.bin").write_bytes(b"x" * (MAX_KEPT_BYTES + 1))
    (workspace / ".npmrc").write_text("a secret\n")

    def change(copy: Path) -> None:
        (copy / "large.bin").write_bytes(b"y" * (MAX_KEPT_BYTES + 2))
        (copy / ".npmrc").write_text("another\n")
        (copy / "one.txt").write_text("more\n")

    found = plan(workspace, change)
    assert {path.name for path in found.not_undoable} == {"large.bin", ".npmrc"}
    assert apply_steps(found.steps).failed == []
    assert (workspace / "large.bin").stat().st_size == MAX_KEPT_BYTES + 2


def test_a_stop_takes_effect_between_two_files(workspace: Path) -> None:
    found = plan(workspace, change_all)
    left = [False, False, True]
    done = apply_steps(found.steps, lambda: left.pop(0))
    assert (done.is_stopped, done.added + done.changed + done.removed) == (True, 2)


def test_both_names_of_a_hard_link_are_written(workspace: Path) -> None:
    (workspace / "two.txt").unlink()
    (workspace / "two.txt").hardlink_to(workspace / "one.txt")

    def change(copy: Path) -> None:
        (copy / "one.txt").write_text("ONE\n")
        (copy / "two.txt").write_text("TWO\n")

    assert apply_steps(plan(workspace, change).steps).failed == []
    assert list_files(workspace) == {"one.txt": "ONE\n", "two.txt": "TWO\n"}


def read_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_folders_keep_their_modes_and_new_ones_have_those_of_the_copy(workspace: Path) -> None:
    (workspace / "private").mkdir(mode=0o700)
    (workspace / "private/a").write_text("a\n")
    inode = (workspace / "private").stat().st_ino

    def change(copy: Path) -> None:
        (copy / "private/a").rename(copy / "private/b")
        (copy / "new").mkdir(mode=0o750)
        (copy / "new/deep").mkdir(mode=0o700)
        (copy / "new/deep/c").write_text("c\n")

    assert apply_steps(plan(workspace, change).steps).failed == []
    assert (read_mode(workspace / "private"), (workspace / "private").stat().st_ino) == (0o700, inode)
    assert (read_mode(workspace / "new"), read_mode(workspace / "new/deep")) == (0o750, 0o700)


def test_a_new_folder_goes_if_its_file_cannot_be_written(workspace: Path) -> None:
    home = workspace.parent / "data"
    trial = make_ended_trial(home, workspace, change_all)
    found = plan_apply(read_differences(TrialPlace(home, trial.id), trial))
    (Path(trial.folders[0].copy_path) / "deep/er/new.txt").write_text("changed again\n")
    assert [conflict.path.name for conflict in apply_steps(found.steps).failed] == ["new.txt"]
    assert not (workspace / "deep").exists()


def replace_link(copy: Path) -> None:
    (copy / "link").unlink()
    (copy / "link/er").mkdir(parents=True)
    (copy / "link/er/new.txt").write_text("new\n")


def test_a_link_may_become_a_folder(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere/er").mkdir(parents=True)
    (tmp_path / "elsewhere/er/new.txt").write_text("not part of it\n")
    (workspace / "link").symlink_to(tmp_path / "elsewhere")
    found = plan(workspace, replace_link)
    assert reasons(found) == {}
    assert {step.path.name: step.new_folders for step in found.steps} == {"link": 0, "new.txt": 2}
    assert apply_steps(found.steps).failed == []
    assert list_files(workspace)["link/er/new.txt"] == "new\n"
    assert (tmp_path / "elsewhere/er/new.txt").read_text() == "not part of it\n"


def test_a_link_that_moved_on_does_not_become_a_folder(workspace: Path, tmp_path: Path) -> None:
    def turn(folder: Path) -> None:
        (folder / "link").unlink()
        (folder / "link").symlink_to("/tmp")

    (workspace / "link").symlink_to(tmp_path)
    found = plan(workspace, replace_link, turn)
    assert reasons(found) == {
        "link": "it was changed since the trial began",
        "new.txt": "a folder above it is a link now",
    }


def test_a_merge_does_not_overwrite_a_mode_that_others_changed(workspace: Path) -> None:
    def change(copy: Path) -> None:
        (copy / "one.txt").chmod(0o755)
        (copy / "two.txt").write_text("two\nmore\n")
        (copy / "two.txt").chmod(0o755)

    def meanwhile(folder: Path) -> None:
        (folder / "one.txt").chmod(0o600)
        (folder / "two.txt").chmod(0o600)

    found = plan(workspace, change, meanwhile, "merge")
    assert (set(reasons(found)), found.steps) == ({"one.txt", "two.txt"}, ())


def test_a_folder_with_empty_folders_becomes_a_file(workspace: Path) -> None:
    (workspace / "folder/empty/deeper").mkdir(parents=True)
    (workspace / "folder/inner.txt").write_text("inner\n")

    def replace(copy: Path) -> None:
        shutil.rmtree(copy / "folder")
        (copy / "folder").write_text("a file\n")

    assert apply_steps(plan(workspace, replace).steps).failed == []
    assert (workspace / "folder").read_text() == "a file\n"


def test_a_file_whose_new_content_is_not_known_is_never_removed(workspace: Path) -> None:
    path, digest = workspace / "two.txt", digest_of(b"two\n")
    unread = ChangedFile("two.txt", "changed", digest, path.stat().st_mode, None, 0o100000, path)
    found = plan_apply([Difference(workspace, (unread,))])
    assert (reasons(found), found.steps) == ({"two.txt": "its content in the copy cannot be read"}, ())


def test_a_second_plan_finds_links_and_folders_that_were_replaced_done(workspace: Path) -> None:
    (workspace / "link").symlink_to("/tmp")
    (workspace / "folder").mkdir()
    (workspace / "folder/inner.txt").write_text("inner\n")

    def swap(copy: Path) -> None:
        replace_link(copy)
        shutil.rmtree(copy / "folder")
        (copy / "folder").write_text("a file\n")

    home = workspace.parent / "data"
    trial = make_ended_trial(home, workspace, swap)
    found = read_differences(TrialPlace(home, trial.id), trial)
    apply_steps(plan_apply(found).steps)
    again = plan_apply(found)
    assert (again.steps, again.conflicts, again.done) == ((), (), 4)
