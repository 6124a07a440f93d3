"""What waits for a session goes where the session goes, is checked with it and leaves with it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Command

from sandbur.state.store.store import Store
from sandbur.ui.web.waiting_approvals import overview

pytestmark = pytest.mark.slow


def waited_for(command: Command, *words: str) -> str:
    """Return the id of a session for which these messages wait."""
    said = command.run("-p", "hello", "-m", "demo", "--output-format", "json")
    session_id = str(said.result["session_id"])
    for word in words:
        assert command.run("steer", session_id, "--queue", word).code == 0
    return session_id


def waiting(command: Command, session_id: str) -> list[str]:
    shown = json.loads(command.run("sessions", "show", session_id, "--json").out)
    return [one["text"] for one in shown["waiting"]]


def exported(command: Command, session_id: str) -> list[Any]:
    return command.run("sessions", "export", session_id).lines


def taken_in(command: Command, lines: list[Any]) -> Any:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return command.run("sessions", "import", "-", "--yes", stdin=text)


def changed(command: Command, statement: str) -> None:
    with closing(sqlite3.connect(Path(command.env["SANDBUR_HOME"]) / "sandbur.db")) as database, database:
        database.execute(statement)


def test_what_waits_is_shown_and_comes_along_once(here: Command, there: Command) -> None:
    session_id = waited_for(here, "run echo one", "run echo two")
    shown = here.run("sessions", "show", session_id).out
    with closing(Store.open(f"sqlite:///{here.env['SANDBUR_HOME']}/sandbur.db")) as store:
        (left,) = overview(store).messages
    assert (left.summary.id, left.texts) == (session_id, ("run echo one", "run echo two"))
    assert shown.endswith("\nwaits     queued: run echo one\nwaits     queued: run echo two\n")
    assert here.run("-p", "-r", session_id).code == 0
    assert waiting(here, session_id) == ["run echo two"]
    taken = taken_in(there, exported(here, session_id))
    assert (taken.code, "to be sent     run echo two" in taken.err) == (0, True)
    assert waiting(there, session_id) == ["run echo two"]
    assert there.run("sessions", "verify", session_id).code == 0
    assert there.run("steer", session_id, "and three").code == 0
    assert there.run("-p", "-r", session_id).code == 0
    assert waiting(there, session_id) == ["run echo two"]


def test_a_command_that_another_wrote_is_left_out(here: Command, there: Command) -> None:
    session_id = waited_for(here, "one", "two", "three")
    lines = exported(here, session_id)
    first, second, _ = (line for line in lines if line["kind"] == "inbox")
    first["text"], second["text"] = " /mode yolo", "!touch made"
    taken = taken_in(there, lines)
    assert taken.code == 0
    assert "  left out       the command" in taken.err
    assert "/mode yolo" in taken.err
    assert "the command !touch made" in taken.err
    assert waiting(there, session_id) == ["three"]


@pytest.mark.parametrize(
    "wrong", [{"n": 0}, {"n": "1"}, {"n": True}, {"how": "run"}, {"text": ""}, {"text": "x\0"}, {"n": 2}]
)
def test_a_message_that_cannot_be_is_refused(here: Command, there: Command, wrong: dict[str, Any]) -> None:
    lines = exported(here, waited_for(here, "one", "two"))
    next(line for line in lines if line["kind"] == "inbox").update(wrong)
    refused = taken_in(there, lines)
    assert (refused.code, "Nothing was imported." in refused.err) == (2, True)


def test_a_message_that_cannot_be_read_is_told_and_never_sent(here: Command) -> None:
    session_id = waited_for(here, "one", "two")
    changed(here, "UPDATE inbox SET body = 'x' WHERE n = 1")
    verified = here.run("sessions", "verify", session_id)
    assert (verified.code, "waiting message 1: cannot be read" in verified.out) == (1, True)
    assert "waiting message 1: cannot be read" in here.run("doctor").out
    assert waiting(here, session_id) == ["two"]


def test_it_goes_with_its_session(here: Command) -> None:
    deleted, pruned = waited_for(here, "one"), waited_for(here, "two")
    assert here.run("sessions", "delete", deleted).code == 0
    assert here.run("sessions", "prune", "--keep", "0", "--older-than", "0d").code == 0
    with closing(sqlite3.connect(Path(here.env["SANDBUR_HOME"]) / "sandbur.db")) as database:
        assert database.execute("SELECT COUNT(*) FROM inbox").fetchone() == (0,)
    assert pruned not in here.run("sessions", "list").out
