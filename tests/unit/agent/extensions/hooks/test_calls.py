"""What hooks say of calls: it is judged with the gate, recorded with the call, and never asked again."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.stores.histories import assert_every_call_is_answered, results
from support.stores.reopening import reopen

from sandbur.actions.ports.events import Event, Notice, RunFinished, ToolRequested
from sandbur.agent.history.replay.replay import replay
from sandbur.state.calls import CallDecision, HookVerdict, PendingCall
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.deltas import void_approvals
from sandbur.state.store.store import Store

WRITE = [("write_file", {"path": "a.txt", "content": "one"})]
LOOK = [("list_directory", {"path": "."})]


def hook(command: str, matcher: str = "", **more: Any) -> list[dict[str, Any]]:
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}]


def says(**specific: Any) -> str:
    """Return a command that prints this as the answer to an event of a tool."""
    return f"cat >/dev/null; echo '{json.dumps({'hookSpecificOutput': specific})}'"


def decides(decision: str, reason: str = "because") -> str:
    return says(permissionDecision=decision, permissionDecisionReason=reason)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


async def run(
    store: Store, folder: Path, hooks: dict[str, Any], *turns: Any, **options: Any
) -> tuple[list[Event], RunFinished, Any]:
    session = await open_real(store, ScriptedModel(*turns), folder, hooks=hooks, **options)
    events, end = await collect(session.send("go"))
    return events, end, session


def said(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, Notice)]


async def test_a_hook_is_given_the_call_as_other_agents_give_it(store: Store, folder: Path) -> None:
    await run(store, folder, {"PreToolUse": hook("cat > given.json")}, WRITE, "done")
    given = json.loads((folder / "given.json").read_text())
    assert given == {
        "session_id": "s1",
        "transcript_path": "",
        "cwd": str(folder),
        "permission_mode": "bypassPermissions",
        "hook_event_name": "PreToolUse",
        "tool_name": "write_file",
        "tool_input": {"path": "a.txt", "content": "one"},
        "tool_use_id": "c1_0",
    }


async def test_a_hook_that_ends_with_two_denies_and_the_model_reads_why(store: Store, folder: Path) -> None:
    hooks = {"PreToolUse": hook("echo not in this house >&2; exit 2")}
    _, end, session = await run(store, folder, hooks, WRITE, "done")
    denied = "Denied by a hook of the user: not in this house. It did not run."
    assert results(session.state.chat_history) == [("denied", denied)]
    assert not (folder / "a.txt").exists()
    assert (end.status, end.exit_code) == ("denied", 3)
    rows = store.database.query("SELECT body FROM calls WHERE move = 'proposed'")
    recorded = json.loads(rows[0][0])
    assert (recorded["decision"], recorded["decided_by"], recorded["reason"]) == (
        "denied",
        "hook",
        "not in this house",
    )


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        (["allow", "ask", "deny"], "denied"),
        (["allow", "ask"], "needs_approval"),
        (["allow", "allow"], "done"),
    ],
)
async def test_of_several_hooks_the_strictest_counts(
    store: Store, folder: Path, decisions: list[str], expected: str
) -> None:
    groups = [group for one in decisions for group in hook(decides(one))]
    _, end, _ = await run(store, folder, {"PreToolUse": groups}, WRITE, "done", mode="interactive")
    assert end.status == expected


async def test_a_question_of_a_hook_holds_in_yolo_mode_and_a_person_answers_it(
    store: Store, folder: Path
) -> None:
    hooks = {"PreToolUse": hook(decides("ask", "look at it"), "write_file")}
    _, end, _ = await run(store, folder, hooks, WRITE, "done")
    assert [(call.tool, call.reason) for call in end.pending] == [
        ("write_file", "a hook says ask: look at it")
    ]
    again = await open_real(reopen(store), ScriptedModel("done"), folder)
    _, end = await collect(again.carry_on())
    assert end.status == "needs_approval"
    _, end = await collect(again.decide([CallDecision(call_id=end.pending[0].call_id, approved=True)]))
    assert (end.status, (folder / "a.txt").read_text()) == ("done", "one")


async def test_what_a_hook_allows_passes_where_only_the_mode_asks(store: Store, folder: Path) -> None:
    hooks = {"PreToolUse": hook(decides("allow"), "write_file")}
    _, end, _ = await run(store, folder, hooks, WRITE, "done", mode="interactive")
    assert (end.status, (folder / "a.txt").read_text()) == ("done", "one")


PROTECTED = [("write_file", {"path": ".git/hooks/pre-commit", "content": "x"})]
CATASTROPHE = [("run_shell_command", {"command": "rm -rf ~"})]


@pytest.mark.parametrize(
    ("wish", "rules", "expected"),
    [
        (WRITE, {"deny": ("write_file",)}, "denied"),
        (WRITE, {"ask": ("write_file",)}, "needs_approval"),
        (PROTECTED, {}, "needs_approval"),
        (CATASTROPHE, {}, "needs_approval"),
    ],
)
async def test_what_a_hook_allows_overrides_no_rule_protected_place_or_catastrophe(
    store: Store, folder: Path, wish: Any, rules: Any, expected: str
) -> None:
    hooks = {"PreToolUse": hook(decides("allow")), "PermissionRequest": hook(decides("allow"))}
    _, end, _ = await run(store, folder, hooks, wish, "done", mode="interactive", **rules)
    assert end.status == expected


async def test_a_hook_changes_the_arguments_before_anything_is_judged_or_recorded(
    store: Store, folder: Path
) -> None:
    other = says(updatedInput={"path": "b.txt", "content": "two"})
    hooks = {"PreToolUse": hook(other, "write_file")}
    events, end, session = await run(store, folder, hooks, WRITE, "done", deny=("write_file(a.txt)",))
    assert (end.status, (folder / "b.txt").read_text()) == ("done", "two")
    changed = json.dumps({"path": "b.txt", "content": "two"})
    assert [e.arguments for e in events if isinstance(e, ToolRequested)] == [changed]
    assert "A hook changed the arguments of write_file (c1_0)." in said(events)
    [(outcome, content)] = results(session.state.chat_history)
    assert outcome == "ok"
    assert content.startswith(f"(a hook of the user edited this call: {changed})\n")


async def test_arguments_of_a_hook_are_judged_like_any_others(store: Store, folder: Path) -> None:
    hooks = {"PreToolUse": hook(says(updatedInput={"path": "b.txt", "content": "two"}))}
    _, end, _ = await run(store, folder, hooks, WRITE, "done", deny=("write_file(b.txt)",))
    assert end.status == "denied"
    assert not (folder / "b.txt").exists()


async def test_arguments_that_fit_no_tool_are_an_error_for_the_model(store: Store, folder: Path) -> None:
    hooks = {"PreToolUse": hook(says(updatedInput={"nonsense": 1}))}
    _, _, session = await run(store, folder, hooks, WRITE, "done")
    [(outcome, content)] = results(session.state.chat_history)
    assert outcome == "error"
    assert "path" in content


async def test_a_question_may_be_answered_by_a_hook(store: Store, folder: Path) -> None:
    hooks = {"PermissionRequest": hook(decides("allow", "known good"), "Write|write_file")}
    _, end, _ = await run(store, folder, hooks, WRITE, "done", mode="interactive")
    assert (end.status, (folder / "a.txt").read_text()) == ("done", "one")


async def test_a_question_that_a_hook_denies_is_not_asked(store: Store, folder: Path) -> None:
    answer = says(decision={"behavior": "deny", "message": "never"})
    _, end, session = await run(
        store, folder, {"PermissionRequest": hook(answer)}, WRITE, "done", mode="interactive"
    )
    assert end.status == "denied"
    assert results(session.state.chat_history) == [
        ("denied", "Denied by a hook of the user: never. It did not run.")
    ]


async def test_a_hook_adds_to_a_result_before_it_is_recorded(store: Store, folder: Path) -> None:
    hooks = {
        "PreToolUse": hook(says(additionalContext="mind the gap")),
        "PostToolUse": hook(says(additionalContext="formatted")),
        "PostToolUseFailure": hook("cat > failed.json"),
    }
    _, _, session = await run(store, folder, hooks, WRITE, "done")
    [(outcome, content)] = results(session.state.chat_history)
    assert outcome == "ok"
    assert content.endswith("[A hook of the user says: mind the gap\nformatted]")
    assert not (folder / "failed.json").exists()


async def test_a_call_that_failed_is_another_event(store: Store, folder: Path) -> None:
    hooks = {"PostToolUseFailure": hook("cat > failed.json"), "PostToolUse": hook("touch never")}
    await run(store, folder, hooks, [("read_file", {"path": "none"})], "done")
    given = json.loads((folder / "failed.json").read_text())
    assert given["tool_response"]["outcome"] == "error"
    assert given["duration_ms"] >= 0
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("matcher", "runs"), [("Bash", True), ("run_shell.*", True), ("*", True), ("shel", False)]
)
async def test_a_matcher_is_about_the_whole_name_and_other_names_of_a_tool(
    store: Store, folder: Path, matcher: str, runs: bool
) -> None:
    shell = [("run_shell_command", {"command": "true"})]
    await run(store, folder, {"PreToolUse": hook("touch ran", matcher)}, shell, "done")
    assert (folder / "ran").exists() is runs


async def test_hooks_run_at_once(store: Store, folder: Path) -> None:
    # Each waits for the other.
    meet = "touch {0}; for i in $(seq 100); do test -e {1} && exit 0; sleep 0.1; done; exit 2"
    groups = [*hook(meet.format("x", "y")), *hook(meet.format("y", "x"))]
    _, end, _ = await run(store, folder, {"PreToolUse": groups}, WRITE, "done")
    assert end.status == "done"


BROKEN = {
    "exit 3": "it ended with 3",
    "echo oops >&2; exit 1": "it ended with 1: oops",
    "echo '{broken'": "its output is not valid JSON",
    'echo \'{"hookSpecificOutput": {"permissionDecision": "perhaps"}}\'': (
        "`hookSpecificOutput.permissionDecision` of its output does not fit"
    ),
    'echo \'{"continue": "no"}\'': "`continue` of its output does not fit",
    "/nowhere/at/all": "it ended with 127",
    "head -c 3000000 /dev/zero": "it wrote more than",
}


@pytest.mark.parametrize("command", BROKEN)
async def test_a_hook_that_fails_is_told_and_the_call_goes_on(
    store: Store, folder: Path, command: str
) -> None:
    events, end, _ = await run(store, folder, {"PreToolUse": hook(command)}, WRITE, "done")
    assert (end.status, (folder / "a.txt").read_text()) == ("done", "one")
    told = [text for text in said(events) if text.startswith("The hook `")]
    assert len(told) == 1
    assert f"(PreToolUse) failed: {BROKEN[command]}" in told[0]


@pytest.mark.parametrize("command", ["exit 3", "echo '{broken'"])
async def test_a_hook_that_fails_refuses_where_the_configuration_says_so(
    store: Store, folder: Path, command: str
) -> None:
    _, end, _ = await run(store, folder, {"PreToolUse": hook(command, onFailure="block")}, WRITE, "done")
    assert end.status == "denied"
    assert not (folder / "a.txt").exists()


async def test_a_hook_that_takes_too_long_is_stopped_with_all_that_it_started(
    store: Store, folder: Path
) -> None:
    slow = "sleep 60 & echo $! > pid; sleep 60"
    events, end, _ = await run(store, folder, {"PreToolUse": hook(slow, timeout=0.5)}, WRITE, "done")
    assert end.status == "done"
    assert any("it took longer than 0.5 s" in text for text in said(events))
    assert not Path(f"/proc/{(folder / 'pid').read_text().strip()}").exists()


async def test_a_hook_may_end_the_run_and_the_step_is_kept(store: Store, folder: Path) -> None:
    stop = 'echo \'{"continue": false, "stopReason": "enough for today"}\''
    _, end, session = await run(store, folder, {"PostToolUse": hook(stop)}, WRITE, "done")
    assert end.error is not None
    assert (end.error.message, end.exit_code) == ("A hook ended the run: enough for today", 3)
    assert results(session.state.chat_history)[0][0] == "ok"
    again = await open_real(reopen(store), ScriptedModel("done"), folder)
    _, end = await collect(again.carry_on())
    assert end.status == "done"


async def test_secrets_are_in_nothing_that_a_hook_reads_or_says(store: Store, folder: Path) -> None:
    secret = "tr0ub4dor-and-3"
    env = {"DB_PASSWORD": secret}
    wish = [("write_file", {"path": "a.txt", "content": f"password is {secret}"})]
    leaks = f"cat > given.json; echo 'it is {secret}' >&2; exit 2"
    _, _, session = await run(store, folder, {"PreToolUse": hook(leaks)}, wish, "done", env=env)
    assert secret not in (folder / "given.json").read_text()
    [(_, content)] = results(session.state.chat_history)
    assert "it is [masked value of DB_PASSWORD]" in content


async def test_the_record_of_a_call_that_a_hook_changed_is_sound(store: Store, folder: Path) -> None:
    other = says(updatedInput={"path": "b.txt", "content": "two"})
    await run(store, folder, {"PreToolUse": hook(other, "write_file")}, WRITE, "done")
    assert audit(store.database, ["s1"]).breaches == ()
    rows = store.database.query("SELECT body FROM calls WHERE move = 'proposed'")
    assert json.loads(rows[0][0])["edited"] is True


async def test_the_question_about_a_changed_call_survives_its_process(store: Store, folder: Path) -> None:
    other = says(updatedInput={"path": "b.txt", "content": "two"})
    _, end, _ = await run(store, folder, {"PreToolUse": hook(other, "write_file")}, WRITE, mode="interactive")
    assert json.loads(end.pending[0].arguments) == {"path": "b.txt", "content": "two"}
    again = await open_real(reopen(store), ScriptedModel("done"), folder, mode="interactive")
    _, end = await collect(again.carry_on())
    assert json.loads(end.pending[0].arguments) == {"path": "b.txt", "content": "two"}
    _, end = await collect(again.decide([CallDecision(call_id=end.pending[0].call_id, approved=True)]))
    assert (end.status, (folder / "b.txt").read_text()) == ("done", "two")
    assert (await replay(store, "s1")).is_same


def test_what_a_hook_allowed_elsewhere_is_not_allowed_here() -> None:
    call = PendingCall(
        call_id="c", tool="t", arguments="{}", decision="approved", decided_by="hook",
        hook=HookVerdict(decision="allow", reason="fine there"),
    )  # fmt: skip
    fields = void_approvals({"pending_tool_calls": [call.model_dump(mode="json")]})
    [taken] = [PendingCall.model_validate(one) for one in fields["pending_tool_calls"]]
    assert (taken.decision, taken.hook) == ("undecided", HookVerdict(reason="fine there"))


async def test_a_replay_runs_no_hook_and_comes_out_the_same(store: Store, folder: Path) -> None:
    edit = says(updatedInput={"path": "b.txt", "content": "two"}, permissionDecision="allow")
    hooks = {
        "UserPromptSubmit": hook("date +%N >> ran; echo the weather is fine"),
        "PreToolUse": [*hook(f"date >> ran; {edit}", "write_file"), *hook(decides("deny"), "list_directory")],
        "PostToolUse": hook(f"date >> ran; {says(additionalContext='noted')}"),
        "Stop": hook("date >> ran; echo not yet >&2; exit 2"),
    }
    _, end, session = await run(store, folder, hooks, WRITE, LOOK, "done", "really done", mode="interactive")
    assert end.result == "really done"
    ran = (folder / "ran").read_text()
    assert len(ran.splitlines()) == 5
    replayed = await replay(store, "s1")
    assert replayed.divergence is None, replayed.divergence
    assert (folder / "ran").read_text() == ran
    assert_every_call_is_answered(session.state.chat_history)
