"""A command that takes long says how far it is: in a terminal, and beside what a program reads."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command
from support.screens.screen import Screen
from support.screens.terminal_pair import Terminal

ALL = ("sessions", "prune", "--older-than", "0h", "--keep", "0")
WAITS = "locked; waiting"
"""The command says so when a lock has kept it for longer than a progress line waits."""


@pytest.fixture
def ids(command: Command) -> list[str]:
    """Make four sessions; return their ids, the oldest first."""
    hello = ("-p", "hello", "-m", "demo", "--output-format", "json")
    return [command.run(*hello).result["session_id"] for _ in range(4)]


@contextmanager
def locked(command: Command) -> Iterator[sqlite3.Connection]:
    """Keep everybody else from writing to the store until a rollback."""
    store = command.folder / "data" / "sandbur.db"
    with closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield database


def pruned(command: Command, ids: list[str], *words: str, **streams: Any) -> str:
    """Prune in a terminal, kept for a while by a lock; return all that was shown."""
    with locked(command) as database, Terminal(columns=400) as terminal:
        process = command.start(*ALL, *words, start_new_session=True, **{**terminal.streams, **streams})
        terminal.see(WAITS)
        database.execute("ROLLBACK")
        terminal.drain(process)
        terminal.rest(0.1)
    assert process.returncode == 0, terminal.output
    return terminal.output.decode()


def screen_of(shown: str) -> list[str]:
    screen = Screen(400, 40)
    screen.feed(shown)
    return screen.text


def test_a_long_prune_says_how_far_it_is_and_leaves_no_trace_of_it(command: Command, ids: list[str]) -> None:
    shown = pruned(command, ids)
    assert "Deleting session 2 of 4" in shown
    lines = screen_of(shown)
    assert not any("Deleting" in line for line in lines), lines
    assert [line[:36] for line in lines[1:-1]] == ids
    assert lines[-1].startswith("Deleted 4 sessions")


def test_json_in_a_file_is_the_same_with_a_progress_line_beside_it(
    command: Command, ids: list[str], tmp_path: Path
) -> None:
    without = json.loads(command.run(*ALL, "--dry-run", "--json").out)
    with (tmp_path / "out.json").open("wb") as out:
        shown = pruned(command, ids, "--json", stdout=out)
    assert "Deleting session 2 of 4" in shown
    assert len(screen_of(shown)) == 1, shown
    assert json.loads((tmp_path / "out.json").read_text()) == {**without, "dry_run": False}


def test_plain_words_are_without_a_progress_line(command: Command, ids: list[str]) -> None:
    command.env["SANDBUR_PLAIN"] = "1"
    assert "Deleting" not in pruned(command, ids)


def test_a_pipe_gets_no_progress(command: Command, ids: list[str]) -> None:
    with locked(command) as database:
        process = command.start(*ALL)
        assert process.stderr is not None
        assert WAITS in process.stderr.readline().decode()
        database.execute("ROLLBACK")
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert len(out.splitlines()) == 4
    assert err.decode().startswith("Deleted 4 sessions"), err


def test_ctrl_c_stops_a_command_that_never_waits_for_events(command: Command, ids: list[str]) -> None:
    with locked(command), Terminal(columns=400) as terminal:
        process = command.start(*ALL, start_new_session=True, **terminal.streams)
        terminal.see(WAITS)
        terminal.type("\x03")
        terminal.drain(process)
        terminal.rest(0.1)
    assert process.returncode == 130
    assert b"Deleted" not in terminal.output
    assert len(command.run("sessions", "--json").lines) == 4
