"""A call whose outcome nobody knows is settled from outside, by one command."""

import json
from typing import Any

import pytest
from support.commands.command import Command, Ended
from support.commands.killed import effects, kill_in_command
from support.models.server import ModelServer, call, say

FORMAT = ("--output-format", "json")


@pytest.fixture
def session_id(command: Command) -> str:
    """A session that waits for what a person says about its only call."""
    return kill_in_command(command)


def stopped(command: Command, session_id: str) -> Any:
    """Carry the session on until it asks; return the call that it asks about."""
    ended = command.run("-p", "-r", session_id, *FORMAT)
    assert (ended.code, ended.result["status"]) == (3, "needs_decision")
    (pending,) = ended.result["pending"]
    return pending


def results(command: Command, session_id: str) -> list[tuple[str, str]]:
    """Return outcome and content of every result in the session."""
    view = json.loads(command.run("sessions", "show", session_id, "--json").out)
    blocks = (block for message in view["messages"] for block in message["blocks"])
    return [(block["outcome"], block["content"]) for block in blocks if block["kind"] == "tool_result"]


def test_a_run_that_was_killed_in_a_command_asks_what_came_of_it(command: Command, session_id: str) -> None:
    assert stopped(command, session_id)["kind"] == "outcome_unknown"
    said = command.run("-p", "-r", session_id)
    assert said.code == 3
    assert "Outcome unknown: " in said.err
    assert "$ echo half; echo x >> effects; sleep 600" in said.err
    assert f"folder:  {command.folder}" in said.err
    assert "started: 2" in said.err
    assert "output so far:\n      half" in said.err
    assert "because the agent was gone" in said.err
    call_id = stopped(command, session_id)["call_id"]
    for outcome in ("done", "failed", "rerun", "check"):
        assert f"sandbur settle {session_id} {call_id} --as {outcome}" in said.err
    assert "sandbur approve" not in said.err
    assert effects(command) == 1


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_what_the_person_says_is_what_the_model_reads(
    command: Command, session_id: str, outcome: str
) -> None:
    call_id = stopped(command, session_id)["call_id"]
    ended = command.run(
        "settle", session_id, call_id, "--as", outcome, "--result", "I looked: xyzzy", *FORMAT
    )
    assert (ended.code, ended.result["status"]) == (0, "done")
    ((_, content),) = results(command, session_id)
    assert "xyzzy" in content
    assert effects(command) == 1


def test_rerun_runs_it_once_more_and_no_oftener(command: Command) -> None:
    session_id = kill_in_command(command, "echo x >> effects; [ -e stop ] || { touch stop; sleep 600; }")
    ended = command.run("settle", session_id, "--as", "rerun", *FORMAT)
    assert (ended.code, ended.result["status"]) == (0, "done")
    assert effects(command) == 2
    assert command.run("settle", session_id, "--as", "rerun").code == 2
    assert effects(command) == 2


def test_the_start_of_a_call_id_is_enough_and_a_wrong_one_is_told(command: Command, session_id: str) -> None:
    call_id = stopped(command, session_id)["call_id"]
    wrong = command.run("settle", session_id, "nothing", "--as", "done")
    assert wrong.code == 2
    assert f"These calls wait: {call_id}." in wrong.err
    assert command.run("settle", session_id, call_id[:8], "--as", "done").code == 0


@pytest.mark.parametrize("words", [["approve"], ["deny"], ["approve", "--all"]])
def test_an_unknown_outcome_is_neither_approved_nor_denied(
    command: Command, session_id: str, words: list[str]
) -> None:
    call_id = stopped(command, session_id)["call_id"]
    ended = command.run(words[0], session_id, *words[1:])
    assert ended.code == 2
    assert "its outcome is unknown" in ended.err
    assert f"Settle it: sandbur settle {session_id} {call_id}" in ended.err
    assert ended.err.splitlines()[1:] == [f"Resume with: sandbur -r {session_id}"]
    assert effects(command) == 1


