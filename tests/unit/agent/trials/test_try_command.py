"""`sandbur try` as a person uses it: runs in a copy, their end, and every way to come back to them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.commands.command import Command
from support.required import lacks
from support.samples.trial_folders import list_trials_of, make_trial_command

from sandbur.actions.workspace.copies.namespace import list_mounts_below

pytestmark = pytest.mark.slow

TRY = ("try", "-p", "-m", "demo", "-q")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return make_trial_command(tmp_path)


def trial_of(command: Command, task: str, *words: str) -> str:
    ended = command.run(*TRY, task, *words)
    assert ended.code == 0, ended.err
    return list_trials_of(command)[0]["id"]


def files_of(command: Command, trial: str) -> dict[str, str]:
    (found,) = command.run("try", "diff", trial, "--json").lines
    return {one["path"]: one["kind"] for one in found["files"]}


def test_a_trial_changes_no_file_of_the_folder_and_is_resumed_in_its_copy(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    assert (command.folder / "a.txt").read_text() == "one\n"
    ended = command.run("-p", "-r", trial, "write three into b.txt")
    assert ended.code == 0
    assert f"Trial {trial} changed 2 files, +2 -1:" in ended.err
    assert files_of(command, trial) == {"a.txt": "changed", "b.txt": "added"}
    assert [path.name for path in command.folder.iterdir()] == ["a.txt"]
    assert "+two" in command.run("try", "diff").out


def test_the_prompt_says_that_an_overlay_renames_no_folders(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    if list_trials_of(command)[0]["kind"] != "overlay":
        lacks("no overlay")
    exported = command.run("sessions", "export", trial, "-")
    assert "such as `git mv` with `Invalid cross-device link`" in exported.out


def test_a_trial_that_waits_for_a_decision_goes_on_in_its_copy(command: Command) -> None:
    ended = command.run("try", "-p", "-m", "demo", "run touch made.txt", "--mode", "interactive")
    assert ended.code == 3
    (trial,) = list_trials_of(command)
    ended = command.run("approve", trial["id"], "--all")
    assert ended.code == 0, ended.err
    assert files_of(command, trial["id"]) == {"made.txt": "added"}
    assert not (command.folder / "made.txt").exists()
    assert "touch made.txt (a command without a sandbox" in ended.err


def test_a_newest_session_that_is_a_trial_is_continued_in_its_copy(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    assert command.run("-p", "-c", "write three into b.txt").code == 0
    assert files_of(command, trial) == {"a.txt": "changed", "b.txt": "added"}


def test_a_fork_of_a_trial_works_in_the_same_copy(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    assert command.run("-p", "-r", trial, "--fork-session", "write three into b.txt").code == 0
    assert files_of(command, trial) == {"a.txt": "changed", "b.txt": "added"}
    assert not (command.folder / "b.txt").exists()


def test_a_program_outside_of_the_copy_is_refused(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    program = (
        "import asyncio\nfrom sandbur import Agent\nfrom sandbur.testing import ScriptedModel\n"
        "async def main():\n    agent = Agent(ScriptedModel('x'))\n"
        f"    async with agent.session({trial!r}) as session: print(session.id)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [*command.line()[:1], "-c", program], cwd=command.folder, env=command.env, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert f"UsageError: Session {trial} works in a copy of" in done.stderr
    assert f"Open it with: sandbur -r {trial}" in done.stderr


def test_a_dropped_trial_leaves_nothing_and_its_session_is_refused(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    assert command.run("try", "drop", trial[:8]).code == 0
    data = Path(command.env["SANDBUR_HOME"])
    assert list((data / "trials").iterdir()) == []
    ended = command.run("-p", "-r", trial, "write three into a.txt")
    assert (ended.code, "whose copy is gone" in ended.err) == (2, True)
    assert (command.folder / "a.txt").read_text() == "one\n"


def test_deleting_the_session_removes_the_copy_with_closed_folders(command: Command) -> None:
    trial = trial_of(command, "run sh -c 'mkdir -p closed/x; touch closed/x/f; chmod 000 closed'", "-y")
    assert command.run("sessions", "delete", trial).code == 0
    assert list_trials_of(command) == []
    assert list((Path(command.env["SANDBUR_HOME"]) / "trials").iterdir()) == []


def test_a_task_that_could_not_begin_leaves_no_trial(command: Command) -> None:
    ended = command.run("try", "-p", "-m", "nothing/such", "hello")
    assert ended.code != 0
    assert list_trials_of(command) == []


def test_the_mode_of_a_trial_is_auto_edit_and_rules_hold(command: Command) -> None:
    trial_of(command, "write two into a.txt")
    ended = command.run(*TRY, "write three into a.txt", "--deny", "write_file")
    assert ended.code == 3
    assert files_of(command, list_trials_of(command)[0]["id"]) == {}


def test_the_data_folder_inside_of_the_folder_is_refused_in_one_sentence(command: Command) -> None:
    command.env["SANDBUR_HOME"] = str(command.folder / "data")
    ended = command.run(*TRY, "hello")
    assert ended.code == 2
    assert "a copy of this folder would take the records of Sandbur along" in ended.err
    assert ended.err.count("\n") == 1


def test_a_store_inside_of_the_folder_is_refused(command: Command) -> None:
    ended = command.run(*TRY, "hello", "--store", f"sqlite:///{command.folder}/own.db")
    assert (ended.code, "own.db lies in" in ended.err) == (2, True)


def test_a_trial_in_the_copy_of_a_trial_is_refused(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    ended = command.run(*TRY, "hello", **{"SANDBUR_TRIAL": trial})
    assert (ended.code, "a copy of a copy cannot be applied" in ended.err) == (2, True)


def test_a_command_of_a_trial_that_begins_another_trial_is_refused(command: Command) -> None:
    inner = " ".join(command.line("try", "-p", "-m", "demo", "hello"))
    ended = command.run("try", "-p", "-m", "demo", "-y", f"run {inner}")
    assert "a copy of a copy cannot be applied" in ended.out
    assert len(list_trials_of(command)) == 1


def test_a_full_disk_is_one_sentence_and_what_was_written_stays(command: Command) -> None:
    data = Path(command.env["SANDBUR_HOME"])
    data.mkdir(mode=0o700)
    script = 'mount -t tmpfs -o size=3m tmpfs "$0" && exec "$@"'
    task = "run head -c 9000000 /dev/zero > big.bin"
    words = command.line("try", "-p", "-m", "demo", "-y", task)
    line = ["unshare", "-Urm", "sh", "-c", script, str(data), *words]
    done = subprocess.run(
        line, cwd=command.folder, env=command.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.stderr.startswith(("unshare:", "mount:")):
        lacks(done.stderr)
    assert "internal error" not in done.stderr
    assert done.returncode == 1
    assert "database or disk is full" in done.stderr
    assert "A big.bin" in done.stderr


def without_namespaces(command: Command, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a user namespace that allows no others."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    line = ["unshare", "-Ur", "sh", "-c", script, "sh", *command.line(*words)]
    done = subprocess.run(
        line, cwd=command.folder, env=command.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if "unshare failed" in done.stderr or "max_user_namespaces" in done.stderr:
        lacks(done.stderr)
    return done


def test_without_user_namespaces_the_run_works_at_the_path_of_a_plain_copy(command: Command) -> None:
    (command.folder / "link").symlink_to(command.folder / "a.txt")
    done = without_namespaces(command, "try", "-p", "-m", "demo", "write two into a.txt")
    assert done.returncode == 0, done.stderr
    assert "this machine allows no user namespaces" in done.stderr
    (trial,) = list_trials_of(command)
    assert trial["kind"] in ("copy", "reflink")
    assert files_of(command, trial["id"]) == {"a.txt": "changed"}
    assert (command.folder / "a.txt").read_text() == "one\n"
    assert without_namespaces(command, "-p", "-r", trial["id"], "write three into b.txt").returncode == 0
    assert files_of(command, trial["id"]) == {"a.txt": "changed", "b.txt": "added"}
    assert command.run("try", "drop").code == 0
    data = Path(command.env["SANDBUR_HOME"])
    assert not data.with_name("data-copies").exists()


def test_a_large_plain_copy_needs_a_flag(command: Command) -> None:
    command.env["SANDBUR_TRIAL_COPY_MB"] = "1"
    (command.folder / "large").write_bytes(os.urandom(1_100_000))
    done = without_namespaces(command, *TRY, "hello")
    if list_trials_of(command):
        lacks("this file system shares blocks")
    assert done.returncode == 2
    assert "Add --any-size to copy it nevertheless" in done.stderr
    assert without_namespaces(command, *TRY, "hello", "--any-size").returncode == 0


def test_attempts_are_checked_ranked_and_leave_what_the_check_wrote(command: Command) -> None:
    check = "grep -q two a.txt && touch junk"
    task = ("try", "-m", "demo,demo", "write two into a.txt", "--check", check)
    ended = command.run(*task, "--output-format", "json")
    found = ended.result
    assert ended.code == 0, ended.err
    assert [one["check_exit_code"] for one in found["attempts"]] == [0, 0]
    assert found["best"] in [one["id"] for one in found["attempts"]]
    assert files_of(command, found["best"]) == {"a.txt": "changed"}
    assert not list(Path(command.env["SANDBUR_HOME"]).glob("trials/*/check-*"))


def test_attempts_whose_check_fails_end_with_goal_not_reached(command: Command) -> None:
    ended = command.run("try", "-n", "2", "-m", "demo", "write two into a.txt", "--check", "exit 7")
    assert ended.code == 4
    assert ended.out.count("exit 7") == 2
    assert "No attempt succeeded." in ended.err


def test_nothing_stays_mounted(command: Command) -> None:
    trial_of(command, "write two into a.txt")
    assert list(list_mounts_below(command.folder.parent)) == []


def test_doctor_tells_the_kind_of_copy_and_finds_trials_without_a_session(command: Command) -> None:
    trial = trial_of(command, "write two into a.txt")
    store = Path(command.env["SANDBUR_HOME"]) / "other.db"
    found = json.loads(command.run("doctor", "--json", "--store", f"sqlite:///{store}").out)["findings"]
    trials = [one for one in found if one["name"] == "trials"]
    assert "works in an overlay" in trials[0]["detail"] or "copies this folder" in trials[0]["detail"]
    assert trials[1]["fix"] == f"sandbur try drop {trial} --yes"
