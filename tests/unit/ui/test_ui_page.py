"""The page about the browser says what is so: commands, buttons, and where things are."""

import re
import shlex

import pytest
from support.places import ROOT

from sandbur.state.application import ApplicationState
from sandbur.state.calls import PendingCall
from sandbur.state.session import SessionSummary
from sandbur.ui.cli.arguments import parse
from sandbur.ui.web.page import page
from sandbur.ui.web.waiting_approvals import (
    LeftMessages,
    Overview,
    ParkedSession,
    StoppedSession,
    WaitingSession,
    describe_waiting_call,
)

PAGE = (ROOT / "docs" / "ui.md").read_text("utf-8")
SUMMARY = SessionSummary("s1", "a title", "/w", "demo", "needs_approval", "", "", 1, None, None)


@pytest.mark.parametrize("line", re.findall(r"```sh\n(.*?)```", PAGE, re.S)[0].splitlines())
def test_a_command_of_the_page_can_be_typed(line: str) -> None:
    assert parse(shlex.split(line)[1:]).name == "ui"


def test_the_buttons_are_those_of_the_page() -> None:
    call = PendingCall(call_id="c1", tool="x", arguments="{}")
    calls = (call, call.model_copy(update={"kind": "outcome_unknown"}))
    session = WaitingSession(
        SUMMARY, ApplicationState().execution_mode, tuple(describe_waiting_call(one, "/w") for one in calls)
    )
    parked = (ParkedSession(SUMMARY, "Its process died 3 times in a row."),)
    text = page(Overview((session,), (), 0, 0, (), parked), "token")
    assert set(re.findall(r"<button[^>]*>([^<]+)<", text)) == {
        name for row in re.findall(r"^\| \*.*?\|", PAGE, re.M) for name in re.findall(r"\*(.+?)\*", row)
    }


def test_every_text_of_a_call_is_text_on_the_page() -> None:
    hostile = "<script>alert(1)</script>\u202e\x1b[31m"
    call = PendingCall(call_id=hostile, tool=hostile, arguments=hostile, reason=hostile)
    summary = SessionSummary(hostile, hostile, hostile, hostile, hostile, hostile, hostile, 1, None, None)
    session = WaitingSession(summary, "plan", (describe_waiting_call(call, hostile),))
    left = LeftMessages(summary, (hostile, hostile))
    stopped = (StoppedSession(summary), StoppedSession(summary, (hostile,)))
    parked = (ParkedSession(summary, hostile),)
    found = Overview((session,), stopped, 2, 3, (left,), parked)
    text = page(found, "token", note=hostile, problem=hostile)
    assert "Messages that wait" in text
    assert " and 1 more" in text
    assert "<script" not in text
    assert not re.search("[\u202e\x1b]", text)
    assert text.count("&lt;script&gt;") >= 6
