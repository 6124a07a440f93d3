"""`sandbur bisect` finds the step that broke something, and leaves the workspace as it is."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.commands.killed import kill_in_command
from support.models.demo_runs import DemoRuns


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "work").mkdir()
    command = Command(tmp_path / "work")
    command.env["SANDBUR_HOME"] = str(tmp_path / "data")
    return command


def worked(command: Command, *prompts: str) -> str:
    """Run the demo with each prompt in one session; return its id."""
    return asyncio.run(DemoRuns(command.folder.parent).work(*prompts))


def bisected(command: Command, session_id: str, test: str, *words: str) -> tuple[Ended, Any]:
    ended = command.run("bisect", session_id, "--test", test, "--json", *words)
    return ended, json.loads(ended.out) if ended.out else None


COUNTING = (
    "write 1 into number.txt",
    "replace 1 with 2 in number.txt",
    "write other into other.txt",
    "replace 2 with 3 in number.txt",
)


def test_the_step_that_broke_the_test_is_named_with_its_call_and_its_diff(command: Command) -> None:
    session_id = worked(command, *COUNTING)
    ended = command.run("bisect", session_id, "--test", "! grep -q 3 number.txt")
    assert ended.code == 0
    lines = ended.out.splitlines()
    verdicts = [" ".join(line.split()[:-2]) for line in lines[:4]]
    assert verdicts == [
        "before the run good exit 0",
        "after step 14 bad exit 1",
        "after step 6 good exit 0",
        "after step 10 good exit 0",
    ]
    assert "The first bad step is 14: execute_tools  ok: edit_file number.txt" in lines
    assert "  edit_file number.txt  (approved by policy)" in lines
    at = lines.index("changed number.txt")
    assert lines[at + 4 : at + 6] == ["-2", "+3"]
    assert lines[-1] == f"Fork before that step: sandbur fork {session_id} --at 13 --files"


def test_a_test_that_fails_from_the_start_blames_no_step(command: Command) -> None:
    session_id = worked(command, *COUNTING[:2])
    ended = command.run("bisect", session_id, "--test", "no-such-command --at-all")
    assert ended.code == 4
    assert "The test already fails before the run: no step of the run is to blame." in ended.out
    assert "no-such-command: command not found" in ended.out


def test_a_test_that_never_fails_blames_no_step(command: Command) -> None:
    session_id = worked(command, *COUNTING[:2])
    ended = command.run("bisect", session_id, "--test", "true")
    assert ended.code == 4
    assert "still passes after step 6" in ended.out


def test_steps_between_which_nothing_can_be_tested_are_all_named(command: Command) -> None:
    session_id = worked(command, *COUNTING)
    test = "case $(cat number.txt 2>/dev/null) in 2) exit 125;; 3) exit 1;; esac"
    ended, found = bisected(command, session_id, test)
    assert (ended.code, found["found"], found["good"], found["bad"]) == (4, False, 2, 14)
    assert [one["seq"] for one in found["steps"]] == [6, 10, 14]
    shown = command.run("bisect", session_id, "--test", test)
    assert "The first bad step is one of these" in shown.out


def test_a_test_that_hangs_is_bad_and_leaves_no_process(command: Command) -> None:
    session_id = worked(command, *COUNTING[:3])
    test = "test ! -e other.txt || { echo $$ > $OLDPWD/pid; sleep 600 & sleep 600; }"
    pid = command.folder.parent / "pid"
    ended, found = bisected(command, session_id, test.replace("$OLDPWD/pid", str(pid)), "--timeout", "1")
    assert (ended.code, found["bad"]) == (0, 10)
    assert found["probes"][1]["ending"] == "not finished after 1 s"
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_ctrl_c_ends_the_test_and_removes_the_copy(command: Command) -> None:
    session_id = worked(command, *COUNTING[:2])
    pid = command.folder.parent / "pid"
    copies = command.folder.parent / "copies"
    copies.mkdir()
    command.env["TMPDIR"] = str(copies)
    process = command.start("bisect", session_id, "--test", f"echo $$ > {pid}; sleep 600")
    deadline = time.monotonic() + 120
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert (process.returncode, b"Traceback" in said) == (130, False)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert list(copies.iterdir()) == []


def test_what_a_killed_command_did_is_found(command: Command) -> None:
    session_id = kill_in_command(command)
    command.run("-p", "-r", session_id, "-y")
    ended, found = bisected(command, session_id, "test ! -e effects")
    assert (ended.code, found["found"], len(found["calls"])) == (0, True, 1)


def test_a_run_that_changed_nothing_is_said_to(command: Command) -> None:
    session_id = worked(command, "hello")
    ended = command.run("bisect", session_id, "--test", "true")
    assert (ended.code, ended.out) == (4, "")
    assert "is known to have changed a file" in ended.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nope", "--test", "true"), "There is no session 'nope'."),
        (("{id}", "--test", " "), "--test is empty."),
        (("{id}",), "--test"),
        (("{id}", "--test", "true", "--timeout", "0"), "is not a number above 0"),
    ],
)
def test_a_wrong_word_is_told_in_a_sentence(command: Command, words: tuple[str, ...], problem: str) -> None:
    session_id = worked(command, "write 1 into number.txt")
    ended = command.run("bisect", *(word.format(id=session_id) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert problem in ended.err
    assert "Traceback" not in ended.err


def test_a_folder_that_is_gone_cannot_be_copied(command: Command) -> None:
    session_id = worked(command, "write 1 into number.txt")
    command.folder.rename(command.folder.parent / "elsewhere")
    other = Command(command.folder.parent)
    other.env["SANDBUR_HOME"] = command.env["SANDBUR_HOME"]
    ended = other.run("bisect", session_id, "--test", "true")
    assert (ended.code, "does not exist" in ended.err) == (2, True)


def test_a_hostile_test_output_cannot_steer_the_terminal(command: Command) -> None:
    session_id = worked(command, "write 1 into number.txt")
    ended = command.run("bisect", session_id, "--test", r"printf '\033]52;c;eA==\007\033[2J'; false")
    assert not {"\x1b", "\x07"} & set(ended.out + ended.err)


def test_a_test_sees_no_key_of_a_provider(command: Command) -> None:
    session_id = worked(command, *COUNTING)
    command.env["OPENAI_API_KEY"] = "sk-of-the-person"
    ended = command.run("bisect", session_id, "--test", '! grep -q 3 number.txt && test -z "$OPENAI_API_KEY"')
    assert ended.code == 0
