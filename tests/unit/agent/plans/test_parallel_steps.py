"""Steps of a plan that need nothing of each other run side by side, each as a sub-agent."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.crash.past import Past
from support.models.plan_runs import Plans, Work, end, require_sound, shell, step
from support.models.plans import approve
from support.models.scripted import collect
from support.models.server import Answer, Request, call, say

from sandbur.actions.ports.events import StepChanged, SubAgentEvent, ToolFinished, ToolStarted
from sandbur.actions.turn.plan.parallel_steps import list_ready_steps, list_steps_before
from sandbur.agent.agents.task import child_session_id
from sandbur.agent.history.timeline import list_timeline
from sandbur.state.application import VibeStep
from sandbur.state.calls import CallDecision

MEET = "touch {own}; until [ -e {other} ]; do sleep 0.02; done"
"""A command that ends only if another one runs at the same time."""


def meet(own: str, other: str) -> Work:
    def work(past: Past) -> Answer:
        return end(f"{own} met {other}") if past.rounds else shell(MEET.format(own=own, other=other))

    return work


DIAMOND = (step("one"), step("two", 1), step("three", 1), step("four", 2, 3))


async def test_a_diamond_runs_its_middle_side_by_side(tmp_path: Path) -> None:
    plans = Plans(tmp_path, DIAMOND, step2=meet("two", "three"), step3=meet("three", "two"))
    events, ended, session = await plans.run()
    assert (ended.status, ended.result) == ("done", "all done")
    assert [(one.status, one.summary) for one in ended.steps] == [
        ("completed", "summary 1"),
        ("completed", "two met three"),
        ("completed", "three met two"),
        ("completed", "summary 4"),
    ]
    changes = [(one.step_id, one.status) for one in events if isinstance(one, StepChanged)]
    middle = [("2", "in_progress"), ("3", "in_progress"), ("2", "completed"), ("3", "completed")]
    assert changes[2:6] == middle
    assert len(plans.children) == 2
    assert [one.call_id for one in session.state.vibe_plan] == ["", "step-2", "step-3", ""]
    started = {one.call_id: one.step_id for one in events if isinstance(one, ToolStarted)}
    assert {one: started[one] for one in ("step-2", "step-3")} == {"step-2": "2", "step-3": "3"}
    assert {one.agent.call_id for one in events if isinstance(one, SubAgentEvent)} == {"step-2", "step-3"}


async def test_the_timeline_names_the_steps_that_run_side_by_side(tmp_path: Path) -> None:
    plans = Plans(tmp_path, DIAMOND)
    async with plans.runtime() as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        steps = [one.text for one in list_timeline(runtime.store.database, session.id)]
    assert "steps 2, 3 begin side by side" in steps


async def test_a_sub_agent_knows_the_goal_the_plan_and_the_steps_before_its_own(tmp_path: Path) -> None:
    steps = (step("one"), step("two", None), step("three", 1), step("four", 2))
    plans = Plans(tmp_path, steps)
    await plans.run()
    task = next(past.users[0] for past in plans.children if past.step == "3")
    assert task.startswith("Step 3 of 4: three")
    assert "Goal: the goal" in task
    assert "Step 1 completed: summary 1" in task
    assert "summary 2" not in task


async def test_it_costs_as_many_model_calls_as_in_sequence(tmp_path: Path) -> None:
    plans = Plans(tmp_path, DIAMOND)
    _, ended, _ = await plans.run()
    assert ended.usage.llm_calls == len(plans.pasts) == 1 + 1 + len(DIAMOND) + 1


async def test_a_plan_without_the_key_runs_in_sequence(tmp_path: Path) -> None:
    plans = Plans(tmp_path, [step("one"), step("two"), step("three")])
    _, ended, session = await plans.run()
    assert (ended.status, plans.children) == ("done", [])
    left_out: Any = {"chat_history": True, "vibe_plan": {"__all__": {"chat_history"}}}
    stored = session.state.model_dump(mode="json", exclude=left_out)
    assert "parallel_steps" not in stored
    assert not any({"after", "call_id"} & one.keys() for one in stored["vibe_plan"])


async def test_without_sub_agents_the_steps_run_in_sequence(tmp_path: Path) -> None:
    plans = Plans(tmp_path, DIAMOND)
    plans.env = {"SANDBUR_AGENT_DEPTH": "0"}
    _, ended, _ = await plans.run()
    assert (ended.status, plans.children) == ("done", [])


@pytest.mark.parametrize("rules", [{"deny": ["task"]}, {"ask": ["task"]}])
async def test_a_rule_against_sub_agents_leaves_the_steps_in_sequence(
    tmp_path: Path, rules: dict[str, list[str]]
) -> None:
    plans = Plans(tmp_path, DIAMOND)
    plans.rules = rules
    _, ended, _ = await plans.run("interactive")
    assert (ended.status, plans.children) == ("done", [])


async def test_an_interrupted_run_goes_on_with_the_steps_that_had_not_ended(tmp_path: Path) -> None:
    def wait(past: Past) -> Answer:
        return end("went on") if past.rounds else shell("until [ -e go ]; do sleep 0.02; done")

    plans = Plans(tmp_path, (step("one", None), step("two", None)), step1=wait)
    async with plans.runtime() as runtime:
        session = await runtime.create()
        is_running = has_ended = False
        stopping: list[asyncio.Future[None]] = []
        async for event in session.send("do it"):
            inner = event.event if isinstance(event, SubAgentEvent) else None
            is_running |= isinstance(inner, ToolStarted)
            has_ended |= isinstance(event, ToolFinished) and event.call_id == "step-2"
            if is_running and has_ended and not stopping:
                stopping.append(asyncio.ensure_future(session.interrupt()))
        await asyncio.gather(*stopping)
        assert [one.status for one in session.state.vibe_plan] == ["in_progress", "in_progress"]
        _, ended = await collect(session.carry_on())
        assert [one.summary for one in ended.steps] == ["went on", "summary 2"]
        await require_sound(runtime.store, session.id)
    assert len([past for past in plans.pasts if past.step == "2"]) == 1


async def test_a_failed_step_lets_the_others_end_before_the_plan_is_revised(tmp_path: Path) -> None:
    first = (step("one", None), step("two", None), step("three"))
    plans = Plans(tmp_path, first, [step("instead")], step1=lambda _: end("it broke", "failed"))
    _, ended, _ = await plans.run()
    found = [(one.description, one.status, one.summary) for one in ended.steps]
    assert found == [
        ("one", "failed", "it broke"),
        ("two", "completed", "summary 2"),
        ("instead", "completed", "summary 3"),
    ]
    assert ended.status == "done"


async def test_a_revised_plan_repeats_no_number_of_a_step_that_has_ended(tmp_path: Path) -> None:
    first = (step("one", None), step("two", 1), step("three", None))
    instead = (step("four", None), step("five", None))
    plans = Plans(tmp_path, first, instead, step1=lambda _: end("it broke", "failed"))
    _, ended, _ = await plans.run()
    assert [(one.step_id, one.description, one.status) for one in ended.steps] == [
        ("1", "one", "failed"),
        ("3", "three", "completed"),
        ("4", "four", "completed"),
        ("5", "five", "completed"),
    ]
    begun = [past.users[0].partition("\n")[0] for past in plans.children]
    assert begun[2:] == ["Step 4 of 5: four", "Step 5 of 5: five"]


async def test_a_second_approved_plan_repeats_no_number_of_the_first_one(tmp_path: Path) -> None:
    side = "# g\n## one\n- after: nothing\n## two\n- after: 1\n## three\n- after: nothing\n"
    plans = Plans(tmp_path, step1=lambda _: end("it broke", "failed"))
    plans.env = {"SANDBUR_PLAN_PROPOSALS": "1"}
    plans.proposal = side
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        plans.proposal = "# h\n## four\n## five\n"
        await approve(session)
        _, ended = await approve(session)
        assert [(one.step_id, one.description, one.status) for one in ended.steps] == [
            ("1", "one", "failed"),
            ("3", "three", "completed"),
            ("4", "four", "completed"),
            ("5", "five", "completed"),
        ]
        assert session.state.parallel_steps == ()
        await require_sound(runtime.store, session.id)


async def test_a_failed_step_that_is_not_made_good_leaves_the_goal_open(tmp_path: Path) -> None:
    first = (step("one", None), step("two", None))
    _, ended, _ = await Plans(tmp_path, first, [], step1=lambda _: end("it broke", "failed")).run()
    assert ended.status == "goal_not_reached"


async def test_a_step_that_names_no_earlier_step_is_refused_in_a_sentence(tmp_path: Path) -> None:
    plans = Plans(tmp_path, [step("one"), step("two", 2)], [step("one")])
    _, ended, _ = await plans.run()
    why = "step 2 cannot come after step 2: its earlier steps are 1 to 1"
    assert any(why in text for past in plans.pasts for _, text in past.results.values())
    assert ended.status == "done"


async def test_a_decision_about_one_step_waits_while_the_other_ends(tmp_path: Path) -> None:
    def write(past: Past) -> Answer:
        return end("written") if past.rounds else call("write_file", path="a.txt", content="a")

    plans = Plans(tmp_path, (step("one", None), step("two", None)), step1=write)
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        _, waits = await collect(session.send("do it"))
        assert waits.status == "needs_approval"
        assert [(one.step_id, one.status) for one in waits.steps] == [
            ("1", "in_progress"),
            ("2", "completed"),
        ]
        (asked,) = session.state.calls_to_decide
        assert asked.reason.startswith("sub-agent general: ")
        _, ended = await collect(session.decide([CallDecision(call_id=asked.call_id, approved=True)]))
        assert [one.summary for one in ended.steps] == ["written", "summary 2"]
        await require_sound(runtime.store, session.id)
    assert (tmp_path / "work/a.txt").read_text() == "a"
    assert len([past for past in plans.pasts if past.step == "2"]) == 1


async def test_another_message_ends_the_steps_and_says_how_to_go_on(tmp_path: Path) -> None:
    plans = Plans(
        tmp_path, (step("one", None), step("two", None)), [step("other")], step1=lambda _: shell("touch a")
    )
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        child = child_session_id(session.id, "step-1")
        await collect(session.send("something else"))
        lines = [message.text for message in session.state.chat_history if message.role == "assistant"]
        assert any(line.startswith("Step 1 failed: Interrupted") and child in line for line in lines)
        assert "Step 2 completed: summary 2" in lines


async def test_a_replay_repeats_how_a_waiting_sub_agent_was_ended(tmp_path: Path) -> None:
    def respond(request: Request) -> Answer:
        past = Past(request)
        if past.child:
            return call("write_file", path="a.txt", content="a")
        has_begun = any(entry.kind == "call" for entry in past.entries)
        return say("ok") if has_begun else call("task", description="write", prompt="Write it.")

    plans = Plans(tmp_path)
    plans.respond = respond  # pyright: ignore[reportAttributeAccessIssue]
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        _, waits = await collect(session.send("do it"))
        assert waits.status == "needs_approval"
        _, ended = await collect(session.send("something else"))
        assert ended.status == "done"
        await require_sound(runtime.store, session.id)


@pytest.mark.parametrize(
    ("after", "ready"),
    [
        ((None, None, None), ["1"]),
        (((), (), ()), ["1", "2", "3"]),
        ((None, ("1",), ()), ["1", "3"]),
        (((), (), None), ["1", "2"]),
        (((), ("9",), ("2",)), ["1", "2"]),
    ],
)
def test_a_step_is_ready_once_the_steps_that_it_names_have_ended(
    after: Sequence[tuple[str, ...] | None], ready: list[str]
) -> None:
    plan = [VibeStep(step_id=str(n), description="d", after=one) for n, one in enumerate(after, 1)]
    assert [one.step_id for one in list_ready_steps(plan)] == ready


def test_a_step_comes_after_the_steps_that_its_steps_come_after() -> None:
    after: list[tuple[str, ...]] = [(), (), ("1",), ("3",)]
    plan = [VibeStep(step_id=str(n), description="d", after=one) for n, one in enumerate(after, 1)]
    assert [one.step_id for one in list_steps_before(plan, plan[3])] == ["1", "3"]
