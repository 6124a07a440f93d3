"""A kill while a command runs behind the wall settles as that of any read: it runs again, behind the wall."""

import json
import sys
import time
import uuid
from pathlib import Path

import pytest
from support.commands.command import Command

from sandbur.actions.tools.shell.sandbox.wall import wall_kind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or wall_kind() is None, reason="no wall stands on this machine"
    ),
]
WAIT_S = 120


@pytest.fixture
def program(command: Command) -> Path:
    """A workspace, and a program that is taken for one that only reads, and waits for a file there."""
    place = command.folder / "programs" / "tree"
    place.parent.mkdir()
    place.write_text("#!/bin/sh\nuntil [ -e go ]; do sleep 0.05; done\ncat ../../outside\n")
    place.chmod(0o755)
    command.env["PATH"] = f"{place.parent}:{command.env['PATH']}"
    command.folder.parent.joinpath("outside").write_text("planted-words")
    workspace = command.folder / "ws"
    workspace.mkdir()
    return workspace


def test_after_a_kill_it_runs_again_behind_the_wall_and_asks_where_it_fails_there(
    command: Command, program: Path
) -> None:
    session_id = str(uuid.uuid4())
    words = ("-m", "demo", "-C", str(program))
    run = command.start("-p", "run tree", *words, "--session-id", session_id)
    latest = time.monotonic() + WAIT_S
    while not list(command.folder.glob("data/scratch/*/*/started")):
        assert run.poll() is None
        assert time.monotonic() < latest, "the command was not started"
        time.sleep(0.02)
    run.kill()
    run.communicate()
    program.joinpath("go").touch()
    again = command.start("-p", "-r", session_id, "--output-format", "json")
    out, err = again.communicate(timeout=WAIT_S)
    result = json.loads(out.splitlines()[-1])
    assert (result["status"], again.returncode) == ("needs_approval", 3), err
    [pending] = result["pending"]
    assert "without that view" in pending["reason"]
    assert b"planted-words" not in b"".join(
        path.read_bytes() for path in command.folder.glob("data/sandbur.db*") if path.is_file()
    )
    approved = command.start("approve", session_id, "--all", "--output-format", "json")
    out, err = approved.communicate(timeout=WAIT_S)
    assert approved.returncode == 0, err
    assert "planted-words" in json.loads(out.splitlines()[-1])["result"]
