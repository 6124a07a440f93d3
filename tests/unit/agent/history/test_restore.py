"""The files of a run go back to what they were at a step, and the way back can be taken back."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbur.actions.ports import Prepared, ToolContext
from sandbur.actions.tools.files.edit_file import EditFile
from sandbur.actions.tools.files.write_file import WriteFile
from sandbur.actions.workspace.content_cache import digest_of
from sandbur.actions.workspace.snapshot import Snapshot
from sandbur.agent.history.time_travel.restore import Restored, RestorePlan, apply, plan_restore
from sandbur.state.calls import FileChange
from sandbur.state.databases.chain import Chain, make_first_digest
from sandbur.state.databases.database import Database, open_database
from sandbur.state.store.files.file_history import FileHistory


class Run:
    """A session that changes files with the real tools, and records it as the journal does."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.root = folder / "ws"
        self.root.mkdir()
        self.seq = 0
        self.folder = folder
        self.history = FileHistory(database, "s1")
        self._database = database
        self._chain = Chain(0, make_first_digest("s1"))

    def record(self, changes: tuple[FileChange, ...], pre_images: dict[str, bytes]) -> None:
        entries = self.history.make_entries("c1", changes, self.seq)
        self._chain, statements = self._chain.link("s1", entries)
        self._database.commit([*self.history.insert_contents(pre_images), *statements])

    async def call(self, tool: WriteFile | EditFile, **arguments: str) -> None:
        parsed = tool.parse(json.dumps(arguments))
        context = ToolContext("c1", self.root, lambda text: None)
        prepared = await tool.prepare(parsed, context)
        assert isinstance(prepared, Prepared), prepared.content
        self.record(prepared.changes, dict(prepared.pre_images))
        context = ToolContext("c1", self.root, lambda text: None, prepared=prepared)
        assert (await tool.run(parsed, context)).outcome == "ok"
        self.seq += 1

    async def write(self, path: str, content: str) -> None:
        await self.call(WriteFile(), path=path, content=content)

    def snapshot(self) -> Snapshot:
        return Snapshot.take(self.root, self.folder / "cache", self.folder / "record")

    def commanded(self, snapshot: Snapshot) -> None:
        self.record(*snapshot.changes())
        self.seq += 1

    def plan(self, seq: int) -> RestorePlan:
        return plan_restore(self.history, seq, [self.root])

    def restore(self, seq: int) -> Restored:
        plan = self.plan(seq)
        self.record(plan.changes, plan.pre_images)
        return apply(plan)

    def tree(self) -> dict[str, tuple[int, str]]:
        """Path -> (mode, content or target)."""
        return {
            path.relative_to(self.root).as_posix(): (
                stat.S_IMODE(path.lstat().st_mode),
                str(path.readlink()) if path.is_symlink() else path.read_text(),
            )
            for path in self.root.rglob("*")
            if path.is_symlink() or path.is_file()
        }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    database = open_database(f"sqlite:///{tmp_path}/data/sandbur.db")
    yield Run(tmp_path, database)
    database.close()


def names(run: Run, listed: list[str]) -> set[str]:
    return {Path(path).relative_to(run.root).as_posix() for path in listed}


async def test_written_and_edited_files_go_back_step_by_step(run: Run):
    run.root.joinpath("a.sh").write_text("one\n")
    run.root.joinpath("a.sh").chmod(0o750)
    trees = [run.tree()]
    await run.call(EditFile(), path="a.sh", old="one", new="two")
    trees.append(run.tree())
    await run.write("new/deep/b.txt", "b")
    trees.append(run.tree())
    await run.write("a.sh", "three\n")
    await run.write("new/deep/b.txt", "c")
    for seq in (2, 1, 0):
        run.restore(seq)
        assert run.tree() == trees[seq]
    assert not run.root.joinpath("new").exists()
    assert run.restore(0) == Restored()


async def test_a_restore_can_itself_be_undone(run: Run):
    await run.write("a.txt", "one")
    await run.write("a.txt", "two")
    await run.write("b/c.txt", "three")
    before, at = run.tree(), run.seq
    first = run.restore(1)
    assert (names(run, first.restored), names(run, first.removed)) == ({"a.txt"}, {"b/c.txt"})
    assert run.tree() == {"a.txt": (0o644, "one")}
    second = run.restore(at)
    assert (names(run, second.restored), names(run, second.recreated)) == ({"a.txt"}, {"b/c.txt"})
    assert run.tree() == before


async def test_what_a_command_did_is_undone(run: Run):
    for name in ("changed", "deleted", "run.sh", "was_file", "was_folder/in"):
        path = run.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    run.root.joinpath("link").symlink_to("changed")
    run.root.joinpath("link_too").symlink_to("changed")
    before = run.tree()
    snapshot = run.snapshot()
    run.root.joinpath("changed").write_text("new")
    run.root.joinpath("deleted").unlink()
    run.root.joinpath("run.sh").chmod(0o755)
    run.root.joinpath("link").unlink()
    run.root.joinpath("link").symlink_to("nowhere")
    run.root.joinpath("link_too").unlink()
    run.root.joinpath("link_too").write_text("no link")
    run.root.joinpath("was_file").unlink()
    run.root.joinpath("was_file").mkdir()
    run.root.joinpath("was_file/in").write_text("in")
    shutil.rmtree(run.root / "was_folder")
    run.root.joinpath("was_folder").symlink_to("was_file")
    after = run.tree()
    run.commanded(snapshot)
    done = run.restore(0)
    assert (run.tree(), done.skipped) == (before, [])
    run.restore(1)
    assert run.tree() == after


