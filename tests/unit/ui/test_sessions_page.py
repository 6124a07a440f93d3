"""The pages on sessions and approvals: their commands run, and they name every key and every state."""

import re

import pytest
from support.commands.command import Command
from support.places import ROOT

from sandbur.ui.chat.decisions.approvals import Approvals
from sandbur.ui.chat.decisions.settling import Settling
from sandbur.ui.chat.picker import STATES

SESSIONS = (ROOT / "docs/sessions.md").read_text("utf-8")
APPROVALS = (ROOT / "docs/approvals.md").read_text("utf-8")


def test_the_commands_of_the_page_run(command: Command) -> None:
    (block,) = re.findall(r"```bash\n(.*?)```", SESSIONS, re.S)
    for line in block.splitlines():
        words = [bare or quoted for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line)]
        assert words.pop(0) == "sandbur"
        ended = command.run(*words)
        assert ended.code == 0, ended.err


@pytest.mark.parametrize("key", [*Approvals.KEYS, *Settling.KEYS])
def test_every_key_of_a_question_is_on_the_page(key: str) -> None:
    assert f"| `{key}`" in APPROVALS


def test_the_states_that_wait_for_somebody_are_on_the_page() -> None:
    for status in ("needs_approval", "running", "interrupted"):
        assert f"| `{STATES[status][0]}` |" in SESSIONS
