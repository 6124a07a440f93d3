"""A store that cannot be used is refused in one sentence, and nothing in it is overwritten."""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.crash.place import Ended, Place
from support.crash.scenarios import SCENARIOS
from support.models.server import ModelServer
from support.places import ROOT
from support.tools.small_disk import mount_small_disk, needs_root

from sandbur.state.application import GRAPH_VERSION

SESSION = "00000000-0000-4000-8000-00000000000a"
EFFECTS = SCENARIOS["effects"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ModelServer(EFFECTS.responder()) as server:
        yield Place(tmp_path, server)


def assert_refused(ended: Ended, *parts: str) -> None:
    """Check for one sentence that says what is wrong and what to do, and no traceback."""
    assert ended.code not in (0, -9), ended.out
    assert "Traceback" not in ended.err
    assert "internal error" not in ended.err
    lines = [line for line in ended.err.splitlines() if line.startswith("sandbur: ")]
    assert len(lines) == 1, ended.err
    assert all(part in lines[0] for part in parts), lines[0]
    assert lines[0].count(". ") >= 1, f"nothing to do about it: {lines[0]}"


@pytest.fixture(scope="module")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of one finished run."""
    with ModelServer(EFFECTS.responder()) as server:
        place = Place(tmp_path_factory.mktemp("finished") / "run", server)
        place.session_id = SESSION
        assert place.begin().code == 0
    return place.home


def finished(place: Place, home: Path) -> Path:
    """Give a place the store of a finished run; return its file."""
    shutil.copytree(home, place.home)
    place.session_id = SESSION
    return place.home / "sandbur.db"


def _text(path: Path) -> None:
    path.write_text("This is no database.\n" * 500)


def _other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (name TEXT)")
        database.execute("INSERT INTO people VALUES ('Ada')")
        database.commit()


def _cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 + 100)


def _half_a_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(50)


def _newer_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _first_page_torn(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)  # behind the file's own header
        file.write(os.urandom(3996))


@pytest.mark.parametrize("spoil", [_text, _other_program])
def test_a_file_that_is_no_store_is_refused_and_left_alone(
    place: Place, spoil: Callable[[Path], None]
) -> None:
    path = place.folder / "mine.db"
    spoil(path)
    before = path.read_bytes()
    assert_refused(place.begin("--yolo", "--store", f"sqlite:///{path}"), str(path))
    assert path.read_bytes() == before
    assert place.effects == []


@pytest.mark.parametrize("spoil", [_cut, _half_a_header, _newer_schema, _first_page_torn])
@pytest.mark.parametrize("command", ["resume", "new", "list"])
def test_a_spoilt_store_is_refused_and_left_alone(
    place: Place, finished_home: Path, spoil: Callable[[Path], None], command: str
) -> None:
    path = finished(place, finished_home)
    spoil(path)
    before = path.read_bytes()
    words = {
        "resume": ("-p", "-r", place.session_id),
        "new": ("-p", "do it", "-y", "-m", place.model),
        "list": ("sessions", "list"),
    }[command]
    assert_refused(place.run(*words), str(path))
    assert path.read_bytes() == before
    assert place.effects == []


def test_an_empty_file_is_what_a_first_start_may_leave_behind(place: Place) -> None:
    place.home.mkdir()
    (place.home / "sandbur.db").touch(mode=0o600)
    assert place.begin().code == 0


def test_an_emptied_store_is_not_taken_for_a_new_one(place: Place, finished_home: Path) -> None:
    path = finished(place, finished_home)
    path.write_bytes(b"")
    assert_refused(place.resume())
    assert path.read_bytes() == b""


def test_a_folder_in_place_of_the_store_is_refused(place: Place) -> None:
    (place.home / "sandbur.db").mkdir(parents=True)
    assert_refused(place.begin(), "sandbur.db")


def test_a_file_in_place_of_the_data_folder_is_refused(place: Place) -> None:
    place.home.write_text("mine")
    assert_refused(place.begin())
    assert place.home.read_text() == "mine"


def test_a_store_that_another_program_locks_is_waited_for_and_the_wait_is_said(
    place: Place, finished_home: Path
) -> None:
    path = finished(place, finished_home)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        process = place.start("-p", "do it", "-y", "-m", place.model)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        said, end = b"", time.monotonic() + 120
        while b"waiting for it" not in said and time.monotonic() < end:
            said += process.stderr.read() or b""
            time.sleep(0.02)
        busy_before = _cpu_seconds(process.pid)
        time.sleep(1)
        busy_s = _cpu_seconds(process.pid) - busy_before
        other.execute("ROLLBACK")
        out, _ = process.communicate(timeout=120)
    assert b"locked; waiting for it" in said
    assert (process.returncode, out.decode().strip()) == (0, "both are written")
    assert busy_s < 0.5


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_store_that_vanishes_under_a_run_stops_it_before_the_next_effect(place: Place, how: str) -> None:
    path = place.home / "sandbur.db"
    # The first effect itself takes the store away.
    vanish = {"deleted": 'rm "$D"', "moved": 'mv "$D" "$D.old"', "replaced": 'cp "$D" x; mv x "$D"'}[how]
    (place.folder / "hook").write_text(f'D={path}\ncase "$1" in one) {vanish};; esac\n')
    ended = place.begin()
    assert ended.result["exit_code"] == ended.code == 1
    assert "deleted, moved or replaced" in ended.err
    assert "Traceback" not in ended.err
    assert place.effects == ["one", "one-end"]


def test_a_backup_made_during_a_run_can_be_carried_on(place: Place) -> None:
    backup = place.folder / "backup.db"
    (place.folder / "take.py").write_text(
        f"import sqlite3\nsqlite3.connect('{place.home}/sandbur.db').execute(\"VACUUM INTO '{backup}'\")\n"
    )
    (place.folder / "hook").write_text("case $1 in two) python3 ../take.py;; esac\n")
    assert place.begin().code == 0
    assert place.effects == ["one", "one-end", "two", "two-end"]
    shutil.rmtree(place.home)
    place.home.mkdir(mode=0o700)
    backup.rename(place.home / "sandbur.db")
    ended = place.resume()
    assert (ended.code, ended.result["result"]) == (0, "both are written")
    # The backup knows that the second effect had started, and nothing of its end.
    assert place.effects == ["one", "one-end", "two", "two-end"]
    assert "may or may not" in place.server.requests[-1].raw.decode()
    assert place.server.rejections == []


def test_a_session_of_a_newer_graph_is_refused_and_kept(place: Place) -> None:
    newer = place.folder / "newer"
    newer.mkdir()
    root = ROOT
    shutil.copy(root / "sandbur.py", newer)
    for name in ("state", "actions", "agent", "ui"):
        shutil.copytree(root / name, newer / name)
    application = newer / "state" / "application.py"
    text = application.read_text()
    newest = f"GRAPH_VERSION = {GRAPH_VERSION}\n"
    assert newest in text
    application.write_text(text.replace(newest, f"GRAPH_VERSION = {GRAPH_VERSION + 1}\n"))
    process = place.start(
        "-p", "do it", "-y", "-m", place.model, "--session-id", place.session_id,
        env={"PYTHONPATH": str(newer), "SANDBUR_CRASH_AT": "started_after_commit:2"},
    )  # fmt: skip
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert_refused(place.resume(), place.session_id, "newer")
    assert place.effects == ["one", "one-end"]
    shown = place.run("sessions", "show", place.session_id, "--json")
    assert shown.code == 0, shown.err


@needs_root
def test_a_store_on_a_read_only_disk_is_refused(place: Place) -> None:
    with mount_small_disk(place.folder / "disk", "4M") as disk:
        store = f"sqlite:///{disk}/sandbur.db"
        assert place.begin("--yolo", "--store", store).code == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert_refused(place.run("-p", "again", "-r", place.session_id, "--store", store), str(disk))
        assert_refused(place.begin("--yolo", "--store", f"sqlite:///{disk}/other.db"), str(disk))
    assert len(place.effects) == 4
