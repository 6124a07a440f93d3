"""An apply that was killed goes on: every file has its old or its new content, and none is written twice.

`SANDBUR_APPLY_FILES` and `SANDBUR_APPLY_KILLS` set the number of files and of places between two files where
the command dies, for a longer run than the usual one.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.commands.command import Command
from support.samples.trial_folders import list_files, make_ended_trial

from sandbur.state.maintenance.verify import audit_all
from sandbur.state.store.store import Store

FILES = int(os.environ.get("SANDBUR_APPLY_FILES", "60"))
"""A third of them is changed, a third removed and a third new."""
KILLS = int(os.environ.get("SANDBUR_APPLY_KILLS", "4"))
POINTS = (
    "apply_planned",
    "started_before_commit",
    "started_after_commit",
    "apply_begun",
    *(f"apply_before_file:{1 + number * FILES // KILLS}" for number in range(KILLS)),
    f"apply_before_file:{FILES}",
    "edit_tmp_written",
    f"edit_tmp_written:{FILES // 2}",
    f"edit_renamed:{FILES // 3}",
    "apply_written",
    "tool_ran",
    # Within the commits of the start and of the result.
    "store_in_transaction:2",
    "store_after_commit:2",
    "store_before_commit:3",
    "store_in_transaction:3",
    "store_after_commit:3",
)


def make_workspace(folder: Path) -> Path:
    workspace = folder / "ws"
    for number in range(FILES):
        if number % 3 < 2:
            file = workspace / f"folder {number % 7}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"old {number}\n" * 100)
    return workspace


def change(copy: Path) -> None:
    for number in range(FILES):
        file = copy / f"folder {number % 7}" / f"{number}.txt"
        if number % 3 == 0:
            file.write_text(f"new {number}\n" * 90)
        elif number % 3 == 1:
            file.unlink()
        else:
            place = copy / f"made {number % 5}" / f"{number}.txt"
            place.parent.mkdir(exist_ok=True)
            place.write_text(f"new {number}\n" * 90)


def stamps(workspace: Path) -> dict[str, tuple[int, int]]:
    """Return the inode and the time of each file by relative path."""
    found = {path: path.stat() for path in workspace.rglob("*") if path.is_file()}
    return {str(path.relative_to(workspace)): (one.st_ino, one.st_mtime_ns) for path, one in found.items()}


def verify_store(command: Command) -> None:
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    try:
        sessions = {one.id: None for one in store.roots()}
        assert all(found == [] for _, found in audit_all(store.database, sessions))
    finally:
        store.close()


@pytest.mark.parametrize("point", POINTS)
def test_an_apply_that_dies_goes_on_and_is_taken_back_whole(command: Command, point: str) -> None:
    workspace = make_workspace(command.folder)
    before = list_files(workspace)
    trial = make_ended_trial(command.folder / "data", workspace, change)
    after = list_files(Path(trial.folders[0].copy_path))
    assert before != after

    place = ("-C", str(workspace), "-m", "demo")
    died = command.run("try", "apply", "t1", "--yes", *place, SANDBUR_CRASH_AT=point)
    assert died.code == -signal.SIGKILL, died.err
    left, written = list_files(workspace), stamps(workspace)
    own = {name: text for name, text in left.items() if not Path(name).name.startswith(".sandbur-")}
    assert all(text in (before.get(name), after.get(name)) for name, text in own.items())
    assert all(name in own for name in before.keys() & after.keys())

    again = command.run("try", "apply", "t1", "--yes", *place)
    assert (again.code, list_files(workspace)) == (0, after), again.err
    now = stamps(workspace)
    done = [name for name, text in own.items() if text == after.get(name)]
    assert [name for name in done if now[name] != written[name]] == []
    verify_store(command)

    undone = command.run("try", "undo", "t1", "--yes", *place)
    assert (undone.code, list_files(workspace)) == (0, before), undone.err


@pytest.mark.parametrize("point", ["apply_begun", f"apply_before_file:{FILES // 2}", "apply_written"])
def test_the_session_of_a_killed_apply_goes_on_like_any_other(command: Command, point: str) -> None:
    workspace = make_workspace(command.folder)
    trial = make_ended_trial(command.folder / "data", workspace, change)
    after = list_files(Path(trial.folders[0].copy_path))
    place = ("-C", str(workspace), "-m", "demo")
    died = command.run("try", "apply", "t1", "--yes", *place, SANDBUR_CRASH_AT=point)
    assert died.code == -signal.SIGKILL, died.err
    [session] = command.run("sessions", "list", "--json").lines
    resumed = command.run("-p", "-r", session["id"])
    assert (resumed.code, list_files(workspace)) == (0, after), resumed.err


def write_numbers(folder: Path, word: str) -> None:
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"{word} {number}\n")


def kill_apply(command: Command) -> Path:
    """Kill an apply of four files after the second one; return the workspace."""
    workspace = command.folder / "ws"
    workspace.mkdir()
    write_numbers(workspace, "old")
    make_ended_trial(command.folder / "data", workspace, lambda copy: write_numbers(copy, "new"))
    place = ("-C", str(workspace), "-m", "demo")
    died = command.run("try", "apply", "t1", "--yes", *place, SANDBUR_CRASH_AT="apply_before_file:3")
    assert died.code == -signal.SIGKILL, died.err
    return workspace


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_undo_leaves_files_as_they_are_that_a_killed_apply_did_not_write(
    command: Command, goes_on: bool
) -> None:
    workspace = kill_apply(command)
    (workspace / "0.txt").write_text("mine\n")
    (workspace / "3.txt").write_text("mine\n")
    place = ("-C", str(workspace), "-m", "demo")
    if goes_on:
        assert command.run("try", "apply", "t1", "--yes", *place).code == 0
        assert (workspace / "3.txt").read_text() == "mine\n"
    undone = command.run("try", "undo", "t1", "--yes", *place)
    assert undone.code == 0, undone.err
    texts = [(workspace / f"{number}.txt").read_text() for number in range(4)]
    assert texts == ["old 0\n", "old 1\n", "old 2\n", "mine\n"]


def test_a_killed_apply_that_was_taken_back_does_not_go_on(command: Command) -> None:
    workspace = kill_apply(command)
    place = ("-C", str(workspace), "-m", "demo")
    before = {f"{number}.txt": f"old {number}\n" for number in range(4)}
    undone = command.run("try", "undo", "t1", "--yes", *place)
    assert (undone.code, list_files(workspace)) == (0, before), undone.err
    command.run("-p", "-c", *place)
    assert list_files(workspace) == before
    [session] = command.run("sessions", "list", "--json").lines
    assert session["status"] == "done"
    again = command.run("try", "apply", "t1", "--yes", *place)
    assert again.code == 0, again.err
    assert (workspace / "3.txt").read_text() == "new 3\n"


def test_a_folder_goes_with_its_last_file_also_after_a_kill(command: Command) -> None:
    workspace = command.folder / "ws"
    (workspace / "d").mkdir(parents=True)
    (workspace / "d/a.txt").write_text("a\n")

    def change_two(copy: Path) -> None:
        shutil.rmtree(copy / "d")
        (copy / "new.txt").write_text("new\n")

    make_ended_trial(command.folder / "data", workspace, change_two)
    place = ("-C", str(workspace), "-m", "demo")
    died = command.run("try", "apply", "t1", "--yes", *place, SANDBUR_CRASH_AT="apply_before_file:2")
    assert (died.code, (workspace / "d").is_dir()) == (-signal.SIGKILL, True)
    assert command.run("try", "apply", "t1", "--yes", *place).code == 0
    assert [path.name for path in workspace.iterdir()] == ["new.txt"]
