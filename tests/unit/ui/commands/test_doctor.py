"""The doctor looks into every corner of the store, and says what it found."""

import os
import signal
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command
from support.places import ROOT
from support.required import lacks
from support.stores.databases import SERVERS, fresh_url
from support.stores.tampering import add_behind
from support.tools.small_disk import fill, mount_small_disk, needs_root

from sandbur.state.session import SessionSettings
from sandbur.state.store.store import Store

FIX = " " * 18
"""In front of the line that puts it right."""


def talk(command: Command, *words: str) -> str:
    ended = command.run("-p", "hello", "-m", "demo", "--output-format", "json", *words)
    return ended.result["session_id"]


def change(command: Command, sql: str, *values: object) -> None:
    with sqlite3.connect(command.folder / "data" / "sandbur.db") as database:
        database.execute(sql, values)
    database.close()


def test_every_extra_of_the_package_is_named(command: Command) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [line] = [line for line in command.run("doctor").out.splitlines() if " extras " in line]
    there, _, others = line.partition("; not installed: ")
    named = [*there.split("extras", 1)[1].replace(",", " ").split(), *others.replace(",", " ").split()]
    assert set(named) - {"none"} == declared.keys() - {"test", "dev"}
    assert len(named) == len(set(named))
    # The development environment has both.
    assert {"mcp", "otel"} <= set(there.replace(",", " ").split())


def test_a_sound_store_is_called_intact(command: Command) -> None:
    talk(command)
    ended = command.run("doctor")
    assert ended.code == 0
    assert "sandbur.db, 1 session, intact" in ended.out


def test_one_changed_letter_in_a_message_is_found(command: Command) -> None:
    session_id = talk(command)
    change(command, "UPDATE messages SET body = REPLACE(body, 'hello', 'hallo') WHERE idx = 0")
    ended = command.run("doctor")
    assert ended.code == 1
    assert f"{session_id[:8]}: record 1, message 0/0: is not what was written" in ended.out
    assert "1 session, damaged" in ended.out


def test_of_many_sessions_those_that_changed_last_are_checked_unless_all_are_asked_for(
    command: Command,
) -> None:
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db", home=command.folder / "data")
    store.index.create("old", SessionSettings(model="m", cwd="/"))
    store.database.commit([("UPDATE heads SET updated_at = '2020'", ())])
    for number in range(501):
        store.index.create(f"s{number}", SessionSettings(model="m", cwd="/"))
    store.close()
    change(command, "UPDATE traces SET body = '{}' WHERE session_id = 'old'")
    ended = command.run("doctor")
    assert ended.code == 0, ended.out
    assert "502 sessions, intact as far as it was checked" in ended.out
    note = "only the 500 sessions that changed last were checked, not 2 others, the rows of no session"
    assert f"{note} and the pages of the file\n{FIX}sandbur doctor --full\n" in ended.out
    ended = command.run("doctor", "--full")
    assert (ended.code, "old: " in ended.out, "502 sessions, damaged" in ended.out) == (1, True, True)


def test_what_was_set_aside_is_told_and_no_failure(command: Command) -> None:
    session_id = talk(command)
    change(command, "UPDATE messages SET body = REPLACE(body, 'hello', 'hallo') WHERE idx = 0")
    command.run("-p", "-r", session_id, "more")
    ended = command.run("doctor")
    assert ended.code == 0, ended.out
    note = f"{session_id[:8]}: record 1, message 0/0: is not what was written; it was set aside"
    assert note in ended.out


def test_a_dropped_tail_is_found(command: Command) -> None:
    session_id = talk(command)
    change(command, "DELETE FROM steps WHERE seq = 1")
    ended = command.run("doctor")
    assert ended.code == 1
    assert f"{session_id[:8]}: record 5: is gone" in ended.out


def test_a_record_after_the_end_is_found(command: Command) -> None:
    session_id = talk(command)
    store = Store.open(f"sqlite:///{command.folder}/data/sandbur.db")
    add_behind(store, "steps", session_id)
    store.close()
    ended = command.run("doctor")
    assert ended.code == 1
    assert f"{session_id[:8]}: record 7, step 2: stands behind the end of the chain" in ended.out
    assert "1 session, damaged" in ended.out


def killed(command: Command, *words: str) -> None:
    """Leave a store as a killed run does: with its log beside it, so that it can still be read anywhere."""
    ended = command.run("-p", "hello", "-m", "demo", *words, SANDBUR_CRASH_AT="store_after_commit:2")
    assert ended.code == -signal.SIGKILL


