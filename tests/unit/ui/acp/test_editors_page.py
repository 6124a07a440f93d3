"""The page about editors says what is so: commands, settings, modes, options, and what is offered."""

import json
import re
import shlex

import pytest
from support.places import ROOT

from sandbur.actions.turn.commands import MODES
from sandbur.state.calls import PendingCall
from sandbur.ui.acp.permission_questions import question_about
from sandbur.ui.chat.slash.table import editor_entries
from sandbur.ui.cli.arguments import parse

PAGE = (ROOT / "docs" / "editors.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("line", blocks("sh")[0].splitlines())
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    assert parse(shlex.split(line)[1:]).name == "acp"


@pytest.mark.parametrize("block", blocks("json"))
def test_a_setting_of_the_page_starts_the_command(block: str) -> None:
    (server,) = json.loads(block)["agent_servers"].values()
    assert server["command"].endswith("sandbur")
    assert parse(server["args"]).name == "acp"


def test_the_other_settings_name_the_same_command() -> None:
    for block in (*blocks("lua"), *blocks("elisp")):
        assert '"sandbur"' in block
        assert '"acp"' in block
        assert all(block.count(opened) == block.count(closed) for opened, closed in ("()", "{}"))


def test_the_modes_and_answers_of_the_page_are_those_that_are_offered() -> None:
    assert all(f"`{mode}`" in PAGE for mode in MODES)
    call = PendingCall(call_id="c1", tool="x", arguments="{}")
    unknown = call.model_copy(update={"kind": "outcome_unknown"})
    for option in (*question_about(call, ()).options, *question_about(unknown, ()).options):
        assert f"*{re.split('[:,]', option.name)[0]}*" in PAGE


def test_the_commands_of_the_page_are_those_of_the_list() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| commands |"))
    listed = row.partition(", those of")[0]
    assert re.findall(r"`/(\w+)`", listed) == [entry.name for entry in editor_entries()]
