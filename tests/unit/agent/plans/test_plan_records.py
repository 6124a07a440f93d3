"""An approved plan is in the report, in the tracking UI and in the list of steps."""

from pathlib import Path

import pytest
from support.models.plan_runs import Plans, end, require_sound, step
from support.models.plans import (
    FINISH,
    PROPOSAL,
    approve,
    list_tools,
    open_with_plans,
    propose,
    run,
    write,
)
from support.models.real_ports import open_real
from support.models.scripted import START, ScriptedModel, collect, plan
from support.screens.reports import make_report

from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.reports.run_report import PlanMade, list_contracts
from sandbur.agent.history.timeline import list_approved_plans, list_timeline
from sandbur.agent.history.tracking.entries import AppName
from sandbur.agent.history.tracking.pages import SessionPages
from sandbur.agent.history.tracking.texts import Texts
from sandbur.agent.review.plans.plan_tool import PlanTool
from sandbur.agent.session.secrets import masker_for_display
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision
from sandbur.state.store.store import Store


async def record_session(store: Store, folder: Path) -> Session:
    """Record a session with two calls inside of its plan, and one that is denied as outside."""
    turns = [
        PROPOSAL,
        write("out/a.txt"),
        run("echo hello world"),
        write("other.txt"),
        FINISH,
        FINISH,
        "Done.",
    ]
    session = await open_with_plans(store, folder, ScriptedModel(*turns))
    await collect(session.send("write two files"))
    (call,) = session.state.calls_to_decide
    await collect(session.decide([CallDecision(call_id=call.call_id, approved=True, by="ann@lab")]))
    (call,) = session.state.calls_to_decide
    await collect(session.decide([CallDecision(call_id=call.call_id)]))
    return session


@pytest.mark.parametrize("form", ["html", "md"])
async def test_a_report_has_the_plan_and_the_calls_inside_and_outside(
    store: Store, tmp_path: Path, form: str
) -> None:
    session = await record_session(store, tmp_path)
    approved = session.state.approved_plan
    assert approved is not None
    text = make_report(store, form)
    for words in (
        "Approved plan",
        "Approved by ann@lab",
        f"sha256 {approved.digest}",
        "- writes: second.txt",
    ):
        assert words in text, words
    contract = list_contracts(read_account(store, "s1").happened)[0]
    assert [call.tool for call in contract.inside] == ["write_file"]
    assert [call.tool for call in contract.outside] == ["write_file"]


@pytest.mark.parametrize("form", ["html", "md"])
async def test_a_report_shows_revisions_by_the_tool_and_by_a_second_proposal(
    store: Store, tmp_path: Path, form: str
) -> None:
    revise = [("plan", {"command": "revise", "steps": "Count the files"})]
    again = propose("# Write two files\n## Write both\n- writes: out/\n")
    failed = [("finish_step", {"status": "failed", "summary": "it cannot be done"})]
    first = [START, plan("look", "write"), revise, FINISH, FINISH, "Done."]
    turns = [*first, PROPOSAL, failed, again, FINISH, "Done."]
    toolbox = {**list_tools(tmp_path), "plan": PlanTool()}
    session = await open_real(store, ScriptedModel(*turns), tmp_path, mode="interactive", toolbox=toolbox)
    await collect(session.send("look and count"))
    assert titles_of(store) == [("Plan", ["look", "write"]), ("revised", ["look", "Count the files"])]
    assert "The plan was revised" in make_report(store, form)
    await collect(session.send("write two files"))
    await approve(session)
    await approve(session)
    assert titles_of(store)[2:] == [
        ("Plan", ["Write the first", "Write the second"]),
        ("revised", ["Write the first", "Write both"]),
    ]


def titles_of(store: Store) -> list[tuple[str, list[str]]]:
    """Return what a report shows of each plan and revision: a title, and the descriptions of the steps."""
    made = (one.what for one in read_account(store, "s1").happened if isinstance(one.what, PlanMade))
    return [("revised" if one.is_revision else "Plan", [text for _, text in one.steps]) for one in made]


async def test_a_report_without_an_approved_plan_has_no_such_part(store: Store, tmp_path: Path) -> None:
    session = await open_with_plans(store, tmp_path, ScriptedModel(PROPOSAL))
    await collect(session.send("write two files"))
    assert "Approved plan" not in make_report(store, "md")


async def test_the_tracking_ui_shows_the_plan_line_by_line_with_its_digest(
    store: Store, tmp_path: Path
) -> None:
    session = await record_session(store, tmp_path)
    approved = session.state.approved_plan
    assert approved is not None
    pages = SessionPages(store, "s1", Texts(masker_for_display(str(tmp_path))))
    body = pages.page(AppName("s1")).body
    assert body is not None
    assert (
        f'"approved_plan":{{"digest":"{approved.digest}","plan":["# Write two files","## 1.'.encode() in body
    )


async def test_the_steps_name_the_plan_that_begins(store: Store, tmp_path: Path) -> None:
    session = await record_session(store, tmp_path)
    approved = session.state.approved_plan
    assert approved is not None
    ((seq, digest),) = list_approved_plans(store.database, "s1")
    assert digest == approved.digest
    steps = {step.seq: step.text for step in list_timeline(store.database, "s1")}
    assert f"(the approved plan {digest[:12]} begins)" in steps[seq]


async def test_a_replay_without_the_notebook_repeats_what_the_model_read(tmp_path: Path) -> None:
    plans = Plans(tmp_path, [step("one"), step("two")])
    plans.env = {"SANDBUR_PLAN_NOTEBOOK": "1"}
    _, ended, _ = await plans.run()
    assert ended.status == "done"


async def test_a_replay_without_the_tool_repeats_how_a_plan_was_compared(tmp_path: Path) -> None:
    fails = iter(["failed"])
    plans = Plans(tmp_path, step1=lambda _: end("it ended", next(fails, "completed")))
    plans.env = {"SANDBUR_PLAN_PROPOSALS": "1"}
    plans.proposal = "# g\n## one\n- writes: a.txt\n"
    async with plans.runtime("interactive") as runtime:
        session = await runtime.create()
        await collect(session.send("do it"))
        plans.proposal = "# g\n## one\n- writes: a.txt, b.txt\n"
        await approve(session)
        assert session.state.calls_to_decide[0].plan_changes
        _, ended = await approve(session)
        assert ended.status == "done"
        await require_sound(runtime.store, session.id)