@pytest.fixture
def disk(command: Command) -> Iterator[Path]:
    """A small disk with a store on it."""
    with mount_small_disk(command.folder / "disk", "4M") as folder:
        killed(command, "--store", f"sqlite:///{folder}/sandbur.db")
        yield folder


def assert_not_writable(command: Command, folder: Path, reason: str) -> None:
    ended = command.run("doctor", "--store", f"sqlite:///{folder}/sandbur.db")
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert "sandbur.db, 1 session, cannot be written" in ended.out
    assert reason in ended.out


@needs_root
def test_a_store_on_a_read_only_disk_is_not_called_intact(command: Command, disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert_not_writable(command, disk, "attempt to write a readonly database. Make the file and its folder")


@needs_root
def test_a_store_on_a_full_disk_is_not_called_intact(command: Command, disk: Path) -> None:
    fill(disk, leave=0)
    assert_not_writable(command, disk, f"{disk} cannot be written: No space left on device.")


@pytest.mark.parametrize(
    ("what", "reason"), [("sandbur.db", "a readonly database"), (".", "cannot be written: ")]
)
def test_a_store_that_may_not_be_written_is_not_called_intact(
    command: Command, what: str, reason: str
) -> None:
    killed(command)
    with unwritable(command.folder / "data" / what):
        assert_not_writable(command, command.folder / "data", reason)


@contextmanager
def unwritable(target: Path) -> Iterator[None]:
    """Take the right to write from everybody, from root with the flag that even root heeds."""
    is_root = os.geteuid() == 0
    off, on = (["chattr", "+i"], ["chattr", "-i"]) if is_root else (["chmod", "a-w"], ["chmod", "u+w"])
    if subprocess.run([*off, str(target)], capture_output=True, check=False).returncode:
        lacks("this file system has no such flag")
    try:
        yield
    finally:
        subprocess.run([*on, str(target)], check=True)


def test_looking_whether_a_store_can_be_written_leaves_nothing(command: Command) -> None:
    talk(command)
    data = command.folder / "data"
    (data / "temporary").mkdir(
        exist_ok=True
    )  # where notes about temporary files are, as long as there are any
    before = sorted(path.name for path in data.rglob("*"))
    assert command.run("doctor").code == 0
    assert sorted(path.name for path in data.rglob("*")) == before
    with sqlite3.connect(command.folder / "data" / "sandbur.db") as database:
        assert database.execute("SELECT name FROM meta").fetchall() == [("schema",)]
    database.close()


def test_a_damaged_page_is_found(command: Command) -> None:
    talk(command)
    change(command, "PRAGMA wal_checkpoint(TRUNCATE)")
    path = command.folder / "data" / "sandbur.db"
    content = bytearray(path.read_bytes())
    for at in range(4096 * 3, len(content), 1024):
        content[at : at + 8] = b"\xff" * 8
    path.write_bytes(content)
    ended = command.run("doctor")
    assert ended.code == 1
    assert "Traceback" not in ended.err


def test_files_that_others_can_read_are_named(command: Command) -> None:
    talk(command)
    marks = command.folder / "data" / "sandbur.db-marks"
    for mark in marks.iterdir():
        mark.chmod(0o644)
    ended = command.run("doctor")
    assert ended.code == 0
    for mark in marks.iterdir():
        assert f"others can read {mark}, which is 0644\n{FIX}chmod 600 {mark}\n" in ended.out


def test_runs_that_wait_to_go_on_are_counted(command: Command) -> None:
    kill_in_command(command)
    assert f"1 run waits to be resumed\n{FIX}sandbur resume --due\n" in command.run("doctor").out


def test_what_calls_of_other_sessions_left_is_named(command: Command) -> None:
    talk(command)
    stray = command.folder / "data" / "scratch" / "0123456789abcdef01234567" / "call"
    stray.mkdir(parents=True)
    (stray / "output").write_bytes(b"x" * 2000)
    ended = command.run("doctor")
    assert ended.code == 0
    assert "1 folder in " in ended.out
    assert "(2.0 KB) of sessions that are not in this store" in ended.out


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_is_checked_and_its_password_is_not_shown(
    kind: str, command: Command, tmp_path: Path
) -> None:
    with fresh_url(kind, tmp_path) as url:
        talk(command, "--store", url)
        ended = command.run("doctor", "--store", url)
    assert ended.code == 0, ended.out
    assert "1 session, intact" in ended.out
    assert "plain-words" not in ended.out


def test_a_server_that_is_not_there_is_one_line(command: Command) -> None:
    ended = command.run("doctor", "--store", "postgresql://nobody@127.0.0.1:1/none")
    assert ended.code == 1
    assert ended.out.splitlines()[-2].split()[1] == "store"
    assert "Traceback" not in ended.err
