"""A plan may name what its work may use: at a budget the run ends, and only a person lets it go on."""

import asyncio
from pathlib import Path

import pytest
from support.models.plan_runs import Plans, Work
from support.models.plan_runs import end as end_step
from support.models.plan_runs import require_sound as require_sound_plans
from support.models.plans import (
    FAIL,
    FINISH,
    Calls,
    approve,
    list_tools,
    notebook,
    open_with_notebook,
    open_with_plans,
    propose,
    require_sound,
    require_sound_notebook,
    write,
)
from support.models.real_ports import open_real
from support.models.scripted import ScriptedModel, collect
from support.models.server import call

from sandbur.actions.ports.events import SubAgentEvent, ToolFinished
from sandbur.agent.agents.task import child_session_id
from sandbur.agent.review.plans.permissions import Permissions
from sandbur.agent.review.plans.plan_text import UnreadablePlan, parse_plan
from sandbur.agent.session.session import Session
from sandbur.state.application import PlanUsage, Usage
from sandbur.state.calls import CallDecision
from sandbur.state.conversation.approved_plan import PlanBudget
from sandbur.state.store.store import Store


def plan(whole: str = "", step: str = "") -> str:
    """Return a plan of two steps with a budget for the whole plan and for its first step."""
    lines = ["# g", f"- budget: {whole}" if whole else "", "## a", "- writes: out/"]
    return "\n".join([*lines, f"- budget: {step}" if step else "", "## b", "- writes: out/"])


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("0.50 USD", PlanBudget(cost_usd=0.5)),
        ("20,000 tokens", PlanBudget(tokens=20_000)),
        ("1 usd, 20000 tokens", PlanBudget(cost_usd=1, tokens=20_000)),
        ("20,000 tokens and 0.5 USD", PlanBudget(cost_usd=0.5, tokens=20_000)),
    ],
)
def test_a_budget_is_read_for_a_plan_and_for_a_step(tmp_path: Path, text: str, budget: PlanBudget) -> None:
    parsed = parse_plan(plan(text, text), Permissions(tmp_path).by_key)
    assert (parsed.budget, [step.budget for step in parsed.steps]) == (budget, [budget, None])


@pytest.mark.parametrize(
    "text", ["", "much", "0 USD", "-1 USD", "1,00 USD", "0.5 tokens", "1 USD, 2 USD", "1e9 USD", "0x1 tokens"]
)
def test_what_is_no_budget_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    broken = plan("1 USD").replace("1 USD", text)
    with pytest.raises(UnreadablePlan, match=r"Line 2: .* is no budget. Write one such as `0.50 USD`"):
        parse_plan(broken, Permissions(tmp_path).by_key)


