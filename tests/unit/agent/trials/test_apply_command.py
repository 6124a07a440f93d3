"""`sandbur try apply` and `undo`, as a person and a script use them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from support.commands.command import Command, Ended
from support.samples.trial_folders import list_files, make_ended_trial
from support.screens.slash_desk import slash_desk

from sandbur.agent.review.trials.making import TrialRequest, make_trial

OLD = {"one.txt": "a\nb\nc\n", "two.txt": "two\n"}
NEW = {"new.txt": "new\n", "one.txt": "A\nb\nc\n"}


def change(copy: Path) -> None:
    (copy / "one.txt").write_text("A\nb\nc\n")
    (copy / "two.txt").unlink()
    (copy / "new.txt").write_text("new\n")


@pytest.fixture
def workspace(command: Command) -> Path:
    folder = command.folder / "ws"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    make_ended_trial(command.folder / "data", folder, change)
    return folder


def run(command: Command, *words: str) -> Ended:
    ended = command.run("try", *words, "-C", str(command.folder / "ws"))
    assert "Traceback" not in ended.err
    return ended


def test_without_a_terminal_it_lists_the_changes_and_needs_yes(command: Command, workspace: Path) -> None:
    ended = run(command, "apply")
    assert (ended.code, ended.out, list_files(workspace)) == (2, "", OLD)
    assert "3 files, +2 -2" in ended.err
    assert "Nothing was written: the changes have to be confirmed. Add --yes." in ended.err


def test_it_applies_the_newest_trial_and_an_undo_takes_it_back(command: Command, workspace: Path) -> None:
    ended = run(command, "apply", "--yes")
    assert (ended.code, list_files(workspace)) == (0, NEW), ended.err
    assert ended.out == "Applied the trial t1: 1 file added, 1 file changed, 1 file removed.\n"
    [trial] = run(command, "list", "--json").lines
    assert trial["state"] == "applied"
    [session] = command.run("sessions", "list", "--json").lines
    assert session["title"] == "Apply trial t1"
    again = run(command, "apply", "--yes")
    assert (again.code, again.out.splitlines()[-1]) == (0, "3 files had the new content already.")
    undone = run(command, "undo", "--yes")
    assert (undone.code, list_files(workspace)) == (0, OLD), undone.err
    [trial] = run(command, "list", "--json").lines
    assert trial["state"] == "ended"
    assert run(command, "undo", "--yes").code == 2
    assert run(command, "apply", "--yes").code == 0
    assert list_files(workspace) == NEW


def test_an_undo_lists_what_changed_after_the_apply(command: Command, workspace: Path) -> None:
    run(command, "apply", "--yes")
    (workspace / "one.txt").write_text("mine\n")
    asked = run(command, "undo")
    assert asked.code == 2
    assert "These were changed after the apply" in asked.err
    assert list_files(workspace) == {**NEW, "one.txt": "mine\n"}
    run(command, "undo", "--yes")
    assert list_files(workspace) == OLD


def test_a_conflict_ends_with_4_and_each_way_out_works(command: Command, workspace: Path) -> None:
    (workspace / "one.txt").write_text("a\nb\nC\n")
    refused = run(command, "apply", "--yes")
    assert (refused.code, list_files(workspace)) == (4, {**OLD, "one.txt": "a\nb\nC\n"})
    assert "one.txt: it was changed since the trial began" in refused.err
    assert "Add --merge to join the changes, or --skip-conflicts." in refused.err
    skipped = run(command, "apply", "--yes", "--skip-conflicts")
    assert (skipped.code, list_files(workspace)) == (0, {**NEW, "one.txt": "a\nb\nC\n"})
    merged = run(command, "apply", "--yes", "--merge")
    assert (merged.code, list_files(workspace)) == (0, {**NEW, "one.txt": "A\nb\nC\n"})
    run(command, "undo", "--yes")
    assert list_files(workspace) == {**OLD, "one.txt": "a\nb\nC\n"}


def test_a_merge_that_is_not_possible_writes_the_rest(command: Command, workspace: Path) -> None:
    (workspace / "one.txt").write_text("X\nb\nc\n")
    ended = run(command, "apply", "--yes", "--merge")
    assert (ended.code, list_files(workspace)) == (4, {**NEW, "one.txt": "X\nb\nc\n"})
    assert "both changed the same lines" in ended.out


def test_a_protected_place_waits_for_an_approval(command: Command, tmp_path: Path) -> None:
    workspace = command.folder / "ws"
    workspace.mkdir()

    def configure(copy: Path) -> None:
        (copy / ".sandbur").mkdir()
        (copy / ".sandbur/config.toml").write_text("mode = 'yolo'\n")

    make_ended_trial(command.folder / "data", workspace, configure)
    waits = run(command, "apply", "--yes")
    assert (waits.code, list_files(workspace)) == (3, {})
    assert "protected place" in waits.err
    [session] = command.run("sessions", "list", "--json").lines
    approved = command.run("approve", session["id"], "--all")
    assert approved.code == 0, approved.err
    assert list_files(workspace) == {".sandbur/config.toml": "mode = 'yolo'\n"}


def test_control_characters_of_file_names_do_not_reach_the_terminal(command: Command) -> None:
    workspace = command.folder / "ws"
    workspace.mkdir()
    evil = "a\x1b[31m.txt"
    (workspace / evil).write_text("old\n")
    make_ended_trial(command.folder / "data", workspace, lambda copy: (copy / evil).write_text("new\n"))
    (workspace / evil).write_text("mine\n")
    ended = run(command, "apply", "--yes", "--skip-conflicts")
    assert "\x1b" not in ended.out + ended.err


def test_a_name_that_is_not_utf8_is_a_conflict(command: Command) -> None:
    workspace = command.folder / "ws"
    workspace.mkdir()
    name = os.fsdecode(b"\xff.txt")
    make_ended_trial(command.folder / "data", workspace, lambda copy: (copy / name).write_text("new\n"))
    ended = run(command, "apply", "--yes")
    assert ended.code == 4
    assert "not valid UTF-8" in ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("apply", "x9"), "There is no trial `x9`."),
        (("undo",), "Trial t1 is not applied, so there is nothing to take back."),
        (("apply", "--merge", "--skip-conflicts"), "--merge and --skip-conflicts contradict each other."),
        (("diff", "--merge"), "--merge and --skip-conflicts belong to `sandbur try apply`."),
    ],
)
def test_bad_input_gets_one_sentence(
    command: Command, workspace: Path, words: tuple[str, ...], sentence: str
) -> None:
    ended = run(command, *words)
    assert (ended.code, sentence in ended.err) == (2, True), ended.err


async def test_undo_in_the_session_of_an_apply_takes_it_back(command: Command, workspace: Path) -> None:
    run(command, "apply", "--yes", "-m", "demo")
    [session] = command.run("sessions", "list", "--json").lines
    env = {**command.env, "HOME": str(command.folder)}
    async with slash_desk(workspace, resume=session["id"], env=env) as desk:
        desk.picks = ["y"]
        await desk.type("/undo")
        assert "Since `Apply trial t1` these files were changed:" in desk.read_output()
    assert list_files(workspace) == OLD


async def test_undo_takes_back_changes_in_added_folders(command: Command, tmp_path: Path) -> None:
    workspace, added = tmp_path / "ws", tmp_path / "added"
    for folder in (workspace, added):
        folder.mkdir()
    (added / "a.txt").write_text("before\n")
    env = {**command.env, "HOME": str(command.folder), "SANDBUR_HOME": str(tmp_path / "data")}
    options = {"mode": "yolo", "add_dirs": (added,)}
    async with slash_desk(workspace, env=env, **options) as desk:
        await desk.send(f"replace before with after in {added}/a.txt")
        assert (added / "a.txt").read_text() == "after\n"
        desk.picks = ["y"]
        await desk.type("/undo")
    assert (added / "a.txt").read_text() == "before\n"


def test_an_undo_keeps_later_edits_with_secrets_because_they_are_never_stored(command: Command) -> None:
    workspace = command.folder / "ws"
    workspace.mkdir()

    def configure(copy: Path) -> None:
        (copy / "conf.txt").write_text("a note\n")
        (copy / "plain.txt").write_text("plain\n")

    make_ended_trial(command.folder / "data", workspace, configure)
    assert run(command, "apply", "--yes").code == 0
    mine = {"conf.txt": "token=ghp_012345678901234567890123456789abcdef\n"}
    for name, text in mine.items():
        (workspace / name).write_text(text)
    asked = run(command, "undo")
    assert "These files stay as they are:" in asked.err
    assert "conf.txt: it was changed since, and its content with secrets cannot be stored" in asked.err
    undone = run(command, "undo", "--yes")
    assert (undone.code, list_files(workspace)) == (4, mine), undone.err


def test_an_undo_that_left_a_file_out_can_be_repeated(command: Command) -> None:
    workspace = command.folder / "ws"
    (workspace / "d").mkdir(parents=True)
    (workspace / "d/a.txt").write_text("old\n")
    data = command.folder / "data"
    make_ended_trial(data, workspace, lambda copy: (copy / "d/a.txt").write_text("new\n"))
    assert run(command, "apply", "--yes").code == 0
    (workspace / "d").rename(workspace / "moved")
    (workspace / "d").symlink_to("moved")
    undone = run(command, "undo", "--yes")
    assert (undone.code, "a folder above it is a link now" in undone.err) == (4, True), undone.err
    (workspace / "d").unlink()
    (workspace / "moved").rename(workspace / "d")
    undone = run(command, "undo", "--yes")
    assert (undone.code, list_files(workspace)) == (0, {"d/a.txt": "old\n"}), undone.err
    assert run(command, "undo", "--yes").code == 2


@pytest.mark.parametrize("content", ["rubbish", "other", ""])
def test_a_damaged_trial_can_be_dropped_and_nothing_else_goes(command: Command, content: str) -> None:
    workspace, data = command.folder / "ws", command.folder / "data"
    workspace.mkdir()
    for trial_id in ("i1", "i2"):
        make_ended_trial(data, workspace, lambda copy: (copy / "new.txt").write_text("new\n"), trial_id)
    record = json.loads((data / "trials/i2/trial.json").read_text())
    damaged = content if content == "rubbish" else json.dumps({**record, "id": content and "i2"})
    (data / "trials/i1/trial.json").write_text(damaged)
    diff = run(command, "diff", "i1")
    assert (diff.code, "The record of trial i1 cannot be read." in diff.err) == (2, True)
    assert run(command, "drop", "i1", "--yes").code == 0
    assert [path.name for path in (data / "trials").iterdir()] == ["i2"]
    assert run(command, "diff", "i2").code == 0


def test_the_drop_of_an_applied_trial_says_how_to_take_it_back(command: Command, workspace: Path) -> None:
    run(command, "apply", "--yes", "-m", "demo")
    [session] = command.run("sessions", "list", "--json").lines
    dropped = run(command, "drop", "--yes")
    assert f"What it applied stays. /undo takes it back in: sandbur -r {session['id']}" in dropped.err


def test_a_trial_that_was_killed_can_be_applied_again_after_an_undo(command: Command) -> None:
    workspace, data = command.folder / "ws", command.folder / "data"
    workspace.mkdir()
    data.mkdir(mode=0o700)
    for name, text in OLD.items():
        (workspace / name).write_text(text)
    killed = make_trial(data, TrialRequest("t1", "a task", workspace, may_overlay=False)).trial
    change(Path(killed.folders[0].copy_path))
    assert run(command, "apply", "--yes").code == 0
    assert run(command, "undo", "--yes").code == 0
    assert list_files(workspace) == OLD
    again = run(command, "apply", "--yes")
    assert (again.code, list_files(workspace)) == (0, NEW), again.err


def test_an_undo_makes_removed_folders_again_with_their_modes(command: Command) -> None:
    workspace = command.folder / "ws"
    (workspace / "private").mkdir(parents=True)
    (workspace / "private").chmod(0o700)
    (workspace / "private/deep").mkdir(mode=0o750)
    (workspace / "private/deep/a").write_text("a\n")
    make_ended_trial(command.folder / "data", workspace, lambda copy: shutil.rmtree(copy / "private"))
    assert run(command, "apply", "--yes").code == 0
    assert not (workspace / "private").exists()
    assert run(command, "undo", "--yes").code == 0
    modes = [(workspace / name).stat().st_mode & 0o777 for name in ("private", "private/deep")]
    assert modes == [0o700, 0o750]
