"""A person skips a step of a plan: it does not start, and what it allows ends."""

from pathlib import Path

import pytest
from support.models.plans import (
    FINISH,
    START,
    approve,
    list_tools,
    open_with_notebook,
    open_with_plans,
    propose,
    require_sound,
    require_sound_notebook,
    submit,
    write,
)
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, Turn, collect

from sandbur.actions.ports.events import Notice, ToolFinished
from sandbur.agent.session.session import Session
from sandbur.state.application import GRAPH_VERSION
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.plan_notebook import NotedStep, PlanChange
from sandbur.state.store.store import Store

THREE = "# g\n- budget: 100 tokens\n## a\n## b\n- writes: b.txt\n## c\n- writes: c.txt\n"


async def pause(store: Store, folder: Path, *turns: Turn, first: Turn = FINISH) -> Session:
    """Return a session that has stopped at the budget of its plan, in the step after `first`."""
    model = ScriptedModel(propose(THREE), first, *turns)
    session = await open_with_plans(store, folder, model)
    await collect(session.send("go"))
    _, end = await approve(session)
    assert end.status == "budget_limit"
    return session


async def test_a_skipped_step_does_not_start_and_allows_nothing(store: Store, tmp_path: Path) -> None:
    session = await pause(store, tmp_path, write("b.txt"))
    events, _ = await collect(session.send("/plan skip 2"))
    assert any("Step 2 is skipped" in getattr(event, "message", "") for event in events)
    assert [step.status for step in session.state.vibe_plan] == ["completed", "skipped", "pending"]
    _, end = await collect(session.carry_on())
    assert end.status == "needs_approval"
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    assert (session.state.active_step_id, session.state.graph_version) == ("3", GRAPH_VERSION)
    await require_sound(store, tmp_path)


async def test_a_skipped_step_stays_skipped_for_the_next_process(store: Store, tmp_path: Path) -> None:
    session = await pause(store, tmp_path, write("c.txt"), FINISH, "Done.")
    await collect(session.send("/plan skip 2"))
    await collect(session.carry_on())
    model = ScriptedModel(*[FINISH, "Done."] * 3)
    resumed = await open_real(store, model, tmp_path, toolbox=list_tools(tmp_path))
    assert resumed.state.vibe_plan[1].status == "skipped"
    await require_sound(store, tmp_path)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/plan skip", "Name the step: /plan skip 3. These steps wait: 2, 3."),
        ("/plan skip 9", "No step '9' waits. These steps wait: 2, 3."),
        ("/plan skip 1", "No step '1' waits. These steps wait: 2, 3."),
    ],
)
async def test_a_step_that_does_not_wait_cannot_be_skipped(
    store: Store, tmp_path: Path, command: str, answer: str
) -> None:
    session = await pause(store, tmp_path)
    before = session.state.vibe_plan
    events, _ = await collect(session.send(command))
    assert [event.message for event in events if isinstance(event, Notice)] == [answer]
    assert session.state.vibe_plan == before


async def test_the_last_step_is_not_skipped_but_ended_by_a_message(store: Store, tmp_path: Path) -> None:
    session = await pause(store, tmp_path)
    await collect(session.send("/plan skip 3"))
    events, _ = await collect(session.send("/plan skip 2"))
    assert any("is the last one. Send a message instead" in getattr(one, "message", "") for one in events)


async def test_without_a_plan_no_step_can_be_skipped(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel("hello"))
    await collect(session.send("hello"))
    events, _ = await collect(session.send("/plan skip 1"))
    assert any("none can be skipped" in getattr(one, "message", "") for one in events)


async def test_a_revision_repeats_no_number_of_a_skipped_step(store: Store, tmp_path: Path) -> None:
    made = submit("one", "two", "three", "four")
    turns: list[Turn] = [START, made, write("a.txt"), *[FINISH] * 3, "Done."]
    session = await open_with_notebook(store, tmp_path, *turns)
    await collect(session.send("go"))
    await collect(session.send("/plan skip 3"))
    steps = tuple(NotedStep(description=text) for text in ("five", "six"))
    session.revise_plan(PlanChange(command="revise", steps=steps))
    assert [step.step_id for step in session.state.vibe_plan] == ["1", "3", "4", "5"]
    _, end = await approve(session)
    assert [(step.description, step.status) for step in end.steps] == [
        ("one", "completed"),
        ("three", "skipped"),
        ("five", "completed"),
        ("six", "completed"),
    ]
    await require_sound_notebook(store, tmp_path)


async def test_no_step_is_skipped_during_a_run(store: Store, tmp_path: Path) -> None:
    turns: list[Turn] = [write("a.txt"), FINISH, write("b.txt"), FINISH, FINISH, "Done."]
    model = ScriptedModel(propose(THREE.replace("100 tokens", "9 USD")), *turns, cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    await approve(session)
    (call,) = session.state.calls_to_decide
    notices: list[str] = []
    async for event in session.decide([CallDecision(call_id=call.call_id, approved=True)]):
        if isinstance(event, ToolFinished) and event.call_id == call.call_id:
            answers, _ = await collect(session.send("/plan skip 2"))
            notices += [one.message for one in answers if isinstance(one, Notice)]
    assert notices == ["The plan cannot be changed during a run. Let the run end, or interrupt it."]
    assert (tmp_path / "b.txt").exists()
    assert [step.status for step in session.state.vibe_plan] == ["completed"] * 3
    await require_sound(store, tmp_path)
