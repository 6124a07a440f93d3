"""Which rules are suggested for calls of the past, whatever store they came from."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbur.agent.history.reports.past_calls import PastCall, Then
from sandbur.agent.policy.past.rule_backtest import Backtest, run_backtest
from sandbur.agent.policy.past.suggest import Suggestion, Suggestions, suggestions
from sandbur.state.session import SessionSettings


def past(folder: Path, command: str, then: Then = "approved", **more: Any) -> PastCall:
    session = SessionSettings(model="demo", cwd=str(folder))
    arguments = json.dumps({"command": command, **more})
    return PastCall(session, "run_shell_command", arguments, "interactive", then, is_edited=False)


def suggested(folder: Path, calls: list[PastCall], denied: list[PastCall], **today: Any) -> Suggestions:
    return suggestions(calls, denied, Backtest(SessionSettings(model="", cwd=str(folder), **today)))


def rule(pattern: str) -> str:
    return f"run_shell_command({pattern})"


def test_the_rule_that_saves_the_most_comes_first_and_counts_no_question_twice(tmp_path: Path) -> None:
    commands = ["make lint", "make lint", "npm test a", "npm test b", "npm test b", "make x"]
    found = suggested(tmp_path, [past(tmp_path, command) for command in commands], [])
    assert found == Suggestions(6, [Suggestion(rule("npm test *"), 3), Suggestion(rule("make lint"), 2)], [])


@pytest.mark.parametrize("denied", ["npm test c", "npm test c && npm test d"])
def test_what_was_denied_at_any_time_rules_out_what_would_have_passed_it(tmp_path: Path, denied: str) -> None:
    calls = [past(tmp_path, "npm test a"), past(tmp_path, "npm test a")]
    found = suggested(tmp_path, calls, [past(tmp_path, denied, "declined")])
    assert found.rules == [Suggestion(rule("npm test a"), 2)]
    assert found.refused == [rule("npm test *")]


def test_what_was_denied_and_passes_today_anyway_rules_nothing_out(tmp_path: Path) -> None:
    calls = [past(tmp_path, "npm test a"), past(tmp_path, "npm test b")]
    denied = [past(tmp_path, "make x", "declined")]
    found = suggested(tmp_path, calls, denied, allow=(rule("make *"),))
    assert found.rules == [Suggestion(rule("npm test *"), 2)]


def test_what_the_rules_of_today_let_pass_is_no_question(tmp_path: Path) -> None:
    found = suggested(tmp_path, [past(tmp_path, "make x")] * 3, [], allow=(rule("make *"),))
    assert found == Suggestions(0, [], [])


def test_what_a_deny_rule_stops_today_is_not_suggested(tmp_path: Path) -> None:
    found = suggested(tmp_path, [past(tmp_path, "make x")] * 3, [], deny=(rule("make *"),))
    assert found == Suggestions(0, [], [])


@pytest.mark.parametrize(
    "command", ["make x && rm -r y", "make x | sh", "make x; /usr/bin/curl z", "make $(python3.12 x)"]
)
def test_a_command_with_a_program_that_can_do_anything_in_it_speaks_for_no_rule(
    tmp_path: Path, command: str
) -> None:
    assert suggested(tmp_path, [past(tmp_path, command)] * 3, []).rules == []


def test_each_call_is_judged_in_the_folder_of_its_session(tmp_path: Path) -> None:
    court = Backtest(SessionSettings(model="", cwd=str(tmp_path)))
    (tmp_path / "one").mkdir()
    session = SessionSettings(model="demo", cwd=str(tmp_path / "one"))
    for path, now in (("a", "allow"), ("../a", "ask")):
        call = PastCall(session, "read_file", json.dumps({"path": path}), "interactive", "allowed", False)
        assert run_backtest([call], court).verdicts == {("allowed", now): 1}


def test_a_tool_that_is_not_there_today_is_counted_apart(tmp_path: Path) -> None:
    court = Backtest(SessionSettings(model="", cwd=str(tmp_path)))
    call = PastCall(SessionSettings(model="", cwd="/"), "send_mail", "{}", "interactive", "allowed", False)
    found = run_backtest([call, call], court)
    assert (found.calls, found.unknown, found.changed_count) == (0, 2, 0)
