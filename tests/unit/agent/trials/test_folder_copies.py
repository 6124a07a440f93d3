"""Whole copies of folders, the list of their files, and which folders a trial copies."""

import os
import subprocess
from pathlib import Path

import pytest
from support.required import lacks

from sandbur.actions.workspace.copies.folder_copy import FolderCopy, TooLarge, remove_tree, require_room
from sandbur.actions.workspace.copies.manifest import Manifest
from sandbur.agent.review.trials.making import TrialRequest, find_roots, make_trial
from sandbur.agent.review.trials.trial import (
    TrialPlace,
    copies_folder,
    lock_making,
    remove_unfinished,
    trials_folder,
    unfinished_place,
)
from sandbur.state.errors import UsageError


def test_a_copy_keeps_modes_times_links_and_empty_folders(tmp_path: Path) -> None:
    root = tmp_path / "from"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "sub" / "tool").write_bytes(os.urandom(3_000_000))
    (root / "sub" / "tool").chmod(0o751)
    (root / "link").symlink_to("sub/tool")
    os.utime(root / "sub" / "tool", ns=(1_000_000_001, 2_000_000_003))
    (root / "sub").chmod(0o555)
    copy = FolderCopy(root, tmp_path / "to", keeps_links=True)
    made = copy.make()
    there = (tmp_path / "to/sub/tool").stat()
    assert (there.st_mode & 0o777, there.st_mtime_ns) == (0o751, 2_000_000_003)
    assert (tmp_path / "to/sub/tool").read_bytes() == (root / "sub/tool").read_bytes()
    assert (tmp_path / "to/link").readlink() == Path("sub/tool")
    assert (tmp_path / "to/sub/empty").is_dir()
    assert (tmp_path / "to/sub").stat().st_mode & 0o777 == 0o555
    assert made.entries == Manifest.take(tmp_path / "to").entries
    copy.remove()
    assert not (tmp_path / "to").exists()


def test_a_manifest_is_the_same_after_it_was_saved(tmp_path: Path) -> None:
    root = tmp_path / "from"
    root.mkdir()
    (root / "é\n").write_text("x")
    (root / os.fsdecode(b"bad\xff")).write_text("y")
    taken = Manifest.take(root)
    taken.save(tmp_path / "manifest")
    assert Manifest.load(tmp_path / "manifest") == taken
    assert all(map(taken.is_unchanged, taken.entries))
    (root / "é\n").write_text("z")
    assert not taken.is_unchanged("é\n")


def test_too_many_files_and_too_little_room_are_errors_in_one_sentence(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    with pytest.raises(UsageError, match="it has over 2 files"):
        Manifest.take(tmp_path, max_files=2)
    with pytest.raises(UsageError, match="There is no room for the copy: it needs"):
        require_room(tmp_path, 10**18)


def test_a_copy_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    home, root = tmp_path / "data", tmp_path / "work"
    root.mkdir()
    (root / "large").write_bytes(os.urandom(10_000))
    request = TrialRequest("t1", "", root, max_bytes=1000, may_overlay=False)
    copy = FolderCopy(root, tmp_path / "probe")
    copy.make()
    if copy.kind == "reflink":
        lacks("a file system that cannot share blocks: here no copy is too large")
    with pytest.raises(TooLarge, match="too large to be copied"):
        make_trial(home, request)
    assert list(copies_folder(home).iterdir()) == []
    assert list(trials_folder(home).iterdir()) == []


def test_closed_folders_are_removed(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/f").write_text("x")
    for name in ("a/b/c", "a/b", "a"):
        (tmp_path / name).chmod(0)
    remove_tree(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_the_repository_of_a_folder_is_copied_with_it_wherever_it_is(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@y")
    main, linked = tmp_path / "main", tmp_path / "linked"
    (main / "sub").mkdir(parents=True)
    (main / "sub/a").write_text("x")
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-qm", "x"),
        ("worktree", "add", "-q", str(linked)),
    ):
        subprocess.run([*git, *words], cwd=main, check=True, capture_output=True)
    assert [one.root for one in find_roots([main])] == [str(main)]
    for folder in (main / "sub", linked):
        assert [(one.root, one.is_repository) for one in find_roots([folder])] == [
            (str(folder), False), (str(main / ".git"), True),
        ]  # fmt: skip
    assert [one.root for one in find_roots([main / "sub", main])] == [str(main)]


def test_a_trial_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    make_trial(tmp_path / "data", TrialRequest("t1", "", root, may_overlay=False))
    place = TrialPlace(tmp_path / "data", "t1")
    with place.hold():
        assert place.is_in_use
        with pytest.raises(UsageError, match="Another process works in trial t1"):
            place.remove()
    assert not place.is_in_use
    place.remove()
    assert not place.folder.exists()


def test_a_trial_that_cannot_be_locked_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    place = TrialPlace(tmp_path, "t1")
    place.lock.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"^Trial t1 cannot be locked: Is a directory\."):
        place.remove()
    assert place.is_in_use
    assert place.folder.is_dir()


def test_what_is_unfinished_stays_while_a_trial_begins(tmp_path: Path) -> None:
    folder = unfinished_place(tmp_path, "t1")
    folder.mkdir(parents=True)
    with lock_making(tmp_path, waits=True):
        remove_unfinished(tmp_path)
        assert folder.is_dir()
    remove_unfinished(tmp_path)
    assert not folder.exists()


@pytest.mark.parametrize("part", ["data", "work"])
def test_a_path_that_is_not_utf8_is_an_error_in_one_sentence(tmp_path: Path, part: str) -> None:
    places = {name: tmp_path / name for name in ("data", "work")}
    places[part] = tmp_path / os.fsdecode(b"w\xff")
    places["work"].mkdir()
    with pytest.raises(UsageError, match=r"^No trial can be made: the name of .* is not valid UTF-8"):
        make_trial(places["data"], TrialRequest("t1", "", places["work"], may_overlay=False))
    assert list(tmp_path.iterdir()) == [places["work"]]
