"""A plan that a person approved binds: what it names runs unasked, everything else asks."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.models.plans import FINISH, PROPOSAL, approve, open_with_plans, require_sound, run, write
from support.models.scripted import ScriptedModel, collect

from sandbur.state.application import ApplicationState
from sandbur.state.calls import CallDecision
from sandbur.state.store.deltas import void_approvals
from sandbur.state.store.store import Store


async def test_an_approved_plan_runs_what_it_names_without_a_question(store: Store, tmp_path: Path) -> None:
    turns = [
        PROPOSAL,
        write("out/a.txt"),
        run("echo hello world"),
        FINISH,
        write("second.txt"),
        FINISH,
        "Done.",
    ]
    session = await open_with_plans(store, tmp_path, ScriptedModel(*turns))
    _, waits = await collect(session.send("write two files"))
    assert waits.status == "needs_approval"
    _, end = await approve(session)
    assert (end.status, end.result) == ("done", "Done.")
    assert (tmp_path / "out/a.txt").read_text() == "text"
    assert (tmp_path / "second.txt").exists()
    assert session.state.execution_mode == "interactive"
    await require_sound(store, tmp_path)


@pytest.mark.parametrize("mode", ["interactive", "auto-edit"])
async def test_what_the_plan_does_not_name_asks(store: Store, tmp_path: Path, mode: Any) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("other.txt")), mode)
    await collect(session.send("write two files"))
    _, waits = await approve(session)
    (call,) = session.state.calls_to_decide
    assert (waits.status, call.tool) == ("needs_approval", "write_file")
    assert call.reason.startswith("outside the plan: ")
    assert not (tmp_path / "other.txt").exists()


async def test_an_ended_step_gives_its_permissions_back(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(PROPOSAL, FINISH, write("out/late.txt"))
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("write two files"))
    _, waits = await approve(session)
    assert waits.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")


async def test_a_failed_step_ends_the_plan_until_a_new_one_is_approved(store: Store, tmp_path: Path) -> None:
    failed = [("finish_step", {"status": "failed", "summary": "it cannot be written"})]
    again = [("propose_plan", {"plan": "# Write one file\n## Write it\n- writes: third.txt\n"})]
    model = ScriptedModel(PROPOSAL, failed, write("second.txt"), again, write("third.txt"), FINISH, "Done.")
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("write two files"))
    first = session.state.calls_to_decide[0].arguments
    await approve(session)
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    before = session.state.approved_plan
    (call,) = session.state.calls_to_decide
    await collect(session.decide([CallDecision(call_id=call.call_id, approved=False)]))
    assert session.state.calls_to_decide[0].arguments != first
    _, end = await approve(session)
    assert (end.status, session.state.approved_plan != before) == ("done", True)
    assert (tmp_path / "third.txt").exists()
    assert not (tmp_path / "second.txt").exists()
    await require_sound(store, tmp_path)


async def test_deny_and_ask_rules_and_protected_places_stay_above_the_plan(
    store: Store, tmp_path: Path
) -> None:
    plan = "# g\n## s\n- writes: .git/, a.txt, b.txt\n- runs: rm -rf build\n"
    turns = [
        [("propose_plan", {"plan": plan})],
        [*write("a.txt"), *write("b.txt"), *write(".git/config"), *run("rm -rf .")],
    ]
    rules = {"deny": ["write_file(a.txt)"], "ask": ["write_file(b.txt)"]}
    session = await open_with_plans(store, tmp_path, ScriptedModel(*turns), **rules)
    await collect(session.send("go"))
    await approve(session)
    decisions = [call.decision for call in session.state.pending_tool_calls]
    assert decisions == ["denied", "undecided", "undecided", "undecided"]


async def test_a_new_message_ends_the_plan(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("other.txt"), "Hello."))
    await collect(session.send("write two files"))
    await approve(session)
    await collect(session.send("hello"))
    assert session.state.plan_terms is None


async def test_words_never_approve_a_plan(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, "As you like."))
    await collect(session.send("write two files"))
    await collect(session.send("yes, go ahead"))
    assert session.state.approved_plan is None


async def test_an_edited_plan_is_the_one_that_binds(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("out/a.txt")))
    await collect(session.send("write two files"))
    (call,) = session.state.calls_to_decide
    narrower = '{"plan": "# Write one file\\n## Write it\\n- writes: only.txt"}'
    decision = CallDecision(call_id=call.call_id, approved=True, arguments=narrower)
    await collect(session.decide([decision]))
    assert session.state.current_goal == "Write one file"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")


async def test_an_edited_plan_that_cannot_be_read_still_waits(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL))
    await collect(session.send("write two files"))
    (call,) = session.state.calls_to_decide
    decision = CallDecision(call_id=call.call_id, approved=True, arguments='{"plan": "# a\\n# b"}')
    events, end = await collect(session.decide([decision]))
    assert end.status == "needs_approval"
    assert any("Line 2: a plan has one goal" in getattr(event, "message", "") for event in events)


async def test_an_imported_plan_allows_nothing(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("other.txt")))
    await collect(session.send("write two files"))
    await approve(session)
    assert session.state.plan_terms is not None
    assert session.state.plan_terms.rules
    fields = void_approvals(json.loads(session.state.model_dump_json()))
    terms = ApplicationState.model_validate(fields).plan_terms
    assert terms is not None
    assert terms.rules == ()


async def test_only_the_present_step_may_do_what_it_names(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("second.txt")))
    await collect(session.send("write two files"))
    _, waits = await approve(session)
    assert waits.status == "needs_approval"
    assert not (tmp_path / "second.txt").exists()


async def test_sub_agents_get_no_freer_mode_than_the_plan_leaves(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL, write("other.txt")), "auto-edit")
    await collect(session.send("write two files"))
    await approve(session)
    assert (session.state.execution_mode, session.state.mode_of_sub_agents) == ("auto-edit", "interactive")
