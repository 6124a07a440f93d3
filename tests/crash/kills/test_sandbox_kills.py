"""What commands in a sandbox put into `/tmp` is there for the session, however its process ended."""

import sys
import time
import uuid
from pathlib import Path

import pytest
from support.commands.command import Command
from support.tools.sandboxes import KINDS, trouble_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or all(map(trouble_with, KINDS)), reason="no sandbox works on this machine"
    ),
]
FLAGS = ("-m", "demo", "-y")
WAIT_S = 120


@pytest.fixture
def temporary(command: Command) -> Path:
    """Where the agent makes temporary folders."""
    folder = command.folder / "temporary"
    folder.mkdir()
    command.env["TMPDIR"] = str(folder)
    return folder


def files(command: Command) -> list[str]:
    """Return the names of the files that are kept of `/tmp`."""
    return [path.name for path in command.folder.glob("data/scratch/*/temp/files/*") if path.is_file()]


def killed(command: Command) -> str:
    """Kill a run whose command has made a file in `/tmp`; return the session's id."""
    session_id = str(uuid.uuid4())
    shell = "echo kept > /tmp/made; sleep 600"
    run = command.start("-p", f"run {shell}", *FLAGS, "--sandbox", "required", "--session-id", session_id)
    latest = time.monotonic() + WAIT_S
    while not files(command):
        assert run.poll() is None, "the command made no file"
        assert time.monotonic() < latest, "the command made no file"
        time.sleep(0.02)
    run.kill()
    run.communicate()
    return session_id


def test_a_kill_leaves_no_temporary_folder_and_the_resumed_session_has_its_files(
    command: Command, temporary: Path
) -> None:
    session_id = killed(command)
    assert list(temporary.iterdir()) == []
    ended = command.run("-p", "run cat /tmp/made", *FLAGS, "-r", session_id)
    assert "kept" in ended.out, ended.err
    assert files(command) == ["made"]


def test_the_files_go_with_the_session(command: Command, temporary: Path) -> None:
    session_id = killed(command)
    assert command.run("sessions", "delete", session_id).code == 0
    assert list(command.folder.glob("data/scratch/*")) == []


def test_a_session_whose_commands_leave_nothing_there_leaves_no_folder(
    command: Command, temporary: Path
) -> None:
    ended = command.run("-p", "run rm -f /tmp/x; echo there", *FLAGS, "--sandbox", "required")
    assert "there" in ended.out, ended.err
    assert list(command.folder.glob("data/scratch/*")) == []
    assert list(temporary.iterdir()) == []


def test_another_session_does_not_see_them(command: Command, temporary: Path) -> None:
    killed(command)
    ended = command.run("-p", "run ls -A /tmp; echo listed", *FLAGS, "--sandbox", "required")
    assert "made" not in ended.out
    assert "listed" in ended.out
