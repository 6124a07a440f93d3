"""Old sessions go, and never one that somebody still needs."""

import json
import sqlite3
from typing import Any

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command

NEVER_KEEP = ("--keep", "0")
AT_ONCE = ("--older-than", "0s", *NEVER_KEEP)


def talk(command: Command, text: str = "hello", *words: str) -> str:
    ended = command.run("-p", text, "-m", "demo", "--output-format", "json", *words)
    return ended.result["session_id"]


def age(command: Command, session_id: str, days: int) -> None:
    """Let a session have been used last so many days ago."""
    with sqlite3.connect(command.folder / "data" / "sandbur.db") as database:
        database.execute(
            "UPDATE heads SET updated_at = strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now', ?)"
            " WHERE session_id = ?",
            (f"-{days} days", session_id),
        )
    database.close()


def left(command: Command) -> list[str]:
    """Return the sessions that are there, newest first."""
    return [session["id"] for session in command.run("sessions", "list", "--json").lines]


def pruned(command: Command, *words: str) -> Any:
    return json.loads(command.run("sessions", "prune", "--json", *words).out)


def test_what_was_used_within_a_month_stays(command: Command) -> None:
    old, young = talk(command), talk(command)
    age(command, old, 31)
    age(command, young, 29)
    found = pruned(command, *NEVER_KEEP)
    assert [session["id"] for session in found["deleted"]] == [old]
    assert found["deleted"][0]["reason"] == "age"
    assert found["freed_bytes"] > 0
    assert found["kept"] == 1
    assert left(command) == [young]


def test_a_pruned_session_is_gone_and_not_lost(command: Command) -> None:
    session_id = talk(command)
    pruned(command, *AT_ONCE)
    ended = command.run("sessions", "show", session_id)
    assert ended.code == 2
    assert "There is no session" in ended.err


def test_the_newest_twenty_stay_however_old(command: Command) -> None:
    ids = [talk(command) for _ in range(22)]
    for number, session_id in enumerate(ids):
        age(command, session_id, 100 - number)
    assert [session["id"] for session in pruned(command)["deleted"]] == ids[:2]
    assert len(left(command)) == 20


def test_a_dry_run_deletes_nothing_and_says_what_would_go(command: Command) -> None:
    session_id = talk(command, "an old story")
    ended = command.run("sessions", "prune", *AT_ONCE, "--dry-run")
    assert session_id in ended.out
    assert "an old story" in ended.out
    assert "Would delete 1 session, about " in ended.err
    assert left(command) == [session_id]
    ended = command.run("sessions", "prune", *AT_ONCE)
    assert "Deleted 1 session" in ended.err
    assert left(command) == []


def test_a_session_that_waits_for_a_decision_stays(command: Command) -> None:
    waiting = command.run("-p", "run touch made", "-m", "demo", "--output-format", "json").result[
        "session_id"
    ]
    killed = kill_in_command(command)
    talk(command)
    ended = command.run("sessions", "prune", *AT_ONCE)
    assert sorted(left(command)) == sorted([waiting, killed])
    assert "2 of them would go, but a call waits for a decision" in ended.err
    assert command.run("approve", waiting).code == 0
    assert command.run("settle", killed, "--as", "done").code == 0
    command.run("sessions", "prune", *AT_ONCE)
    assert left(command) == []


def test_a_session_that_runs_stays(command: Command) -> None:
    process = command.start("-p", "run touch begun; sleep 600", "-m", "demo", "--yolo")
    try:
        while not (command.folder / "begun").exists():
            assert process.poll() is None
        assert pruned(command, *AT_ONCE)["deleted"] == []
    finally:
        process.terminate()
        process.communicate()


def test_what_a_kept_fork_came_from_stays_and_goes_with_its_last_fork(command: Command) -> None:
    parent = talk(command)
    fork = command.run("fork", parent).out.strip()
    command.run("-p", "-r", fork, "more")
    age(command, parent, 100)
    assert pruned(command, *NEVER_KEEP)["deleted"] == []
    age(command, fork, 50)
    assert [session["id"] for session in pruned(command, *NEVER_KEEP)["deleted"]] == [fork, parent]
    assert command.run("doctor").code == 0


def test_the_oldest_go_until_the_rest_is_small_enough(command: Command) -> None:
    ids = [talk(command, f"run seq {number} 4000", "--yolo") for number in range(4)]
    for number, session_id in enumerate(ids):
        age(command, session_id, 4 - number)
    sizes = {s["id"]: s["size_bytes"] for s in pruned(command, *AT_ONCE, "--dry-run")["deleted"]}
    room = sizes[ids[2]] + sizes[ids[3]] + 100
    found = pruned(command, *NEVER_KEEP, "--max-size", str(room))
    assert [(s["id"], s["reason"]) for s in found["deleted"]] == [(ids[0], "size"), (ids[1], "size")]
    assert left(command) == [ids[3], ids[2]]


def test_files_from_before_a_change_go_with_the_last_session_that_needs_them(command: Command) -> None:
    (command.folder / "a.txt").write_text("before\n")
    session_id = talk(command, "replace before with after in a.txt", "--yolo")
    database = sqlite3.connect(command.folder / "data" / "sandbur.db")
    assert (command.folder / "a.txt").read_text() == "after\n"
    assert database.execute("SELECT COUNT(*) FROM blobs").fetchone() == (1,)
    fork = command.run("fork", session_id).out.strip()
    command.run("sessions", "delete", fork)
    pruned(command, "--older-than", "1d", *NEVER_KEEP)
    assert database.execute("SELECT COUNT(*) FROM blobs").fetchone() == (1,)
    pruned(command, *AT_ONCE)
    assert database.execute("SELECT COUNT(*) FROM blobs").fetchone() == (0,)
    database.close()


def test_nothing_of_a_pruned_session_is_left(command: Command) -> None:
    talk(command, "run seq 1 30000", "--yolo")
    killed = kill_in_command(command)
    command.run("settle", killed, "--as", "done")
    pruned(command, *AT_ONCE)
    database = sqlite3.connect(command.folder / "data" / "sandbur.db")
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {table: database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables}
    database.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, session_search, row)")
    assert database.execute("SELECT term FROM words").fetchall() == []
    database.close()
    # SQLite's own table has the newest number of a session, so that no later session gets it again; those of
    # the full-text index count its rows.
    of_index = {"session_search_config", "session_search_data"}
    assert {table for table, count in rows.items() if count} == {"meta", "sqlite_sequence", *of_index}
    scratch = command.folder / "data" / "scratch"
    assert not (list(scratch.iterdir()) if scratch.exists() else [])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--older-than", "30"], "`30` is not an age such as 30d, 12h or 2w"),
        (["--older-than", "-3d"], "--older-than"),
        (["--older-than", "999999999w"], "is not an age"),
        (["--max-size", "much"], "`much` is not a size such as 500MB or 1GB"),
        (["--max-size", "1XB"], "is not a size"),
        (["--keep", "-1"], "--keep"),
        (["some-id"], "one word too many"),
    ],
)
def test_a_limit_that_cannot_be_read_is_one_sentence(
    command: Command, words: list[str], problem: str
) -> None:
    session_id = talk(command)
    ended = command.run("sessions", "prune", *words)
    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 1
    assert left(command) == [session_id]
