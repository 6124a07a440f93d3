"""The data folder and the store are the person's own: what another user could exchange is refused."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.commands.command import Command

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
STRANGER = 12345
HELLO = ("-p", "hello", "-m", "demo")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@needs_root
def test_a_data_folder_of_another_user_is_refused_and_left_as_it_is(command: Command, tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir(mode=0o777)
    os.chown(home, STRANGER, STRANGER)
    for words in (HELLO, ("sessions", "list")):
        ended = command.run(*words)
        assert ended.code == 55, ended
        assert f"{home} belongs to user {STRANGER}" in ended.err
        assert "SANDBUR_HOME" in ended.err
    assert "belongs to user" in command.run("doctor").out
    assert list(home.iterdir()) == []


@needs_root
def test_a_link_to_a_data_folder_of_another_user_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", STRANGER, STRANGER)
    (tmp_path / "data").symlink_to(tmp_path / "theirs")
    assert command.run(*HELLO).code == 55
    assert list((tmp_path / "theirs").iterdir()) == []


@needs_root
@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_a_store_of_another_user_is_refused(command: Command, tmp_path: Path, what: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    store = theirs / "runs.db"
    assert command.run(*HELLO, "--store", f"sqlite:///{store}").code == 0
    os.chown(store if what == "file" else theirs, STRANGER, STRANGER)
    if what == "link":
        store = tmp_path / "runs.db"
        store.symlink_to(theirs / "runs.db")
    before = sorted(theirs.iterdir())
    ended = command.run(*HELLO, "--store", f"sqlite:///{store}")
    assert ended.code == 55, ended
    assert f"belongs to user {STRANGER}" in ended.err
    assert sorted(theirs.iterdir()) == before


@needs_root
def test_another_user_may_use_a_folder_of_roots_that_everybody_shares(command: Command) -> None:
    """Such as a mounted one; only its own file is theirs."""
    script = (
        "import os, sys; from pathlib import Path;"
        "from sandbur.state.databases.sqlite.sqlite_database import SqliteDatabase;"
        "os.setgid(65534); os.setuid(65534); SqliteDatabase(Path(sys.argv[1])).close(); print('opened')"
    )
    with TemporaryDirectory() as shared:
        store = Path(shared) / "x.db"
        Path(shared).chmod(0o1777)
        line = [sys.executable, "-c", script, str(store)]
        done = subprocess.run(line, capture_output=True, text=True, env=command.env, check=False)
        assert done.stdout == "opened\n", done.stderr
        assert store.stat().st_uid == 65534


def test_a_link_at_the_stores_place_that_leads_nowhere_is_refused(command: Command, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/sandbur.db").symlink_to(elsewhere / "made.db")
    ended = command.run(*HELLO)
    assert ended.code == 1
    assert f"is a link to a file that does not exist: {elsewhere}/made.db" in ended.err
    assert list(elsewhere.iterdir()) == []


def test_a_data_folder_that_is_a_link_to_nothing_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(tmp_path / "nothing")
    ended = command.run(*HELLO)
    assert ended.code == 52
    assert "is a link to a missing folder" in ended.err
    assert not (tmp_path / "nothing").exists()


def test_a_link_to_a_store_of_ones_own_is_followed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    words = ("--store", f"sqlite:///{tmp_path}/other/runs%20?#.db")
    assert command.run(*HELLO, *words).code == 0
    (tmp_path / "link.db").symlink_to(tmp_path / "other/runs%20?#.db")
    listed = command.run("sessions", "list", "--store", f"sqlite:///{tmp_path}/link.db")
    assert (listed.code, len(listed.out.splitlines())) == (0, 1)