def test_a_call_that_waits_for_an_approval_is_not_settled(command: Command) -> None:
    asked = command.run("-p", "run touch made", "-m", "demo", *FORMAT)
    session_id = asked.result["session_id"]
    ended = command.run("settle", session_id, "--as", "done")
    assert ended.code == 2
    assert "it waits for an approval" in ended.err
    assert f"sandbur approve {session_id}" in ended.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["x", "c"], "needs --as"),
        (["x", "c", "--as", "perhaps"], "`perhaps` is not a known value"),
        (["x", "c", "--as", "rerun", "--result", "y"], "--result needs --as done, failed or check"),
        (["x", "a", "b", "--as", "done"], "one call at a time"),
        (["x", "--as", "done"], "There is no session 'x'"),
    ],
)
def test_a_settlement_that_does_not_fit_is_one_sentence(
    command: Command, words: list[str], problem: str
) -> None:
    ended = command.run("settle", *words)
    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_decision_can_be_recorded_without_the_key_of_the_provider(command: Command) -> None:
    with ModelServer([call("run_shell_command", command="echo x >> effects"), say("good")]) as server:
        keys = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        asked = command.run("-p", "go", "-m", "anthropic/claude-test", *FORMAT, **keys)
        session_id = asked.result["session_id"]
        assert asked.result["status"] == "needs_approval"
        recorded = command.run("approve", session_id, "--all", "--record-only", *FORMAT)
        assert (recorded.code, recorded.result["status"]) == (0, "interrupted")
        assert "sandbur resume --due" in recorded.err
        assert effects(command) == 0
        later = command.run("resume", "--due", **keys)
        assert (later.code, later.out.split()) == (0, [session_id, "done", "go"])
        assert effects(command) == 1


def test_a_recorded_settlement_counts_when_the_run_goes_on(command: Command, session_id: str) -> None:
    recorded = command.run("settle", session_id, "--as", "done", "--record-only", *FORMAT)
    assert (recorded.code, recorded.result["status"], recorded.result["pending"]) == (0, "interrupted", [])
    ended = command.run("-p", "-r", session_id, *FORMAT)
    assert (ended.code, ended.result["status"]) == (0, "done")
    assert effects(command) == 1


def test_the_stream_says_what_kind_of_decision_is_needed(command: Command, session_id: str) -> None:
    lines = command.run("-p", "-r", session_id, "--output-format", "stream-json").lines
    (approval,) = [line for line in lines if line["type"] == "approval"]
    assert [pending["kind"] for pending in approval["pending"]] == ["outcome_unknown"]
    assert lines[-1]["status"] == "needs_decision"


def test_a_session_that_waits_is_shown_with_what_it_waits_for(command: Command, session_id: str) -> None:
    call_id = stopped(command, session_id)["call_id"]
    shown = command.run("sessions", "show", session_id)
    assert "Outcome unknown" in shown.out
    assert f"sandbur settle {session_id} {call_id} --as done" in shown.out


def test_output_with_control_sequences_is_shown_harmless(command: Command) -> None:
    shell = r"printf '\033]52;c;eA==\007half'; echo x >> effects; sleep 600"
    session_id = kill_in_command(command, shell)
    said: Ended = command.run("-p", "-r", session_id)
    assert "half" in said.err
    assert "\x1b" not in said.err


def test_the_model_can_be_asked_to_find_out_and_nothing_runs_again(command: Command, session_id: str) -> None:
    call_id = stopped(command, session_id)["call_id"]
    told = command.run("settle", session_id, call_id, "--as", "check", "--result", "see effects", *FORMAT)
    assert told.result["status"] == "done"
    ((outcome, content),) = results(command, session_id)
    assert outcome == "unknown"
    for part in ("asks you to find out", "tools that only read", "half", "The user adds: see effects"):
        assert part in content
    assert effects(command) == 1
    verified = command.run("sessions", "verify", session_id)
    assert verified.code == 0, verified.out
    assert "check" in command.run("sessions", "verify", session_id, "-v").out
