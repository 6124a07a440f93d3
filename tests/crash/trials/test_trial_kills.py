"""Trials that are killed: while the copy is made, while the run works in it, and while it is removed."""

import os
import signal
import time
from pathlib import Path

import pytest
from support.commands.command import TIMEOUT_S, Command
from support.samples.trial_folders import list_trials_of, make_trial_command

TRY = ("try", "-p", "-m", "demo", "-q")
KILLED = 137
POINTS = ("edit_tmp_written", "edit_renamed", "tool_ran", "store_after_commit:3")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return make_trial_command(tmp_path)


def names_of(command: Command) -> list[str]:
    return sorted(path.name for path in Path(command.env["SANDBUR_HOME"], "trials").iterdir())


def changed_files(command: Command, trial: str) -> list[str]:
    (found,) = command.run("try", "diff", trial, "--json").lines
    return [one["path"] for one in found["files"]]


def is_running(trial: str) -> bool:
    """Return whether a process works in a trial."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"SANDBUR_TRIAL={trial}".encode() in (folder / "environ").read_bytes():
                return True
        except OSError:
            continue
    return False


def test_a_kill_while_the_copy_is_made_leaves_no_trial_and_the_rest_is_removed(command: Command) -> None:
    ended = command.run(*TRY, "hello", SANDBUR_CRASH_AT="trial_copied")
    assert ended.code in (KILLED, -signal.SIGKILL)
    assert [name.startswith(".unfinished-") for name in names_of(command)] == [True]
    assert list_trials_of(command) == []
    assert names_of(command) == []


@pytest.mark.parametrize("point", ["trial_made", "store_after_commit:1"])
@pytest.mark.parametrize("by", ["list", "begin"])
def test_every_trial_that_is_listed_has_a_session_that_goes_on(command: Command, point: str, by: str) -> None:
    assert command.run(*TRY, "hello", SANDBUR_CRASH_AT=point).code in (KILLED, -signal.SIGKILL)
    [name] = names_of(command)
    if by == "begin":
        assert command.run(*TRY, "another").code == 0
    listed = [one["id"] for one in list_trials_of(command)]
    assert command.run("-p", "-r", name).code == (0 if name in listed else 2)
    assert (name in listed) == (name in names_of(command)) == (point == "store_after_commit:1")


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_goes_on_in_its_copy(command: Command, point: str) -> None:
    ended = command.run(*TRY, "write two into a.txt", SANDBUR_CRASH_AT=point)
    assert ended.code == KILLED
    (trial,) = list_trials_of(command)
    assert command.run("-p", "-r", trial["id"]).code == 0
    assert changed_files(command, trial["id"]) == ["a.txt"]
    assert (command.folder / "a.txt").read_text() == "one\n"


def test_a_killed_command_takes_its_run_along_and_the_run_is_resumed(command: Command) -> None:
    process = command.start(
        *TRY, "run sh -c 'echo x > started; sleep 600'", "-y", env={"PYTHONPATH": command.env["PYTHONPATH"]}
    )
    latest = time.monotonic() + TIMEOUT_S
    while not list(Path(command.env["SANDBUR_HOME"]).glob("trials/*/0/upper/started")):
        assert time.monotonic() < latest
        time.sleep(0.02)
    (trial,) = list_trials_of(command)
    assert trial["state"] == "running"
    refused = command.run("-p", "-r", trial["id"], "hello")
    assert "another process works in this copy" in refused.err
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT_S)
    while is_running(trial["id"]):
        assert time.monotonic() < latest
        time.sleep(0.02)
    assert list_trials_of(command)[0]["state"] == "interrupted"
    assert changed_files(command, trial["id"]) == ["started"]
    ended = command.run("-p", "-r", trial["id"], "--mode", "interactive")
    assert "cannot be entered" not in ended.err
    assert not (command.folder / "started").exists()


def test_a_kill_while_a_trial_is_dropped_leaves_no_trial(command: Command) -> None:
    assert command.run(*TRY, "write two into a.txt").code == 0
    ended = command.run("try", "drop", SANDBUR_CRASH_AT="trial_set_aside")
    assert ended.code in (KILLED, -signal.SIGKILL)
    assert list_trials_of(command) == []
    assert names_of(command) == []
