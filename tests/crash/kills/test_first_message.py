"""A message and its session are on disk together: a kill loses both or neither, and never only the words."""

import json
import os
import signal
import sqlite3
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.stores.databases import DATABASES, fresh_url

from sandbur.state.databases.chain import make_first_digest

JSON = ("--output-format", "json")
POINTS = ("store_in_transaction:1", "store_after_commit:1", "store_in_transaction:2")
"""Kills around the first two commits of a run."""


def killed_at(command: Command, point: str, *words: str) -> None:
    ended = command.run(*words, SANDBUR_CRASH_AT=point)
    assert ended.code == -signal.SIGKILL


def sessions(command: Command, *words: str) -> list[dict[str, Any]]:
    return command.run("sessions", "list", "--json", *words).lines


def people_said(command: Command, session_id: str, *words: str) -> list[str]:
    shown = json.loads(command.run("sessions", "show", session_id, "--json", *words).out)
    return [message["blocks"][0]["text"] for message in shown["messages"] if message["role"] == "user"]


def assert_answered(ended: Ended) -> None:
    assert (ended.code, ended.result["status"]) == (0, "done"), ended.err
    assert ended.result["result"]
    assert ended.result["usage"]["llm_calls"] > 0


@pytest.mark.parametrize("kind", DATABASES)
def test_a_kill_leaves_a_session_with_its_message_or_none(
    kind: str, command: Command, tmp_path: Path
) -> None:
    with fresh_url(kind, tmp_path) as url:
        store = ("--store", url)
        for point in POINTS:
            session_id = str(uuid.uuid4())
            killed_at(command, point, "-p", "hello", "-m", "demo", "--session-id", session_id, *store)
            ended = command.run("-p", "-r", session_id, *JSON, *store)
            if any(one["id"] == session_id for one in sessions(command, *store)):
                assert_answered(ended)
            else:
                assert point.endswith(":1")
                assert (ended.code, "There is no session" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize("kind", DATABASES)
def test_a_kill_leaves_a_later_message_taken_in_or_the_session_untouched(
    kind: str, command: Command, tmp_path: Path
) -> None:
    with fresh_url(kind, tmp_path) as url:
        store = ("--store", url)
        for point in POINTS:
            session_id = command.run("-p", "hello", "-m", "demo", *JSON, *store).result["session_id"]
            killed_at(command, point, "-p", "run echo two", "-r", session_id, "-y", *store)
            [found] = [one for one in sessions(command, *store) if one["id"] == session_id]
            if found["status"] == "done":
                assert people_said(command, session_id, *store) == ["hello"], point
                continue
            ended = command.run("-p", "-r", session_id, "-y", *JSON, *store)
            assert_answered(ended)
            assert "two" in ended.result["result"]


def test_a_closed_stdout_leaves_a_session_that_answers_its_message(command: Command) -> None:
    line = " ".join(command.line("-p", "hello", "-m", "demo", "--output-format", "stream-json"))
    done = subprocess.run(["sh", "-c", f"{line} >&-"], cwd=command.folder, env=command.env, check=False)
    assert done.returncode == 1
    [found] = sessions(command)
    assert_answered(command.run("-p", "-r", found["id"], *JSON))


def test_a_reader_that_left_before_the_start_stops_the_run_after_its_message(command: Command) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = command.start("-p", "hello", "-m", "demo", "--output-format", "stream-json", stdout=writer)
    os.close(writer)
    process.communicate()
    [found] = sessions(command)
    assert found["status"] == "interrupted"
    assert_answered(command.run("-p", "-r", found["id"], *JSON))


def test_the_line_that_names_the_session_comes_when_its_message_is_on_disk(command: Command) -> None:
    session_id = str(uuid.uuid4())
    words = ("-p", "hello", "-m", "demo", "--session-id", session_id, "--output-format", "stream-json")
    assert command.run(*words, SANDBUR_CRASH_AT="store_before_commit:1").out == ""
    lines = command.run(*words).lines
    assert [line["type"] for line in lines[:2]] == ["init", "message"]


@pytest.mark.parametrize("how", ["a command", "an older version"])
def test_a_session_without_a_message_is_an_error_that_says_so(command: Command, how: str) -> None:
    session_id = str(uuid.uuid4())
    words = ("--session-id", session_id) if how == "a command" else ()
    assert command.run("-p", "/mode plan", "-m", "demo", *words).code == 0
    if how != "a command":
        session_id = of_an_older_version(command)
    ended = command.run("-p", "-r", session_id, *JSON)
    assert (ended.code, ended.result["error"]["code"]) == (2, "usage")
    assert f"Session {session_id} has no message yet" in ended.err
    due = command.run("resume", "--due")
    assert (due.code, due.out) == (0, "")
    assert_answered(command.run("-p", "-r", session_id, "hello", *JSON))


def of_an_older_version(command: Command) -> str:
    """Leave what a kill left when the session was written in front of its message; return its id."""
    with sqlite3.connect(command.folder / "data" / "sandbur.db") as database:
        [session_id] = database.execute("SELECT id FROM sessions").fetchone()
        for table in ("steps", "messages", "calls", "traces"):
            database.execute(f"DELETE FROM {table}")
        database.execute(
            "UPDATE heads SET status = 'running', title = 'hello', last_seq = -1, records = 0, chain = ?",
            (make_first_digest(session_id),),
        )
    database.close()
    for mark in (command.folder / "data" / "sandbur.db-marks").iterdir():
        mark.unlink()
    return session_id
