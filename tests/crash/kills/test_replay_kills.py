"""A run whose process was killed replays as far as it came, and whole once it was carried on."""

import uuid
from pathlib import Path

import pytest
from support.commands.command import Command

GOAL = "my web site is slow, find out why"


@pytest.mark.parametrize(
    "point",
    [
        "request_before_send:4",
        "stream_mid:3",
        "reply_before_commit:5",
        "started_before_commit:2",
        "started_after_commit:3",
        "tool_ran:3",
        "store_before_commit:14",
        "store_in_transaction:12",
        "store_after_commit:11",
    ],
)
def test_a_run_killed_anywhere_replays(tmp_path: Path, point: str) -> None:
    command = Command(tmp_path)
    session_id = str(uuid.uuid4())
    words = ("-p", GOAL, "-y", "-m", "demo", "--session-id", session_id)
    assert command.run(*words, SANDBUR_CRASH_AT=point).code < 0
    began = command.run("replay", session_id)
    assert (began.code, began.err) == (0, "")
    assert command.run("-p", "-r", session_id).code == 0
    ended = command.run("replay", session_id)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out != began.out
