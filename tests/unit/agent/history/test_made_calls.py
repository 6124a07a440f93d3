"""Calls that a tool made are where its own call is: in reports, lists of steps, comparisons and run pages."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from support.screens.html_check import Page
from support.screens.reports import beyond_code
from support.screens.tracking_reader import answer
from support.tools.errands import ASK, SEND, Step, Town

from sandbur.agent.history.reports.diff import compare
from sandbur.agent.history.reports.read_report import read_account
from sandbur.agent.history.reports.recorded_calls import read_recorded_calls
from sandbur.agent.history.reports.run_report import CallAccount, facts_of
from sandbur.agent.history.reports.stats import stats_of
from sandbur.agent.history.time_travel.branches import branch
from sandbur.agent.history.timeline import list_timeline
from sandbur.agent.history.tracking.backend import StoreBackend
from sandbur.agent.history.tracking.entries import project_id
from sandbur.state.store.call_moves import list_made_calls
from sandbur.state.store.store import Store
from sandbur.testing import ToolCall
from sandbur.ui.report.html import report

BREAK: Step = ("ask", "{}")
NASTY: Step = ("send", json.dumps({"what": "</pre><script>alert(1)</script>\n```\n> # ![x](y)"}))


@contextmanager
def stored(folder: Path) -> Generator[Store]:
    with closing(Store.open(f"sqlite:///{folder}/runs.db")) as store:
        yield store


async def run_errands(folder: Path, *steps: Step, approves: bool = True) -> None:
    """Run a session whose only call makes these calls. `approves`: all that wait are approved."""
    async with Town(folder, *steps).agent(ToolCall("errands"), "fine").session("s1") as session:
        result = await session.run("go")
        while approves and result.status == "needs_approval":
            result = await session.approve()


def calls_of(store: Store, session_id: str = "s1") -> list[CallAccount]:
    return read_account(store, session_id).calls


async def test_a_report_has_the_calls_below_the_one_that_made_them(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, BREAK, SEND)
    with stored(tmp_path) as store:
        (call,) = calls_of(store)
        facts = facts_of(read_account(store, "s1"))
    assert (call.number, call.outcome, call.tool) == ("1", "ok", "errands")
    assert [(one.number, one.tool, one.subject, one.outcome) for one in call.calls] == [
        ("1.1", "ask", "Ann", "ok"),
        ("1.2", "ask", "", "error"),
        ("1.3", "send", "a", "ok"),
    ]
    assert [one.content.text for one in call.calls][::2] == ["yes", "sent"]
    assert (facts.calls, facts.failed_calls, facts.asked, facts.approved_by_people) == (4, 1, 1, 1)


async def test_a_call_that_stopped_for_the_approval_of_its_call_has_no_trouble(tmp_path: Path) -> None:
    await run_errands(tmp_path, SEND)
    with stored(tmp_path) as store:
        account = read_account(store, "s1")
        approvals = stats_of(store).approvals
    facts = facts_of(account)
    assert [one.tool for one in facts.decided] == ["send"]
    assert not facts.troubles
    assert "settled as rerun" not in approvals


async def test_a_call_waits_while_a_call_below_it_waits(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, SEND, approves=False)
    with stored(tmp_path) as store:
        text = "".join(report(store, "s1", "md"))
        page = Page("".join(report(store, "s1", "html")))
    assert "**1. errands** (waiting)" in text
    assert "> **1.1. ask `Ann`** (ok" in text
    assert "> **1.2. send `a`** (waiting)" in text
    assert "2 calls that it made" in page.text
    assert {"call-1", "call-1.1", "call-1.2"} <= page.ids
    assert page.links <= page.ids


async def test_a_report_keeps_the_markup_of_nested_calls_harmless(tmp_path: Path) -> None:
    await run_errands(tmp_path, NASTY)
    with stored(tmp_path) as store:
        quoted = "".join(report(store, "s1", "md"))
        Page("".join(report(store, "s1", "html")))
    inside = "\n".join(line[1:].removeprefix(" ") for line in quoted.split("\n") if line.startswith(">"))
    assert "alert(1)" in inside
    assert "<script>" not in beyond_code(inside)


async def test_a_fork_has_its_own_outcome_of_a_nested_call(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, SEND, approves=False)
    with stored(tmp_path) as store:
        fork = await branch(store, "s1")
    town = Town(tmp_path, ASK, SEND)
    async with town.agent("fine").session(fork) as session:
        await session.deny(reason="not today")
    async with town.agent("fine").session("s1") as session:
        await session.approve()
    with stored(tmp_path) as store:
        ours, theirs = (calls_of(store, one)[0] for one in ("s1", fork))
        made = list_made_calls(store.database, store.index.lineage(fork))
        steps = [step.calls for step in list_timeline(store.database, fork) if step.calls]
    assert [one.outcome for one in ours.calls] == ["ok", "ok"]
    assert [one.outcome for one in theirs.calls] == ["ok", "denied"]
    assert [one.result and one.result.outcome for one in made[theirs.call_id]] == ["ok", "denied"]
    assert steps == [("ok: ask Ann", "waits for a decision: send a"), ("denied: send a",)]


async def test_a_step_lists_what_its_calls_made(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, BREAK, SEND)
    with stored(tmp_path) as store:
        steps = list_timeline(store.database, "s1")
    assert [(step.action, step.text, step.calls) for step in steps if step.calls] == [
        ("execute_tools", "", ("ok: ask Ann", "error: ask", "waits for a decision: send a")),
        ("execute_tools", "ok: errands", ("ok: send a",)),
    ]
    assert "approved: send a" in [step.text for step in steps]


async def test_runs_differ_in_the_calls_of_their_calls(tmp_path: Path) -> None:
    for name, step in (("left", ASK), ("right", BREAK)):
        async with Town(tmp_path, step).agent(ToolCall("errands"), "fine").session(name) as session:
            await session.run("go")
    with stored(tmp_path) as store:
        found = compare(store, "left", "right")
    different = [pair for pair in found.pairs if not pair.is_same]
    assert [(pair.left and pair.left.calls, pair.right and pair.right.calls) for pair in different] == [
        (("ok: ask Ann",), ("error: ask",))
    ]


async def test_recorded_calls_have_a_title_and_count_their_time_once(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, SEND)
    with stored(tmp_path) as store:
        calls = read_recorded_calls(store, "s1")
        fork = await branch(store, "s1")
        whole = compare(store, "s1", fork).left.whole
    assert [(one.title, one.was_asked) for one in calls] == [
        ("errands", False),
        ("ask Ann", False),
        ("send a", True),
    ]
    assert whole.tool_s == pytest.approx(calls[0].seconds)


async def test_the_spans_of_a_run_page_are_nested(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK, SEND, BREAK)
    backend = StoreBackend(f"sqlite:///{tmp_path}/runs.db")
    with stored(tmp_path) as store:
        folder = store.index.settings("s1").cwd
    page = json.loads((await answer(backend, "s1", project=project_id(folder))).body)
    backend.close()
    spans = [
        (step["step_start_log"]["sequence_id"], one["begin_entry"])
        for step in page["steps"]
        for one in step["spans"]
        if not one["begin_entry"]["span_name"].startswith("chat")
    ]
    named = [(seq, one["span_id"], one["parent_span_id"], one["span_name"]) for seq, one in spans]
    assert named == [
        (2, "2:0", None, "errands"),
        (2, "2:0.0", "2:0", "ask Ann"),
        (4, "4:0", None, "errands"),
        (4, "4:0.0", "4:0", "send a"),
        (4, "4:0.1", "4:0", "ask"),
    ]
    values = {
        (one["span_id"], one["key"]): one["value"] for step in page["steps"] for one in step["attributes"]
    }
    assert values["2:0.0", "arguments"] == {"whom": "Ann"}
    assert values["2:0.0", "result"] == "yes"
    assert values["4:0.1", "outcome"] == "error"
    assert "nested" not in {name for _, name in values}
    waiting = {one["key"]: one["value"] for one in page["steps"][2]["attributes"]}["proposed_calls"]
    assert [(one["tool"], one["decision"]) for one in waiting] == [("send", "undecided")]


async def test_a_damaged_result_of_a_nested_call_is_left_out(tmp_path: Path) -> None:
    await run_errands(tmp_path, ASK)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database:
        (body,) = database.execute(
            "SELECT body FROM calls WHERE call_id LIKE '%/1' AND move = 'finished'"
        ).fetchone()
        damaged = body.replace('"outcome":"ok","content"', '"outcome":7,"content"')
        assert damaged != body
        database.execute("UPDATE calls SET body = ? WHERE body = ?", (damaged, body))
        database.commit()
    with stored(tmp_path) as store:
        (call,) = calls_of(store)
        ((made,),) = list_made_calls(store.database, store.index.lineage("s1")).values()
    assert [(one.outcome, made.result) for one in call.calls] == [(None, None)]
