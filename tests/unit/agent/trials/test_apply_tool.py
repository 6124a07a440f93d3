"""The call `apply_trial`: judged like writes of its files, recorded, and taken back by an undo."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.samples.trial_folders import list_files, make_ended_trial
from support.stores.audits import breaches
from support.stores.reopening import reopen

from sandbur.actions.ports import Prepared, ToolContext
from sandbur.actions.ports.events import RunFinished, ToolFinished, ToolStarted
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.time_travel.branches import restore_files
from sandbur.agent.review.trials.applying.record import ApplyRecord, forbid_calls
from sandbur.agent.review.trials.applying.tool import NAME, ApplyTool
from sandbur.agent.review.trials.trial import TrialPlace
from sandbur.agent.sdk.runs.pending import PendingToolCall
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store
from sandbur.ui.headless.json_output import pending_objects
from sandbur.ui.terminal.lines import whole

OLD = {"one.txt": "one\n", "two.txt": "two\n"}
NEW = {"new/three.txt": "three\n", "one.txt": "ONE\n"}


def change(copy: Path) -> None:
    (copy / "one.txt").write_text("ONE\n")
    (copy / "two.txt").unlink()
    (copy / "new").mkdir()
    (copy / "new/three.txt").write_text("three\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    return folder


async def open_with_tool(
    store: Store, workspace: Path, model: ScriptedModel | None = None, is_listed: bool = False, **options: Any
) -> Session:
    tool = ApplyTool(workspace.parent / "home", is_listed)
    mode = options.pop("mode", "interactive")
    toolbox = {**builtin_tools(), NAME: tool}
    return await open_real(store, model or ScriptedModel(), workspace, mode=mode, toolbox=toolbox, **options)


def order(session: Session, **arguments: Any) -> Any:
    return session.run_tool(NAME, json.dumps({"trial": "t1", **arguments}), "Apply trial t1")


def results(events: list[Any]) -> list[tuple[str, str]]:
    return [(one.outcome, one.content) for one in events if isinstance(one, ToolFinished)]


async def test_a_persons_apply_runs_unasked_without_a_model_and_is_recorded(
    store: Store, home: Path, workspace: Path
) -> None:
    make_ended_trial(home, workspace, change)
    model = ScriptedModel("I see")
    session = await open_with_tool(store, workspace, model)
    events, end = await collect(order(session))
    assert results(events) == [("ok", "Applied the trial t1: 1 file added, 1 file changed, 1 file removed.")]
    assert (end.status, model.requests, list_files(workspace)) == ("done", [], NEW)
    assert TrialPlace(home, "t1").load().state == "applied"
    await collect(session.send("what did I do?"))
    ran, _ = model.requests[0].messages
    assert next(iter(session.state.chat_history)).display_text == "apply_trial t1"
    assert ran.for_model.text.startswith("I ran apply_trial myself, with these arguments:")
    assert "1 file added" in ran.for_model.text
    assert not breaches(store)
    found = await replay(store, "s1")
    assert found.divergence is None, found.divergence


async def test_an_undo_takes_it_back_whole(store: Store, home: Path, workspace: Path) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace)
    await collect(order(session))
    await restore_files(store, "s1", -1, "s1")
    assert list_files(workspace) == OLD
    assert not (workspace / "new").exists()


async def test_an_undo_of_one_call_leaves_the_other_calls_alone(
    store: Store, home: Path, workspace: Path
) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace)
    await collect(order(session))
    [apply_call] = [message.tool_uses[0].call_id for message in session.state.chat_history]
    write = ScriptedModel([("write_file", {"path": "other.txt", "content": "other\n"})], "done")
    again = await open_with_tool(reopen(store), workspace, write)
    again.change_mode("yolo")
    await collect(again.send("write"))
    await restore_files(again.store, "s1", -1, "s1", call_id=apply_call)
    assert list_files(workspace) == {**OLD, "other.txt": "other\n"}


@pytest.mark.parametrize("rule", ["write_file(one.txt)", "edit_file(*.txt)", "apply_trial(t1)", "write_file"])
async def test_deny_rules_for_writing_files_hold_for_an_apply(
    store: Store, home: Path, workspace: Path, rule: str
) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace, mode="yolo", deny=(rule,))
    events, end = await collect(order(session))
    assert [outcome for outcome, _ in results(events)] == ["denied"]
    assert (end.status, list_files(workspace)) == ("denied", OLD)


async def test_a_protected_place_is_asked_about_and_the_approval_resumes(
    store: Store, home: Path, workspace: Path
) -> None:
    def configure(copy: Path) -> None:
        change(copy)
        (copy / ".sandbur").mkdir()
        (copy / ".sandbur/config.toml").write_text("mode = 'yolo'\n")

    make_ended_trial(home, workspace, configure)
    session = await open_with_tool(store, workspace)
    _, end = await collect(order(session))
    assert (end.status, list_files(workspace)) == ("needs_approval", OLD)
    again = await open_with_tool(reopen(store), workspace)
    [waiting] = again.state.calls_to_decide
    events, end = await collect(again.decide([CallDecision(call_id=waiting.call_id, approved=True)]))
    assert [outcome for outcome, _ in results(events)] == ["ok"]
    assert (workspace / ".sandbur/config.toml").read_text() == "mode = 'yolo'\n"


async def test_an_approval_is_void_once_the_difference_changed(
    store: Store, home: Path, workspace: Path
) -> None:
    trial = make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace, ask=("apply_trial",))
    await collect(order(session))
    (Path(trial.folders[0].copy_path) / "one.txt").write_text("something else\n")
    [waiting] = session.state.calls_to_decide
    _, end = await collect(session.decide([CallDecision(call_id=waiting.call_id, approved=True)]))
    assert (end.status, list_files(workspace)) == ("needs_approval", OLD)
    [waiting] = session.state.calls_to_decide
    assert "the difference of the trial t1 has changed" in waiting.reason


async def test_a_question_shows_the_files_with_their_differences_everywhere(
    store: Store, home: Path, workspace: Path
) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace, ask=("apply_trial",))
    _, end = await collect(order(session))
    assert end.status == "needs_approval"
    [call] = session.state.calls_to_decide
    for shown in (
        call.changes,
        session.waiting.describe(call).changes,
        PendingToolCall.of(end.pending[0]).changes,
        pending_objects([call])[0]["changes"],
        "\n".join(line.strip() for line in whole(call, str(workspace))),
    ):
        assert "3 files, +2 -2:" in shown
        assert "-one\n+ONE" in shown
        assert "removed: two.txt" in shown
    _, end = await collect(session.decide([CallDecision(call_id=call.call_id, approved=True)]))
    assert (end.status, list_files(workspace)) == ("done", NEW)


async def test_a_long_difference_is_shortened_in_the_question(
    store: Store, home: Path, workspace: Path
) -> None:
    def write_much(copy: Path) -> None:
        for number in range(150):
            (copy / f"{number:03}.txt").write_text(f"line of {number}\n" * 50)

    make_ended_trial(home, workspace, write_much)
    session = await open_with_tool(store, workspace, ask=("apply_trial",))
    await collect(order(session))
    [call] = session.state.calls_to_decide
    assert len(call.changes) < 30_000
    assert "added: 099.txt (+50 -0)\nand 50 more files" in call.changes


async def test_a_conflict_writes_nothing_unless_the_person_chooses(
    store: Store, home: Path, workspace: Path
) -> None:
    make_ended_trial(home, workspace, change)
    (workspace / "one.txt").write_text("mine\n")
    session = await open_with_tool(store, workspace)
    events, _ = await collect(order(session))
    [(outcome, text)] = results(events)
    assert outcome == "error"
    assert "one.txt: it was changed since the trial began" in text
    assert list_files(workspace) == {**OLD, "one.txt": "mine\n"}
    events, _ = await collect(order(session, skip_conflicts=True))
    assert [outcome for outcome, _ in results(events)] == ["ok"]
    assert list_files(workspace) == {**NEW, "one.txt": "mine\n"}


async def test_no_model_may_call_it_unless_it_is_listed(store: Store, home: Path, workspace: Path) -> None:
    make_ended_trial(home, workspace, change)
    model = ScriptedModel([(NAME, {"trial": "t1"})], "done")
    session = await open_with_tool(store, workspace, model, mode="yolo")
    events, _ = await collect(session.send("apply it"))
    assert [outcome for outcome, _ in results(events)] == ["error"]
    assert NAME not in [tool.name for tool in model.requests[0].tools]
    assert list_files(workspace) == OLD


@pytest.mark.parametrize(("mode", "status"), [("interactive", "needs_approval"), ("auto-edit", "done")])
async def test_a_models_call_is_judged_like_writes_of_the_files(
    store: Store, home: Path, workspace: Path, mode: Any, status: str
) -> None:
    make_ended_trial(home, workspace, change)
    model = ScriptedModel([(NAME, {"trial": "t1"})], "done")
    session = await open_with_tool(store, workspace, model, is_listed=True, mode=mode)
    _, end = await collect(session.send("apply it"))
    assert end.status == status
    assert list_files(workspace) == (NEW if status == "done" else OLD)


async def test_an_unknown_trial_and_contradicting_arguments_are_named(
    store: Store, home: Path, workspace: Path
) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace)
    await collect(order(session, trial="x9"))
    await collect(order(session, merge=True, skip_conflicts=True))
    unknown, contradicting = (message.for_model.text for message in session.state.chat_history)
    assert "There is no trial `x9`" in unknown
    assert "`merge` and `skip_conflicts` contradict each other" in contradicting
    assert list_files(workspace) == OLD
    plain = await open_real(store, ScriptedModel(), workspace, session_id="s2")
    with pytest.raises(UsageError, match="has no tool apply_trial"):
        plain.run_tool(NAME, "{}", "Apply")


async def test_an_interrupted_apply_stays_open_and_the_next_run_ends_it(
    store: Store, home: Path, workspace: Path
) -> None:
    def write_many(copy: Path) -> None:
        for number in range(200):
            (copy / f"{number}.txt").write_text("new\n")

    make_ended_trial(home, workspace, write_many)
    session = await open_with_tool(store, workspace)
    status = ""
    async for event in order(session):
        if isinstance(event, ToolStarted):
            await session.interrupt()
        status = event.status if isinstance(event, RunFinished) else status
    assert status in ("interrupted", "done")
    again = await open_with_tool(reopen(store), workspace)
    if again.state.pending_tool_calls:
        _, end = await collect(again.carry_on())
        assert end.status == "done"
    assert len(list_files(workspace)) == 202
    assert TrialPlace(home, "t1").load().state == "applied"
    assert not breaches(again.store)


async def test_a_trial_in_use_is_not_applied(store: Store, home: Path, workspace: Path) -> None:
    make_ended_trial(home, workspace, change)
    session = await open_with_tool(store, workspace)
    with TrialPlace(home, "t1").hold():
        events, _ = await collect(order(session))
    [(outcome, text)] = results(events)
    assert outcome == "error"
    assert "Nothing was written: Another process works in trial t1." in text
    assert list_files(workspace) == OLD


async def test_a_trial_of_which_a_file_was_not_written_is_not_applied(home: Path, workspace: Path) -> None:
    trial = make_ended_trial(home, workspace, change)
    tool = ApplyTool(home)
    order = tool.parse('{"trial": "t1"}')
    context = ToolContext("c1", workspace, lambda text: None, session_id="s1")
    prepared = await tool.prepare(order, context)
    assert isinstance(prepared, Prepared)
    (Path(trial.folders[0].copy_path) / "one.txt").write_text("another\n")
    found = await tool.run(order, replace(context, prepared=prepared))
    assert found.outcome == "error"
    assert "one.txt: the trial changed it meanwhile" in found.content
    assert TrialPlace(home, "t1").load().state == "ended"
    [left] = found.changed.changes
    assert (left.path, left.after) == (str(workspace / "one.txt"), left.before)


async def test_a_call_that_an_undo_took_back_writes_nothing(home: Path, workspace: Path) -> None:
    make_ended_trial(home, workspace, change)
    record = ApplyRecord(state="writing", session_id="s1", call_id="c1")
    forbid_calls(TrialPlace(home, "t1").folder, record)
    tool = ApplyTool(home)
    context = ToolContext("c1", workspace, lambda text: None, session_id="s1")
    found = await tool.run(tool.parse('{"trial": "t1"}'), context)
    assert (found.outcome, list_files(workspace)) == ("error", OLD)
    assert "an undo took this apply back" in found.content
