"""The model revises, ends and reopens its plan by the tool `plan`; earlier plans are kept."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.stores.audits import breaches

from sandbur.actions.ports import Tool
from sandbur.actions.ports.events import PlanChanged, StepChanged
from sandbur.actions.tools.registry import builtin_tools
from sandbur.agent.history.replay.replay import replay
from sandbur.agent.history.replay.walk import Today
from sandbur.agent.review.plans.plan_tool import PlanTool
from sandbur.agent.review.plans.propose_plan import ProposePlan
from sandbur.agent.session.session import Session
from sandbur.state.application import ApplicationState
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.plan_notebook import MOST_PAST_PLANS
from sandbur.state.store.store import Store
from sandbur.ui.terminal.lines import end_lines

START = [("start_plan", {"goal": "Move the parser"})]
MADE = [("submit_plan", {"steps": [{"description": "Move it"}, {"description": "Test it"}]})]
DONE = [("finish_step", {"status": "completed", "summary": "it is done"})]


def plan(command: str, **arguments: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("plan", {"command": command, **arguments})]


def tools_of(folder: Path) -> dict[str, Tool]:
    return {**builtin_tools(), "plan": PlanTool(), "propose_plan": ProposePlan(folder)}


async def opened(store: Store, folder: Path, *turns: Any, mode: Any = "yolo") -> Session:
    return await open_real(store, ScriptedModel(*turns), folder, mode=mode, toolbox=tools_of(folder))


async def check_record(store: Store, folder: Path) -> None:
    """Check that the record is sound and that a replay computes the same states."""
    assert not breaches(store)
    found = await replay(store, "s1", today=Today(toolbox=tools_of(folder)))
    assert found.divergence is None, found.divergence


def statuses(state: ApplicationState) -> list[tuple[str, str]]:
    return [(step.description, step.status) for step in state.vibe_plan]


def results_of(session: Session) -> list[str]:
    steps = [message for step in session.state.vibe_plan for message in step.chat_history]
    messages = [*session.state.chat_history, *steps]
    return [one.content for message in messages for one in message.tool_results if one.tool == "plan"]


def sent_texts(session: Session) -> str:
    return "\n".join(message.text for message in session.state.chat_history)


async def test_a_revision_replaces_the_steps_that_have_not_begun(store: Store, tmp_path: Path) -> None:
    steps = "1. Run pytest => all tests pass\n- Write the notes"
    revise = plan("revise", steps=steps, expects="imports work")
    session = await opened(store, tmp_path, START, MADE, revise, DONE, DONE, DONE, "Moved.")
    events, end = await collect(session.send("move the parser"))
    assert (end.status, end.result) == ("done", "Moved.")
    assert statuses(session.state) == [
        ("Move it", "completed"),
        ("Run pytest", "completed"),
        ("Write the notes", "completed"),
    ]
    assert session.state.vibe_plan[1].expects == "all tests pass"
    assert session.state.plan_facts.expects == "imports work"
    changed = [event for event in events if isinstance(event, PlanChanged)]
    assert [len(event.steps) for event in changed] == [2, 3]
    await check_record(store, tmp_path)


async def test_abandoning_a_plan_ends_its_open_step_and_the_steps_after_it(
    store: Store, tmp_path: Path
) -> None:
    leave = plan("abandon", text="the parser is generated")
    session = await opened(store, tmp_path, START, MADE, leave, "I stopped.")
    events, end = await collect(session.send("move the parser"))
    assert (end.status, end.result) == ("goal_not_reached", "I stopped.")
    assert statuses(session.state) == [("Move it", "abandoned"), ("Test it", "abandoned")]
    ended = [(one.step_id, one.status) for one in events if isinstance(one, StepChanged)]
    assert ended == [("1", "in_progress"), ("1", "abandoned")]
    assert "Step 1 abandoned: the parser is generated" in sent_texts(session)
    await check_record(store, tmp_path)


async def test_finishing_a_plan_in_a_step_skips_the_rest_and_reaches_the_goal(
    store: Store, tmp_path: Path
) -> None:
    finish = plan("finish", text="it was moved already")
    session = await opened(store, tmp_path, START, MADE, finish, "All done.")
    _, end = await collect(session.send("move the parser"))
    assert (end.status, end.result) == ("done", "All done.")
    assert statuses(session.state) == [("Move it", "completed"), ("Test it", "abandoned")]
    assert session.state.plan_facts.outcome == "it was moved already"
    await check_record(store, tmp_path)


async def test_an_expected_outcome_is_compared_after_the_last_step(store: Store, tmp_path: Path) -> None:
    turns = [plan("revise", expects="imports work"), DONE, DONE, plan("finish", text="they do"), "Done."]
    session = await opened(store, tmp_path, START, MADE, *turns)
    _, end = await collect(session.send("move the parser"))
    assert (end.status, session.state.plan_facts.end) == ("done", "done")
    assert sent_texts(session).count("The expected outcome of the plan: imports work") == 1
    assert "[completed] Move it" in (await view_of(store, tmp_path))
    await check_record(store, tmp_path)


async def view_of(store: Store, folder: Path) -> str:
    session = await opened(store, folder, plan("history", number=1), "Seen.")
    await collect(session.send("which plans were there?"))
    return results_of(session)[-1]


async def test_an_interrupted_plan_is_offered_once_and_reopened_with_what_is_left(
    store: Store, tmp_path: Path
) -> None:
    failing = [[("no_such_tool", {})]] * 6
    session = await opened(store, tmp_path, START, MADE, DONE, *failing)
    await collect(session.send("move the parser"))
    assert session.state.turn_open
    turns = ["Hello.", plan("reopen", number=1), DONE, "Now it is done."]
    session = await opened(store, tmp_path, *turns)
    await collect(session.send("hello"))
    (left,) = session.state.past_plans
    assert (left.number, left.status, left.goal) == (1, "unfinished", "Move the parser")
    assert sent_texts(session).count("Plan 1 (Move the parser) was left with 1 steps to do") == 1
    _, end = await collect(session.send("go on with the plan"))
    assert (end.status, end.result) == ("done", "Now it is done.")
    assert statuses(session.state) == [("Move it", "completed"), ("Test it", "completed")]
    assert session.state.vibe_plan[0].analysis == "it is done"
    assert session.state.past_plans == ()
    assert sent_texts(session).count("was left with") == 1
    await check_record(store, tmp_path)


async def test_requests_only_grow_whatever_happens_to_the_plan(store: Store, tmp_path: Path) -> None:
    turns = [START, MADE, plan("revise", steps="Write", expects="a file"), DONE]
    turns += [plan("abandon", text="no"), "I stopped.", plan("reopen", number=1), DONE, "Done.", "Hello."]
    model = ScriptedModel(*turns)
    session = await open_real(store, model, tmp_path, toolbox=tools_of(tmp_path))
    for message in ("move the parser", "go on", "hello"):
        await collect(session.send(message))
    assert len(model.requests) == len(turns)
    fixed = {(request.system, tuple(spec.name for spec in request.tools)) for request in model.requests}
    assert len(fixed) == 1
    histories = [request.histories[0] for request in model.requests]
    sent = [[message.model_dump_json() for message in history] for history in histories]
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier


async def test_a_fork_has_the_plans_of_its_step(store: Store, tmp_path: Path) -> None:
    turns = [START, MADE, plan("abandon", text="no"), "Stopped.", "Hello.", plan("reopen", number=1), DONE]
    session = await opened(store, tmp_path, *turns, DONE, "Done.")
    await collect(session.send("move the parser"))
    ended = session.last_sequence
    await collect(session.send("hello"))
    filed = session.last_sequence
    await collect(session.send("go on"))
    assert session.state.past_plans == ()
    store.fork("s1", "at-end", ended)
    store.fork("s1", "at-hello", filed)
    at_end, at_hello = store.show("at-end").state, store.show("at-hello").state
    assert (statuses(at_end)[0], at_end.past_plans) == (("Move it", "abandoned"), ())
    assert (at_hello.vibe_plan, [one.status for one in at_hello.past_plans]) == ((), ["abandoned"])


async def test_a_session_of_an_older_version_keeps_no_earlier_plans(store: Store, tmp_path: Path) -> None:
    session = await opened(store, tmp_path, START, MADE, DONE, DONE, "Done.", "Hello.")
    session._position.change(graph_version=10)  # pyright: ignore[reportPrivateUsage]
    await collect(session.send("move the parser"))
    await collect(session.send("hello"))
    assert (session.state.past_plans, session.state.graph_version) == ((), 10)
    await check_record(store, tmp_path)


REFUSED: Sequence[tuple[Any, str]] = [
    (plan("revise", steps="a"), "There is no plan. start_plan begins one."),
    (plan("abandon", text="x"), "There is no plan. start_plan begins one."),
    (plan("reopen", number=4), "There is no earlier plan 4. The earlier plans are: none."),
    (plan("undo"), "plan: command must be one of view, history, revise, finish, abandon, reopen"),
    ([*plan("view"), ("glob", {"pattern": "*"})], "plan must be the only call of your message."),
]


@pytest.mark.parametrize(("call", "why"), REFUSED)
async def test_a_change_that_is_not_possible_gets_one_sentence(
    store: Store, tmp_path: Path, call: Any, why: str
) -> None:
    session = await opened(store, tmp_path, call, "I see.")
    await collect(session.send("go"))
    assert results_of(session)[0].startswith(why)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (plan("reopen", number=1), "A plan is open. Finish or abandon it first."),
        (plan("abandon"), "To abandon a plan, give the reason."),
        (plan("finish", text=" "), "To finish a plan, give the outcome."),
        (plan("revise"), "Give the steps that are still to do."),
        (plan("revise", steps="=> it works"), "steps: the line `=> it works` has no step"),
    ],
)
async def test_a_change_that_does_not_fit_an_open_plan_gets_one_sentence(
    store: Store, tmp_path: Path, call: Any, why: str
) -> None:
    session = await opened(store, tmp_path, START, MADE, call, plan("abandon", text="enough"), "I see.")
    await collect(session.send("go"))
    (step, _) = session.state.vibe_plan
    (first, *_) = [one for message in step.chat_history for one in message.tool_results]
    assert first.content.startswith(why)


@pytest.mark.parametrize("mode", ["interactive", "plan", "auto-edit"])
async def test_the_notebook_needs_no_question_in_any_mode(store: Store, tmp_path: Path, mode: Any) -> None:
    turns = [plan("history"), START, MADE, plan("revise", steps="Write"), plan("abandon", text="no"), "Done."]
    session = await opened(store, tmp_path, *turns, mode=mode)
    _, end = await collect(session.send("go"))
    assert (end.status, end.result) == ("goal_not_reached", "Done.")


async def test_only_the_newest_plans_are_kept(store: Store, tmp_path: Path) -> None:
    turns = [START, MADE, plan("finish", text="ok"), "Done."] * (MOST_PAST_PLANS + 2)
    session = await opened(store, tmp_path, *turns)
    for _ in range(MOST_PAST_PLANS + 2):
        await collect(session.send("move the parser"))
    numbers = [one.number for one in session.state.past_plans]
    assert numbers == list(range(2, MOST_PAST_PLANS + 2))


APPROVED = "# Write a file\n## Write it\n- writes: out/\n## Check it\n"


async def approve(session: Session) -> Any:
    (call,) = session.state.calls_to_decide
    return await collect(session.decide([CallDecision(call_id=call.call_id, approved=True)]))


async def test_the_model_cannot_revise_a_plan_that_a_person_approved(store: Store, tmp_path: Path) -> None:
    turns = [[("propose_plan", {"plan": APPROVED})], plan("revise", steps="Delete it"), DONE, DONE, "Done."]
    session = await opened(store, tmp_path, *turns, mode="interactive")
    await collect(session.send("write a file"))
    _, end = await approve(session)
    assert end.status == "done"
    assert [step.description for step in session.state.vibe_plan] == ["Write it", "Check it"]


async def test_abandoning_an_approved_plan_gives_its_permissions_back(store: Store, tmp_path: Path) -> None:
    write = [("write_file", {"path": "out/a", "content": "x"})]
    turns = [[("propose_plan", {"plan": APPROVED})], plan("abandon", text="no"), write]
    session = await opened(store, tmp_path, *turns, mode="interactive")
    await collect(session.send("write a file"))
    _, waits = await approve(session)
    assert waits.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    await check_record(store, tmp_path)


async def test_an_approved_plan_of_before_has_to_be_approved_again(store: Store, tmp_path: Path) -> None:
    turns = [[("propose_plan", {"plan": APPROVED})], plan("abandon", text="no"), "Stopped."]
    again = [plan("reopen", number=1), "It needs your approval."]
    session = await opened(store, tmp_path, *turns, *again, mode="interactive")
    await collect(session.send("write a file"))
    await approve(session)
    await collect(session.send("go on"))
    assert "has to approve it again" in results_of(session)[-1]
    assert session.state.approved_plan is None
    assert session.state.vibe_plan == ()


async def test_an_abandoned_plan_is_named_at_the_end_of_the_run(store: Store, tmp_path: Path) -> None:
    session = await opened(store, tmp_path, START, MADE, DONE, plan("abandon", text="no"), "Stopped.")
    _, end = await collect(session.send("go"))
    assert [text for _, text in end_lines(end)] == ["The plan was abandoned."]