def test_two_budgets_of_one_step_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadablePlan, match="Line 4: there is a budget already"):
        parse_plan("# g\n## a\n- budget: 1 USD\n- budget: 2 USD", Permissions(tmp_path).by_key)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (plan("0.02 USD"), "The budget of the plan, 0.02 USD, is used up: 0.0200 USD are spent."),
        (
            plan("", "0.01 USD"),
            "The budget of step 1 of the plan, 0.01 USD, is used up: 0.0100 USD are spent.",
        ),
        (plan("9 tokens"), "The budget of the plan, 9 tokens, is used up: "),
        (plan("", "9 tokens"), "The budget of step 1 of the plan, 9 tokens, is used up: "),
    ],
)
async def test_the_work_of_a_plan_ends_at_its_budget(
    store: Store, tmp_path: Path, text: str, problem: str
) -> None:
    writes = [write(f"out/{number}.txt") for number in range(5)]
    model = ScriptedModel(propose(text), *writes, cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    _, end = await approve(session)
    assert (end.status, end.exit_code) == ("budget_limit", 125)
    assert end.error is not None
    assert end.error.message.startswith(problem)
    assert "Resume to give it the same amount again" in end.hint
    await require_sound(store, tmp_path)


async def test_a_resume_gives_the_same_amount_again(store: Store, tmp_path: Path) -> None:
    writes = [write(f"out/{number}.txt") for number in range(6)]
    model = ScriptedModel(propose(plan("0.02 USD")), *writes, cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    await approve(session)
    for files in (4, 6):
        resumed = await open_real(store, model, tmp_path, toolbox=list_tools(tmp_path))
        _, end = await collect(resumed.carry_on())
        assert (end.status, len(list((tmp_path / "out").iterdir()))) == ("budget_limit", files)
    await require_sound(store, tmp_path)


async def test_a_decision_about_a_call_does_not_renew_a_budget(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(propose(plan("0.02 USD")), write("out/a.txt"), write("b.txt"), cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    await approve(session)
    assert session.state.calls_to_decide[0].reason.startswith("outside the plan: ")
    _, end = await approve(session)
    assert end.status == "budget_limit"
    assert (tmp_path / "b.txt").exists()


async def test_each_step_has_a_budget_of_its_own(store: Store, tmp_path: Path) -> None:
    turns = [write("out/a.txt"), FINISH, write("out/b.txt"), write("out/c.txt"), FINISH, "Done."]
    text = plan("", "0.03 USD") + "\n- budget: 0.04 USD"
    session = await open_with_plans(store, tmp_path, ScriptedModel(propose(text), *turns, cost_usd=0.01))
    await collect(session.send("go"))
    _, end = await approve(session)
    assert end.status == "done"
    await require_sound(store, tmp_path)


async def test_the_answer_after_the_plan_is_counted_until_the_turn_ends(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(propose(plan("0.03 USD")), FINISH, FINISH, "Done.", "Hello.", cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    _, end = await approve(session)
    assert (end.status, end.result) == ("done", "Done.")
    _, end = await collect(session.send("hello"))
    assert (end.status, end.result) == ("done", "Hello.")


async def test_a_resume_lets_a_plan_that_is_done_be_answered(store: Store, tmp_path: Path) -> None:
    model = ScriptedModel(propose(plan("0.02 USD")), FINISH, FINISH, "Done.", cost_usd=0.01)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    _, end = await approve(session)
    assert end.status == "budget_limit"
    _, end = await collect(session.carry_on())
    assert (end.status, end.result) == ("done", "Done.")
    await require_sound(store, tmp_path)


@pytest.mark.parametrize("ending", [notebook("finish", text="ok"), notebook("abandon", text="no"), FAIL])
async def test_the_model_cannot_work_past_a_budget_by_ending_the_plan(
    store: Store, tmp_path: Path, ending: Calls
) -> None:
    looks = [[("list_directory", {"path": str(number)})] for number in range(5)]
    proposal = propose(plan("9 tokens"))
    session = await open_with_notebook(store, tmp_path, proposal, ending, *looks, "Done.")
    await collect(session.send("go"))
    _, end = await approve(session)
    assert (end.status, session.state.usage.llm_calls) == ("budget_limit", 2)
    await require_sound_notebook(store, tmp_path)


async def test_an_unknown_cost_ends_the_work_of_a_plan_with_a_budget_in_usd(
    store: Store, tmp_path: Path
) -> None:
    model = ScriptedModel(propose(plan("1 USD")), write("out/a.txt"), cost_usd=None)
    session = await open_with_plans(store, tmp_path, model)
    await collect(session.send("go"))
    _, end = await approve(session)
    assert end.error is not None
    assert "cannot be enforced. A plan may name tokens instead." in end.error.message


LIMIT = 40_000
SIDE_BY_SIDE = f"""# Write two
- budget: {LIMIT} tokens
## 1. first
- after: nothing
## 2. second
- after: nothing
"""


def make_plans(folder: Path, work: Work) -> Plans:
    """Return an approved plan of two steps side by side, of which the first one does `work` 30 times."""
    plans = Plans(folder, step1=lambda past: work(past) if past.rounds < 30 else end_step("enough"))
    plans.proposal, plans.env = SIDE_BY_SIDE, {"SANDBUR_PLAN_PROPOSALS": "1"}
    return plans


def count_tokens(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


def count_child(store: Store, session: Session) -> int:
    return count_tokens(store.show(child_session_id(session.id, "step-1")).state.usage)


async def decide_until_limit(session: Session) -> None:
    """Approve each call until the budget is used up."""
    status = "needs_approval"
    while status == "needs_approval":
        _, end = await approve(session)
        status = end.status
    assert status == "budget_limit"


async def test_what_a_waiting_sub_agent_used_counts_for_the_budget(tmp_path: Path) -> None:
    plans = make_plans(tmp_path, lambda past: call("write_file", path=f"{past.rounds}.txt", content="t"))
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        await decide_until_limit(session)
        before = count_child(runtime.store, session)
        assert session.state.plan_usage is not None
        assert before < LIMIT <= before + count_tokens(session.state.plan_usage.plan)
        _, end = await collect(session.carry_on())
        assert end.status == "needs_approval"
        await decide_until_limit(session)
        assert LIMIT <= count_child(runtime.store, session) - before < 1.5 * LIMIT
        await require_sound_plans(runtime.store, session.id)


async def test_what_an_interrupted_sub_agent_used_counts_for_the_budget(tmp_path: Path) -> None:
    plans = make_plans(tmp_path, lambda past: call("glob", pattern=f"*{past.rounds}"))
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        (asked,) = session.state.calls_to_decide
        run = session.decide([CallDecision(call_id=asked.call_id, approved=True)])
        for _ in range(3):
            stopping: list[asyncio.Future[None]] = []
            async for event in run:
                inner = event.event if isinstance(event, SubAgentEvent) else None
                if isinstance(inner, ToolFinished) and not stopping:
                    stopping.append(asyncio.ensure_future(session.interrupt()))
            await asyncio.gather(*stopping)
            assert session.state.plan_usage == PlanUsage()
            run = session.carry_on()
        _, end = await collect(run)
        assert end.status == "budget_limit"
        assert count_child(runtime.store, session) < LIMIT
