"""What is seen of a call whose process died: files that changed since, what git says, what still runs."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel

from sandbur.actions.tools.shell.execution.process_marker import find_marked_processes
from sandbur.actions.tools.shell.supervisor.order import MARK
from sandbur.agent.session.unknown_outcome import aftermath
from sandbur.state.calls import PendingCall, update_recovery
from sandbur.state.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 's.db'}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


def unknown(minutes: float, tool: str = "run_shell_command") -> PendingCall:
    started = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
    call = PendingCall(call_id="c1", tool=tool, arguments='{"command": "x"}', kind="outcome_unknown")
    return update_recovery(call, started_at=started)


def old(file: Path, text: str = "x") -> Path:
    """Write a file whose times, as far as they can be set, are of yesterday."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (1_600_000_000, 1_600_000_000))
    return file


async def test_files_that_changed_since_are_named_newest_first(store: Store, folder: Path) -> None:
    session = await open_real(store, ScriptedModel(), folder)
    for number in range(12):
        file = folder / f"sub/f{number}"
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
        os.utime(file, (4_000_000_000 + number, 4_000_000_000 + number))
    (folder / ".gitignore").write_text("skipped\n")
    (folder / "skipped").write_text("x")
    found = await aftermath(unknown(5), session.ports)
    assert found.since[:2] == ("sub/f11", "sub/f10")
    assert (len(found.since), found.more, found.is_complete) == (8, 5, True)
    later = await aftermath(unknown(-5), session.ports)
    assert "sub/f11" in later.since


async def test_a_file_whose_time_was_set_back_is_seen(store: Store, folder: Path) -> None:
    session = await open_real(store, ScriptedModel(), folder)
    old(folder / "sly")
    assert (await aftermath(unknown(5), session.ports)).since == ("sly",)
    assert (await aftermath(unknown(-5), session.ports)).since == ()


def git(folder: Path, *words: str) -> None:
    line = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
    subprocess.run(line, cwd=folder, check=True, capture_output=True)


async def test_git_tells_what_is_removed_and_new(store: Store, folder: Path) -> None:
    git(folder, "init", "-q")
    for name in ("kept", "gone", "other"):
        (folder / name).write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    (folder / "gone").unlink()
    (folder / "other").write_text("y")
    (folder / "fresh").write_text("x")
    session = await open_real(store, ScriptedModel(), folder)
    found = await aftermath(unknown(5), session.ports)
    assert set(found.git) == {"removed gone", "changed other", "new fresh"}


async def test_git_is_not_asked_where_it_would_run_a_program(store: Store, folder: Path) -> None:
    git(folder, "init", "-q")
    with (folder / ".git/config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = touch {folder / 'ran'}\n")
    session = await open_real(store, ScriptedModel(), folder)
    assert (await aftermath(unknown(5), session.ports)).git == ()
    assert not (folder / "ran").exists()


async def test_of_a_tool_that_starts_no_processes_nothing_is_said_to_run(store: Store, folder: Path) -> None:
    session = await open_real(store, ScriptedModel(), folder)
    assert (await aftermath(unknown(5, "write_file"), session.ports)).running is None
    assert (await aftermath(unknown(5), session.ports)).running == ()


def test_processes_of_a_call_are_found_by_its_mark() -> None:
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(
        program, env={**os.environ, MARK: "mark-of-this-test"}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        (found,) = find_marked_processes("mark-of-this-test")
        process.kill()
    assert found.split()[0] == str(process.pid)
    assert find_marked_processes("mark-of-this-test") == []
