"""A sub-agent that works on a step of an approved plan may do what its own step names, and only then."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.crash.past import Past
from support.models.plan_runs import Plans, Work, end, require_sound
from support.models.scripted import collect
from support.models.server import Answer, call

from sandbur.actions.ports.events import RunFinished
from sandbur.agent.agents.task import child_session_id
from sandbur.agent.runtime.runtime import Runtime
from sandbur.agent.session.session import Session
from sandbur.state.application import ApplicationState
from sandbur.state.calls import CallDecision
from sandbur.state.store.deltas import void_approvals

PLAN = """\
# Write two files
## 1. Write the first
- writes: first.txt
- after: nothing
## 2. Write the second
- writes: second.txt
- after: nothing
"""


def writes(*paths: str) -> Work:
    def work(past: Past) -> Answer:
        done = past.rounds
        return call("write_file", path=paths[done], content="text") if done < len(paths) else end("written")

    return work


@asynccontextmanager
async def approved(
    folder: Path, work: Mapping[str, Work], plan: str = PLAN, mode: str = "interactive"
) -> AsyncGenerator[tuple[Plans, Runtime, Session, RunFinished]]:
    """Run a session to its first stop after the approval of a plan."""
    plans = Plans(folder, **work)
    plans.proposal, plans.env = plan, {"SANDBUR_PLAN_PROPOSALS": "1"}
    async with plans.runtime(mode) as runtime:
        session = await runtime.create()
        await collect(session.send("write two files"))
        (call_,) = session.state.calls_to_decide
        _, ended = await collect(session.decide([CallDecision(call_id=call_.call_id, approved=True)]))
        yield plans, runtime, session, ended


async def test_each_step_writes_what_it_names_without_a_question(tmp_path: Path) -> None:
    work: dict[str, Work] = {"step1": writes("first.txt"), "step2": writes("second.txt")}
    async with approved(tmp_path, work) as (plans, runtime, session, ended):
        assert (ended.status, len(plans.children)) == ("done", 2)
        assert (tmp_path / "work/first.txt").exists()
        assert (tmp_path / "work/second.txt").exists()
        await require_sound(runtime.store, session.id)


@pytest.mark.parametrize("mode", ["interactive", "auto-edit"])
async def test_a_step_has_no_permission_of_a_step_beside_it(tmp_path: Path, mode: str) -> None:
    async with approved(tmp_path, {"step1": writes("second.txt")}, mode=mode) as (_, runtime, session, ended):
        assert ended.status == "needs_approval"
        (asked,) = session.state.calls_to_decide
        assert asked.reason.startswith("sub-agent general: outside the plan: ")
        assert not (tmp_path / "work/second.txt").exists()
        await require_sound(runtime.store, session.id)


async def test_a_sub_agent_has_no_permission_once_a_person_goes_on_with_it(tmp_path: Path) -> None:
    def work(past: Past) -> Answer:
        return writes("first.txt")(past) if "again" in past.users[-1] else end("nothing written")

    async with approved(tmp_path, {"step1": work}) as (_, runtime, session, ended):
        assert ended.status == "done"
        child = await runtime.resume(child_session_id(session.id, "step-1"))
        _, waits = await collect(child.send("again"))
        assert waits.status == "needs_approval"
        assert not child.state.calls_to_decide[0].reason.startswith("the approved plan")
        assert child.state.plan_terms is None
        assert not (tmp_path / "work/first.txt").exists()


async def test_an_approval_in_the_session_of_the_sub_agent_gives_it_no_plan(tmp_path: Path) -> None:
    async with approved(tmp_path, {"step1": writes("other.txt", "first.txt")}) as (
        _,
        runtime,
        session,
        ended,
    ):
        assert ended.status == "needs_approval"
        child = await runtime.resume(child_session_id(session.id, "step-1"))
        (asked,) = child.state.calls_to_decide
        _, waits = await collect(child.decide([CallDecision(call_id=asked.call_id, approved=True)]))
        assert waits.status == "needs_approval"
        assert (tmp_path / "work/other.txt").exists()
        assert not (tmp_path / "work/first.txt").exists()


async def test_a_decision_at_the_parent_goes_on_under_the_plan(tmp_path: Path) -> None:
    async with approved(tmp_path, {"step1": writes("other.txt", "first.txt")}) as (
        _,
        runtime,
        session,
        ended,
    ):
        assert ended.status == "needs_approval"
        (asked,) = session.state.calls_to_decide
        _, ended = await collect(session.decide([CallDecision(call_id=asked.call_id, approved=True)]))
        assert ended.status == "done"
        assert (tmp_path / "work/first.txt").exists()
        await require_sound(runtime.store, session.id)


async def test_a_sub_agent_of_a_step_starts_no_agents_that_the_step_does_not_name(tmp_path: Path) -> None:
    def work(past: Past) -> Answer:
        return call("task", description="more", prompt="Write first.txt.")

    async with approved(tmp_path, {"step1": work}) as (_, _, session, ended):
        assert ended.status == "needs_approval"
        assert session.state.calls_to_decide[0].tool == "task"


async def test_an_agent_below_the_sub_agent_of_a_step_works_without_the_plan(tmp_path: Path) -> None:
    plan = PLAN.replace("- writes: first.txt\n", "- writes: first.txt\n- agents: general\n")

    def work(past: Past) -> Answer:
        return end("asked it") if past.rounds else call("task", description="more", prompt="Write one.")

    async with approved(tmp_path, {"step1": work, "below": writes("first.txt")}, plan) as (
        _,
        _,
        session,
        ended,
    ):
        assert ended.status == "needs_approval"
        (asked,) = session.state.calls_to_decide
        assert (asked.tool, asked.sub_agent is not None) == ("write_file", True)
        assert not (tmp_path / "work/first.txt").exists()


async def test_the_sub_agent_of_an_imported_session_asks(tmp_path: Path) -> None:
    async with approved(tmp_path, {"step1": writes("other.txt")}) as (_, _, session, _):
        terms = session.state.find_terms_of_call("step-1")
        assert terms is not None
        assert terms.rules
        fields = void_approvals(json.loads(session.state.model_dump_json()))
        terms = ApplicationState.model_validate(fields).find_terms_of_call("step-1")
        assert terms is not None
        assert terms.rules == ()


async def test_a_fork_in_the_middle_of_a_step_goes_on_under_its_own_plan(tmp_path: Path) -> None:
    async with approved(tmp_path, {"step1": writes("other.txt", "first.txt")}) as (_, runtime, session, _):
        forked = await runtime.resume(await runtime.fork(session.id))
        (asked,) = forked.state.calls_to_decide
        _, ended = await collect(forked.decide([CallDecision(call_id=asked.call_id, approved=True)]))
        assert ended.status == "done", ended
        assert (tmp_path / "work/first.txt").exists()
        await require_sound(runtime.store, forked.id)


async def test_a_failed_step_ends_the_plan_once_the_others_have_ended(tmp_path: Path) -> None:
    plan = f"{PLAN}## 3. Write the third\n- writes: third.txt\n"
    fails: dict[str, Work] = {"step1": lambda _: end("it broke", "failed"), "step2": writes("second.txt")}
    async with approved(tmp_path, fails, plan) as (_, _, session, ended):
        assert [one.status for one in ended.steps] == ["failed", "completed", "pending"]
        terms = session.state.plan_terms
        assert terms is not None
        assert terms.rules == ()
