"""What a resumed chat says of where an interrupted run stopped."""

import json

import pytest
from support.commands.command import Command
from support.commands.killed import kill_in_command

from sandbur.state.store.store import Store
from sandbur.ui.chat.recap import format_recap, format_stop
from sandbur.ui.terminal.terminal import glyphs_for

FORMAT = ("--output-format", "json")


def told(command: Command, session_id: str) -> list[str]:
    """Return what is said of a session where it stands."""
    shown = json.loads(command.run("sessions", "show", session_id, "--json").out)
    store = Store.open(f"sqlite:///{command.folder / 'data/sandbur.db'}")
    view = store.show(session_id)
    lines = [*format_recap("name", view.state, glyphs_for("utf-8"))]
    lines += format_stop(store, session_id, view.state, shown["next_action"])
    store.close()
    return [text for _, text in lines]


def test_a_call_that_was_running_is_in_the_middle_and_enter_runs_nothing_twice(command: Command) -> None:
    lines = told(command, kill_in_command(command))
    assert "Resumed: name" in lines
    assert "In the middle: shell echo half; echo x >> effects; sleep 600" in lines
    assert "Enter checks the outcome, and asks you if it is unknown; nothing runs twice." in lines
    assert not any(line.startswith("Not begun") for line in lines)


def test_a_call_that_was_approved_and_has_not_begun_is_said_to_run(command: Command) -> None:
    asked = command.run("-p", "run touch made", "-m", "demo", *FORMAT).result
    command.run("approve", asked["session_id"], "--record-only")
    lines = told(command, asked["session_id"])
    assert "Not begun:     shell touch made" in lines
    assert "Enter runs the approved calls that have not begun." in lines
    assert not (command.folder / "made").exists()


@pytest.mark.parametrize(("value", "code"), [("go", 0), ("ask", 0), ("never", 52)])
def test_whether_the_chat_waits_is_a_setting(command: Command, value: str, code: int) -> None:
    assert command.run("config", "get", "resume", SANDBUR_RESUME=value).code == code
