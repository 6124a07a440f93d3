"""What a command did to the files of a workspace is found out, and what they were before is kept."""

import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tools.mounts import mount_folder, needs_mounts

from sandbur.actions.workspace.snapshot import Snapshot
from sandbur.state.calls import FileChange


class Workspace:
    """A folder, and beside it the cache and the record of its snapshots."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        self.cache = folder / "cache"
        self.record = folder / "scratch" / "files.json"
        self.root.mkdir()

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def take(self) -> Snapshot:
        return Snapshot.take(self.root, self.cache, self.record)

    def load(self) -> Snapshot:
        loaded = Snapshot.load(self.record, self.cache)
        assert loaded is not None
        return loaded

    def change(self, path: str, before: str | None, after: str | None, **others: object) -> FileChange:
        modes = {
            "before_mode": None if before is None else 0o644,
            "after_mode": None if after is None else 0o644,
        }
        values = {"path": str(self.root / path), "before": digest(before), "after": digest(after), **modes}
        return FileChange.model_validate({**values, **others})


def digest(content: str | None) -> str | None:
    return None if content is None else hashlib.sha256(content.encode()).hexdigest()


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    old = os.umask(0o022)
    yield Workspace(tmp_path)
    os.umask(old)


def paths(ws: Workspace, snapshot: Snapshot) -> list[str]:
    return [Path(change.path).relative_to(ws.root).as_posix() for change in snapshot.changes()[0]]


@pytest.mark.parametrize("is_loaded", [False, True])
def test_every_kind_of_change_is_found_with_what_was_there_before(ws: Workspace, is_loaded: bool):
    for name in ("changed", "deleted", "deep/moved", "touched", "run.sh", "was_file", "was_folder/in"):
        ws.write(name, name)
    ws.root.joinpath("link").symlink_to("changed")
    snapshot = ws.take()
    assert snapshot.changes() == ((), {})
    snapshot = ws.load() if is_loaded else snapshot
    ws.write("changed", "new")
    ws.root.joinpath("deleted").unlink()
    ws.root.joinpath("deep/moved").rename(ws.root / "here")
    os.utime(ws.root / "touched", (1, 1))
    ws.root.joinpath("run.sh").chmod(0o755)
    ws.root.joinpath("link").unlink()
    ws.root.joinpath("link").symlink_to("nowhere")
    ws.root.joinpath("was_file").unlink()
    ws.write("was_file/in", "in")
    shutil.rmtree(ws.root / "was_folder")
    ws.write("was_folder", "flat")
    ws.write("new/deep/file", "file")
    is_link = {"before_mode": 0o120777, "after_mode": 0o120777}
    changes, pre_images = snapshot.changes()
    assert sorted(changes, key=lambda change: change.path) == [
        ws.change("changed", "changed", "new"),
        ws.change("deep/moved", "deep/moved", None),
        ws.change("deleted", "deleted", None),
        ws.change("here", None, "deep/moved"),
        ws.change("link", "changed", "nowhere", **is_link),
        ws.change("new/deep/file", None, "file", new_folders=2),
        ws.change("run.sh", "run.sh", "run.sh", after_mode=0o755),
        ws.change("was_file", "was_file", None),
        ws.change("was_file/in", None, "in", new_folders=1),
        ws.change("was_folder", None, "flat"),
        ws.change("was_folder/in", "was_folder/in", None),
    ]
    before = ("changed", "deleted", "deep/moved", "run.sh", "was_file", "was_folder/in")
    assert pre_images == {digest(content): content.encode() for content in before}
    assert snapshot.note == ""


def test_the_first_process_may_be_dead(ws: Workspace):
    ws.write("a", "old")
    script = (
        "import os, sys; from pathlib import Path; from sandbur.actions.workspace.snapshot import Snapshot\n"
        "Snapshot.take(*map(Path, sys.argv[1:])); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, ws.root, ws.cache, ws.record], check=False)
    ws.write("a", "new")
    assert ws.load().changes() == ((ws.change("a", "old", "new"),), {digest("old"): b"old"})


def test_what_git_ignores_our_own_files_and_folders_behind_links_do_not_count(ws: Workspace, tmp_path: Path):
    ws.write(".gitignore", "*.log\nbuild/\n")
    ws.write(".git/config", "x")
    tmp_path.joinpath("outside").mkdir()
    ws.root.joinpath("elsewhere").symlink_to(tmp_path / "outside")
    ws.write("runs.db", "x")
    inner = ws.root / "cache"
    snapshot = Snapshot.take(ws.root, inner, inner / "record", left_out=[ws.root / "runs.db"])
    for path in ("a.log", "build/a", ".git/config", "elsewhere/a", "runs.db", "runs.db-wal", "cache/a"):
        ws.write(path, "new")
    assert snapshot.changes() == ((), {})


@needs_mounts
def test_other_file_systems_are_not_entered(ws: Workspace):
    ws.root.joinpath("mounted").mkdir()
    with mount_folder(ws.root / "mounted"):
        ws.write("mounted/a", "a")
        snapshot = ws.take()
        ws.write("mounted/a", "b")
        assert snapshot.changes() == ((), {})


def test_a_file_that_the_command_stopped_ignoring_is_not_taken_for_new(ws: Workspace):
    ws.write(".gitignore", "*.key\n")
    ws.write("my.key", "precious")
    snapshot = ws.take()
    ws.write(".gitignore", "")
    ws.write("new", "new")
    assert paths(ws, snapshot) == [".gitignore", "new"]
    # Another process does not know the old rules any more, so it promises less.
    found = {Path(change.path).name: change.is_restorable for change in ws.load().changes()[0]}
    assert found == {".gitignore": True, "my.key": False, "new": False}


def test_a_file_that_the_command_began_to_ignore_is_still_watched(ws: Workspace):
    ws.write("a.txt", "old")
    snapshot = ws.take()
    ws.write(".gitignore", "*.txt\n")
    for seen in (snapshot, ws.load()):
        assert paths(ws, seen) == [".gitignore"]
    ws.write("a.txt", "new")
    for seen in (snapshot, ws.load()):
        assert sorted(paths(ws, seen)) == [".gitignore", "a.txt"]


def test_large_files_are_watched_without_their_content(ws: Workspace):
    ws.write("large", b"x" * 1_000_001)
    ws.write("small", b"x" * 1_000_000)
    snapshot = ws.take()
    assert "the content of 1 file was not stored (over 1.0 MB each, 50.0 MB together" in snapshot.note
    assert snapshot.changes() == ((), {})
    ws.write("large", "changed")
    (change,), pre_images = snapshot.changes()
    assert (change.before, change.before_mode, change.is_restorable) == (None, 0o644, False)
    assert (change.after, pre_images) == (digest("changed"), {})
    assert ws.load().note == snapshot.note


def test_a_database_is_never_put_back_file_by_file(ws: Workspace):
    connection = sqlite3.connect(ws.root / "app.db")
    connection.execute("CREATE TABLE t (a)")
    snapshot = ws.take()
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    found = {Path(change.path).name: change.is_restorable for change in snapshot.changes()[0]}
    assert found == {"app.db": False, "app.db-wal": False, "app.db-shm": False}
    connection.close()


def test_of_many_megabytes_only_the_first_are_kept(ws: Workspace):
    for number in range(52):
        ws.write(f"{number:02}", number.to_bytes(4, "big") * 250_000)
    snapshot = ws.take()
    assert "the content of 2 files was not stored" in snapshot.note
    ws.write("00", "new")
    ws.write("51", "new")
    assert {Path(c.path).name: c.is_restorable for c in snapshot.changes()[0]} == {"00": True, "51": False}


def test_of_very_many_files_the_outer_ones_are_watched(ws: Workspace):
    ws.write("a", "old")
    for number in range(5001):
        ws.write(f"many/{number}", "")
    snapshot = ws.take()
    assert "no more than 1 file were examined (the limit is 5,000" in snapshot.note
    ws.write("a", "new")
    ws.write("b", "new")
    assert snapshot.changes()[0] == (ws.change("a", "old", "new"), ws.change("b", None, "new"))
    # Whether this one was there before is not known any more.
    ws.root.joinpath("many").rename(ws.record.parent / "many")
    ws.write("many/0", "new")
    assert snapshot.changes()[0][2] == ws.change("many/0", None, "new", new_folders=1, is_restorable=False)


def test_a_name_that_is_no_text_is_told_of(ws: Workspace):
    Path(os.fsdecode(os.fsencode(ws.root) + b"/\xff")).write_text("x")
    snapshot = ws.take()
    assert "the name of 1 file is not valid text" in snapshot.note
    assert snapshot.changes() == ((), {})


def test_an_unchanged_file_is_not_opened_again(ws: Workspace):
    for number in range(50):
        ws.write(f"d{number % 5}/{number}", str(number))
        os.utime(ws.root / f"d{number % 5}/{number}", (1, 1))
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from sandbur.actions.workspace.snapshot import Snapshot\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)\n"
        "inside = lambda: sum(str(path).startswith(sys.argv[1] + '/d') and str(path)[-1] != '/'"
        " for path in opened)\n"
        "places = [Path(arg) for arg in sys.argv[1:]]\n"
        "while time.time_ns() < max(p.stat().st_ctime_ns for p in places[0].rglob('*')) + 50_000_000: pass\n"
        "for _ in range(3): Snapshot.take(*places).changes(); print(inside())\n"
    )
    command = [sys.executable, "-c", script, ws.root, ws.cache, ws.record]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["50", "50", "50"]


def test_a_change_in_the_same_instant_does_not_go_unseen(ws: Workspace):
    path = ws.write("a", "0000")
    for number in range(1, 200):
        snapshot = ws.take()
        with path.open("r+b") as file:
            file.write(b"%04d" % number)
        os.utime(path, ns=(1, 1))
        assert snapshot.changes()[0] == (ws.change("a", f"{number - 1:04}", f"{number:04}"),)


def test_without_its_cache_a_snapshot_promises_nothing(ws: Workspace):
    ws.write("a", "old")
    ws.write("b", "old too")
    snapshot = ws.take()
    for path in ws.cache.joinpath("contents").glob(f"{digest('old')}*"):
        path.write_text("bad")
    for path in ws.cache.joinpath("contents").glob(f"{digest('old too')}*"):
        path.unlink()
    ws.write("a", "new")
    ws.write("b", "new")
    assert [(c.before, c.is_restorable) for c in snapshot.changes()[0]] == [(None, False)] * 2
    shutil.rmtree(ws.cache)
    snapshot = ws.take()
    ws.write("a", "newer")
    assert snapshot.changes()[1] == {digest("new"): b"new"}


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "files": {"a": [1]}}']
)
def test_a_damaged_index_or_record_is_no_obstacle(ws: Workspace, damage: bytes):
    ws.write("a", "old")
    ws.take()
    for path in (*ws.cache.glob("index-*"), ws.record):
        path.write_bytes(damage)
    assert Snapshot.load(ws.record, ws.cache) is None
    assert ws.take().changes() == ((), {})


def test_only_the_owner_may_look_into_the_cache(ws: Workspace):
    ws.write("a", "secret")
    ws.take()
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in (*ws.cache.rglob("*"), ws.record) if path.is_file()
    }
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (ws.cache, ws.cache / "contents")} == {0o700}
