"""Who waits for a locked store is told which process has it, what that process does, and what to do."""

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.state.databases.sqlite.lock_holder import find_lock_holder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who holds a lock")

HOLDER = (
    "import sqlite3, sys\n"
    "database = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "database.execute('BEGIN IMMEDIATE')\n"
    "print(flush=True)\n"
    "sys.stdin.read()\n"
    "database.execute('ROLLBACK')\n"
)
WAIT_S = 120


@pytest.fixture
def command(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    assert command.run("-p", "hello", "-m", "demo").code == 0
    return command


@pytest.fixture
def path(command: Command) -> Path:
    return command.folder / "data" / "sandbur.db"


@pytest.fixture
def holder(path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in the middle of a transaction, until its input ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.send_signal(signal.SIGCONT)


def wait_for(holds: Callable[[], object]) -> None:
    latest = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < latest, "waited in vain"
        time.sleep(0.01)


def test_a_process_in_a_transaction_is_found_with_its_state(
    path: Path, holder: "subprocess.Popen[bytes]"
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("SELECT * FROM meta").fetchall()
        found = find_lock_holder(path)
        assert found is not None
        assert found.pid == holder.pid
        assert str(found).startswith(f"Process {holder.pid} ({sys.executable[:20]}")
        holder.send_signal(signal.SIGSTOP)
        wait_for(lambda: (found := find_lock_holder(path)) is not None and found.is_stopped)


def test_nobody_is_found_where_nobody_writes(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, closing(sqlite3.connect(path)) as other:
        database.execute("SELECT * FROM meta").fetchall()
        other.execute("BEGIN").execute("SELECT * FROM meta").fetchall()
        assert find_lock_holder(path) is None


def test_looking_for_the_holder_drops_no_lock_of_this_process(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        assert find_lock_holder(path) is None
        script = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
        refused = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
        assert b"locked" in refused.stderr
        database.execute("ROLLBACK")


def test_a_run_that_waits_for_a_stopped_process_says_so_and_goes_on_when_that_does(
    command: Command, holder: "subprocess.Popen[bytes]"
) -> None:
    holder.send_signal(signal.SIGSTOP)
    run = command.start("-p", "hello", "-m", "demo", text=True)
    assert run.stderr is not None
    said = run.stderr.readline()
    while "waiting" not in said:
        assert said, "the run said nothing of its wait"
        said = run.stderr.readline()
    assert said.startswith(f"Process {holder.pid} (")
    assert "which is stopped, has the store" in said
    assert f"kill -CONT {holder.pid}" in said
    holder.send_signal(signal.SIGCONT)
    assert holder.stdin is not None
    holder.stdin.close()
    run.communicate(timeout=WAIT_S)
    assert run.returncode == 0


def test_a_run_that_waited_in_vain_names_the_stopped_process(
    command: Command, holder: "subprocess.Popen[bytes]"
) -> None:
    """Takes as long as a run waits."""
    holder.send_signal(signal.SIGSTOP)
    ended = command.run("-p", "hello", "-m", "demo")
    assert ended.code == 1
    last = ended.err.splitlines()[-1]
    assert "database is locked" in last
    assert f"Process {holder.pid} (" in last
    assert last.endswith(f"which is stopped, holds it. Continue it: kill -CONT {holder.pid}")
