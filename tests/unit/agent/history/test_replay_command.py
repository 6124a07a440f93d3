"""`sandbur replay`: what a person sees of it, for runs of the real command with the demo model."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.commands.killed import ALLOW, kill_in_command
from support.stores.old_stores import DONE, KILLED, open_store

JSON = ("--output-format", "json")


def talk(command: Command, *words: str) -> str:
    return command.run("-p", *words, "-m", "demo", *JSON).result["session_id"]


def steps(command: Command, session_id: str) -> int:
    return len(command.run("sessions", "show", session_id, "--steps", "--json").lines)


def same(command: Command, session_id: str) -> Ended:
    replayed = command.run("replay", session_id)
    assert (replayed.code, replayed.err) == (0, ""), replayed
    count = steps(command, session_id)
    assert replayed.out == f"Replayed {count} steps of session {session_id}: there is no difference.\n"
    return replayed


def tamper(command: Command, sql: str) -> None:
    database = sqlite3.connect(command.folder / "data" / "sandbur.db")
    with database:
        database.execute(sql)
    database.close()


@pytest.mark.parametrize(
    "goal", ["hello", "write two into a.txt", "my web site is slow, find out why", "make a plan for nothing"]
)
def test_what_the_demo_does_replays(command: Command, goal: str) -> None:
    same(command, talk(command, goal, "-y"))


def test_a_session_with_rules_that_came_later_replays(command: Command) -> None:
    session_id = talk(command, "run echo hi")
    command.run("approve", session_id)
    command.run("-p", "-r", session_id, "run echo hi", "--allow", "run_shell_command(echo *)")
    command.run("-p", "-r", session_id, "run echo hi", "--deny", "run_shell_command(echo *)", "-y")
    same(command, session_id)


@pytest.mark.parametrize("settlement", ["done", "failed", "rerun"])
def test_a_killed_run_and_its_settlement_replay(command: Command, settlement: str) -> None:
    session_id = kill_in_command(command, "echo x >> effects; test -e again || sleep 600")
    (command.folder / "again").touch()
    assert command.run("-p", "-r", session_id).code == 3
    assert command.run("settle", session_id, "--as", settlement).code in (0, 4)
    same(command, session_id)


def test_a_killed_run_that_goes_on_by_itself_replays(command: Command) -> None:
    session_id = kill_in_command(command)
    command.run("-p", "-r", session_id, "-y")
    same(command, session_id)


def test_a_killed_run_that_is_left_for_another_message_replays(command: Command) -> None:
    session_id = kill_in_command(command)
    command.run("-p", "-r", session_id, "hello", *ALLOW)
    same(command, session_id)


def test_a_fork_with_an_edit_and_its_files_replays(command: Command) -> None:
    session_id = talk(command, "write two into a.txt", "-y")
    forked = command.run(
        "fork", session_id, "--at", "1", "--files", "--yes", "--set", "execution_mode=interactive"
    )
    fork = forked.out.strip()
    command.run("-p", "-r", fork)
    command.run("approve", fork, "--all")
    replayed = command.run("replay", fork)
    assert replayed.code == 0
    assert replayed.err.startswith("Not replayed: step 2; a person edited")


def test_a_difference_is_shown_as_a_diff_and_ends_with_4(command: Command) -> None:
    session_id = talk(command, "write two into a.txt", "-y")
    tamper(command, "UPDATE steps SET fields = replace(fields, '\"approved\"', '\"denied\"') WHERE seq = 1")
    replayed = command.run("replay", session_id)
    assert replayed.code == 4
    assert replayed.out.splitlines() == [
        "Step 1 (router), state: The state after the step differs in: pending_tool_calls.",
        "  pending_tool_calls[0].decision:",
        "- denied",
        "+ approved",
    ]
    listed = command.run("sessions", "show", session_id, "--steps").out.splitlines()
    assert replayed.err.splitlines() == [
        f"  {listed[0]}",
        f"> {listed[1]}",
        f"  {listed[2]}",
        f"Replayed 2 steps of session {session_id}; - is the recording, + is today's program.",
        f"The records of the session are damaged: sandbur sessions verify {session_id}",
    ]
    assert command.run("replay", session_id, "--from", "2").code == 0


def test_json_holds_the_same(command: Command) -> None:
    session_id = talk(command, "hello")
    expected: dict[str, Any] = {
        "type": "replay", "session_id": session_id, "steps": 2, "first_seq": 0, "last_seq": 1,
        "recorded_only": [], "divergence": None, "not_run": [], "exit_code": 0,
    }  # fmt: skip
    assert json.loads(command.run("replay", session_id, "--json").out) == expected
    tamper(command, "UPDATE steps SET position = 'vibe_planner' WHERE seq = 1")
    replayed = command.run("replay", session_id, "--json")
    found = json.loads(replayed.out)
    assert (replayed.code, found["exit_code"]) == (4, 4)
    assert {key: found["divergence"][key] for key in ("seq", "action", "kind")} == {
        "seq": 0, "action": "prompt", "kind": "route"
    }  # fmt: skip


def test_a_recording_file_replays_without_its_session(command: Command) -> None:
    session_id = talk(command, "write two into a.txt", "-y")
    command.run("sessions", "export", session_id, "run.jsonl")
    command.run("sessions", "delete", session_id)
    replayed = command.run("replay", "run.jsonl")
    assert (replayed.code, replayed.err) == (0, "")
    assert command.run("sessions", "list").out.count(session_id) == 0


def test_words_that_fit_nothing_get_one_sentence(command: Command) -> None:
    session_id = talk(command, "hello")
    (command.folder / "bad.jsonl").write_text('{"kind": "export"}\n')
    for words, said in (
        (("nothing",), "There is no session 'nothing'."),
        (("none.jsonl",), "The recording none.jsonl cannot be read: No such file or directory."),
        (("bad.jsonl",), "This export is of another version"),
        ((session_id, "--from", "1"), "has no step after step 1."),
        ((session_id, "--live", "tool"), "--live: there is no 'tool'."),
        ((session_id, "-m", "demo"), "-m needs --from SEQ"),
        ((session_id, "-m", "demo", "--live", "model"), "-m and --live contradict each other"),
        ((session_id, "--files"), "--files goes with -m"),
    ):
        ended = command.run("replay", *words)
        assert (ended.code, ended.out) == (2, ""), words
        assert said in ended.err
        assert len(ended.err.splitlines()) == 1


def test_real_tools_need_a_yes(command: Command) -> None:
    session_id = talk(command, "run echo x >> effects", "-y")
    refused = command.run("replay", session_id, "--live", "tools")
    assert refused.code == 2
    assert "Add -y." in refused.err
    assert (command.folder / "effects").read_text() == "x\n"
    assert command.run("replay", session_id, "--live", "tools,model", "-y").code == 0
    assert (command.folder / "effects").read_text() == "x\nx\n"


def test_what_another_model_would_have_done_is_a_fork(command: Command) -> None:
    session_id = talk(command, "write two into a.txt", "-y")
    (command.folder / "a.txt").write_text("something else")
    what_if = command.run("replay", session_id, "--from", "1", "-m", "demo", "--files", "--yes")
    assert what_if.code == 0
    assert what_if.out.strip()
    hint = what_if.err.splitlines()[-1]
    assert hint.startswith(f"Compare them: sandbur diff {session_id} ")
    fork = hint.split()[-1]
    assert (command.folder / "a.txt").read_text() == "two\n"
    same(command, fork)
    same(command, session_id)


def test_what_if_sends_the_next_message_again(command: Command) -> None:
    session_id = talk(command, "hello")
    command.run("-p", "-r", session_id, "run true", "-y")
    before = command.run("sessions", "list").out.count("\n")
    what_if = command.run("replay", session_id, "--from", "1", "-m", "demo", "-y", "--json")
    assert what_if.result["status"] == "done"
    nothing = command.run("replay", session_id, "--from", str(steps(command, session_id) - 1), "-m", "demo")
    assert nothing.code == 2
    assert "waits for a message, but none is recorded" in nothing.err
    assert command.run("sessions", "list").out.count("\n") == before + 1


def test_a_session_of_an_older_version_says_that_it_cannot_be_replayed(
    untraced: Path, tmp_path: Path
) -> None:
    open_store(untraced).close()
    command = Command(tmp_path)
    for session_id in (DONE, KILLED):
        ended = command.run("replay", session_id, "--store", f"sqlite:///{untraced}")
        assert ended.code == 2
        assert "an older version of Sandbur recorded too little" in ended.err


def test_an_older_session_replays_from_where_it_went_on(untraced: Path, tmp_path: Path) -> None:
    open_store(untraced).close()
    command = Command(tmp_path)
    store = ("--store", f"sqlite:///{untraced}")
    command.run("-p", "-r", DONE, "hello", "-m", "demo", "-C", str(tmp_path), *store)
    ended = command.run("replay", DONE, *store)
    assert ended.code == 0
    assert ended.err.startswith("Not replayed: steps 0 to ")
    assert ended.out.startswith("Replayed 2 steps of session")