def test_a_file_in_a_folder_whose_place_a_file_had_goes_back(run: Run):
    inside = run.root / "a" / "inside"
    inside.parent.mkdir()
    inside.write_text("before")
    for command in ("rm -r a; echo file > a", "rm a; mkdir a; echo after > a/inside"):
        snapshot = run.snapshot()
        subprocess.run(command, shell=True, cwd=run.root, check=True)
        run.commanded(snapshot)
    assert run.restore(0) == Restored(restored=[str(inside)])
    assert inside.read_text() == "before"


async def test_what_somebody_else_changed_is_saved_and_told(run: Run):
    await run.write("a.txt", "one")
    await run.write("a.txt", "two")
    run.root.joinpath("a.txt").write_text("theirs")
    plan = run.plan(1)
    assert plan.changed_by_others == (str(run.root / "a.txt"),)
    assert plan.pre_images == {hashlib.sha256(b"theirs").hexdigest(): b"theirs"}
    at = run.seq
    run.restore(1)
    assert run.tree() == {"a.txt": (0o644, "one")}
    run.restore(at)
    assert run.tree() == {"a.txt": (0o644, "theirs")}


async def test_a_call_that_failed_leaves_nothing_foreign(run: Run):
    await run.write("a.txt", "one")
    change = FileChange(
        path=str(run.root / "a.txt"),
        before=hashlib.sha256(b"one").hexdigest(),
        before_mode=0o644,
        after=hashlib.sha256(b"never written").hexdigest(),
    )
    run.record((change,), {})
    plan = run.plan(0)
    assert (len(plan.steps), plan.changed_by_others) == (1, ())


async def test_files_that_nobody_touched_stay(run: Run):
    run.root.joinpath("mine.txt").write_text("mine")
    await run.write("sub/a.txt", "one")
    run.root.joinpath("sub/mine.txt").write_text("mine")
    run.restore(0)
    assert set(run.tree()) == {"mine.txt", "sub/mine.txt"}


async def test_a_path_outside_or_behind_a_new_link_is_skipped(run: Run, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    await run.write(str(outside / "a.txt"), "one")
    await run.write("sub/b.txt", "one")
    outside.joinpath("b.txt").write_text("precious")
    shutil.rmtree(run.root / "sub")
    run.root.joinpath("sub").symlink_to(outside)
    done = run.restore(0)
    assert [reason for _, reason in done.skipped] == [
        "it is outside of the session's folders",
        "a folder above it is a link now",
    ]
    assert (outside / "a.txt").read_text() + (outside / "b.txt").read_text() == "oneprecious"


async def test_what_cannot_be_brought_back_is_skipped_with_the_reason(run: Run):
    run.root.joinpath("large").write_bytes(b"x" * 1_000_001)
    snapshot = run.snapshot()
    run.root.joinpath("large").write_text("small")
    run.commanded(snapshot)
    for name in ("pipe", "folder"):
        run.root.joinpath(name).write_text("old")
        await run.write(name, "new")
        run.root.joinpath(name).unlink()
    os.mkfifo(run.root / "pipe")
    run.root.joinpath("folder").mkdir()
    lost = FileChange(path=str(run.root / "lost"), before="0" * 64, before_mode=0o644, after=None)
    run.record((lost,), {})
    done = run.restore(0)
    assert {Path(path).name: reason for path, reason in done.skipped} == {
        "large": "its earlier content is not known",
        "pipe": "the present file cannot be saved first: it is not a regular file, too large or unreadable",
        "folder": f"{run.root}/folder is a folder.",
        "lost": "its old content is not in the store",
    }
    assert run.root.joinpath("large").read_text() == "small"


async def test_a_file_that_changes_after_the_plan_was_made_is_left_alone(run: Run):
    run.root.joinpath("b").write_text("b")
    for name in "abc":
        await run.write(name, "one")
    plan = run.plan(0)
    run.root.joinpath("a").write_text("late")
    run.root.joinpath("b").write_text("late")
    done = apply(plan)
    assert {Path(path).name for path, _ in done.skipped} == {"a", "b"}
    assert all("changed by another program" in reason for _, reason in done.skipped)
    assert run.tree() == {"a": (0o644, "late"), "b": (0o644, "late")}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_takes_no_changes_is_told_of(run: Run):
    await run.write("sub/a", "one")
    run.root.joinpath("sub").chmod(0o500)
    try:
        assert len(run.restore(0).skipped) == 1
    finally:
        run.root.joinpath("sub").chmod(0o700)


async def test_a_file_that_a_call_recorded_and_did_not_write_stays(run: Run):
    file = run.root / "a.txt"
    old, new, mine = (digest_of(text) for text in (b"old", b"new", b"mine"))
    planned = FileChange(path=str(file), before=old, before_mode=0o644, after=new, after_mode=0o644)
    run.record((planned,), {old: b"old"})
    file.write_bytes(b"mine")
    left = FileChange(path=str(file), before=mine, before_mode=0o644, after=mine, after_mode=0o644)
    run.record((left,), {})
    assert run.restore(0) == Restored()
    assert file.read_bytes() == b"mine"
