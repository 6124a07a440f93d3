"""After a crash every started call is settled: by itself where that is safe, by a check, or by a person."""

import os
import signal
from typing import Any

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.audits import breaches
from support.stores.reopening import reopen
from support.victims.triage_victim import Checked
from support.victims.victims import run_victim

from sandbur.actions.ports import Recovered, ToolContext, ToolOutcome
from sandbur.agent.session.session import Session
from sandbur.state.calls import CallDecision, Effect, PendingCall
from sandbur.state.errors import UsageError
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow


class Recovering(Recorder):
    """A tool that finds out what a dead process left."""

    def __init__(self, found: Recovered) -> None:
        super().__init__()
        self.found = found

    async def recover(self, arguments: str, context: ToolContext) -> Recovered:
        return self.found


def crashed(store: Store, *texts: str, effect: Effect = "effect") -> None:
    """Leave a session behind whose process died while its first call ran."""
    died = run_victim("triage_victim", store.url, effect, *texts)
    assert died.code == -signal.SIGKILL, died.err


async def resumed(store: Store, tool: Recorder, *turns: Any, mode: Any = "yolo") -> tuple[Session, Any]:
    again = reopen(store)
    model = ScriptedModel(*turns)
    session = await open_session(again, model, tool)
    session.change_mode(mode)
    return session, model


def told(model: ScriptedModel) -> list[Any]:
    return [
        (block.outcome, block.content)
        for message in model.requests[-1].messages
        for block in message.blocks
        if block.kind == "tool_result"
    ]


async def test_yolo_tells_the_model_that_the_outcome_is_unknown(store: Store) -> None:
    crashed(store, "a")
    tool = Recorder()
    session, model = await resumed(store, tool, "ok")
    _, end = await collect(session.carry_on())
    [(outcome, content)] = told(model)
    assert (end.status, tool.done, outcome) == ("done", [], "unknown")
    assert "may or may not have taken effect" in content


async def test_interactive_stops_and_asks_what_came_of_it(store: Store) -> None:
    crashed(store, "a")
    session, model = await resumed(store, Recorder(), "ok", mode="interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, end.exit_code, model.requests) == ("needs_decision", 3, [])
    assert [(call.kind, call.call_id) for call in end.pending] == [("outcome_unknown", "c1_0")]
    stored = reopen(store).show("s1").state.pending_tool_calls[0]
    assert (stored.kind, stored.decision) == ("outcome_unknown", "undecided")


@pytest.mark.parametrize(
    ("settle", "ran", "outcome"), [("done", [], "ok"), ("failed", [], "error"), ("rerun", ["a"], "ok")]
)
async def test_a_person_settles_it(store: Store, settle: Any, ran: list[str], outcome: str) -> None:
    crashed(store, "a")
    tool = Recorder()
    session, model = await resumed(store, tool, "ok", mode="interactive")
    await collect(session.carry_on())
    decision = CallDecision(call_id="c1_0", settle=settle, result="" if settle == "rerun" else "I looked")
    _, end = await collect(session.decide([decision]))
    [(found, content)] = told(model)
    assert (end.status, tool.done, found) == ("done", ran, outcome)
    assert ("I looked" in content) == (settle != "rerun")


async def test_an_approval_does_not_settle_it_and_a_settlement_approves_nothing(store: Store) -> None:
    crashed(store, "a")
    session, _ = await resumed(store, Recorder(), mode="interactive")
    await collect(session.carry_on())
    with pytest.raises(UsageError, match="Call c1_0 has to be settled"):
        session.decide([CallDecision(call_id="c1_0", approved=True)])
    assert [call.recovery.settled_as for call in session.state.pending_tool_calls] == [None]
    with pytest.raises(UsageError):
        (await open_session(reopen(store), ScriptedModel(), Recorder(), session_id="s9")).decide([])


async def test_a_second_crash_in_a_rerun_asks_again(store: Store) -> None:
    crashed(store, "a")
    session, _ = await resumed(store, Recorder(), mode="interactive")
    await collect(session.carry_on())
    await collect(session.decide([CallDecision(call_id="c1_0", settle="rerun")], record_only=True))
    again = reopen(store)
    journal = again.journal("s1")
    writer = again.writer("s1")
    writer.load()
    known = writer.chain.records, writer.chain.digest
    writer.claim = await again.index.claim(
        "s1", f"{os.uname().nodename}:999999999:1:n", known, again.index.settings("s1"), ""
    )
    await journal.record_start(PendingCall(call_id="c1_0", tool="act", arguments='{"text": "a"}'))
    tool = Recorder()
    session, _ = await resumed(store, tool, mode="interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("needs_decision", [])


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_what_is_safe_to_repeat_is_repeated_silently(store: Store, effect: Effect) -> None:
    crashed(store, "a", effect=effect)
    tool = Recorder(effect=effect)
    session, _ = await resumed(store, tool, "ok")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("done", ["a"])


async def test_what_is_safe_to_repeat_is_asked_about_where_the_mode_of_now_asks(store: Store) -> None:
    crashed(store, "a", effect="read")
    tool = Recorder(effect="read")
    session, _ = await resumed(store, tool, "ok", mode="interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("needs_approval", [])
    _, end = await collect(session.decide([CallDecision(call_id="c1_0", approved=True)]))
    assert (end.status, tool.done) == ("done", ["a"])
    assert not breaches(store)


@pytest.mark.parametrize(
    ("found", "ran", "status"),
    [("done", [], "done"), ("not_done", ["a"], "done"), ("unknown", [], "needs_decision")],
)
async def test_a_checked_effect_settles_itself(store: Store, found: str, ran: list[str], status: str) -> None:
    crashed(store, "a", effect="verifiable")
    tool = Checked(found)
    session, _ = await resumed(store, tool, "ok", mode="yolo" if ran else "interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == (status, ran)


async def test_what_the_dead_process_left_is_the_result(store: Store) -> None:
    crashed(store, "a")
    tool = Recovering(Recovered(ToolOutcome("ok", "its true end")))
    session, model = await resumed(store, tool, "ok", mode="interactive")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done, told(model)) == ("done", [], [("ok", "its true end")])


async def test_output_so_far_is_told(store: Store) -> None:
    crashed(store, "a")
    tool = Recovering(Recovered(None, "half of it", "It was stopped after 3 s."))
    session, model = await resumed(store, tool, "ok")
    await collect(session.carry_on())
    [(outcome, content)] = told(model)
    assert outcome == "unknown"
    assert "half of it" in content
    assert "stopped after 3 s" in content


async def test_calls_of_one_turn_are_settled_one_by_one(store: Store) -> None:
    crashed(store, "a", "b")
    tool = Recorder()
    session, model = await resumed(store, tool, "ok")
    _, end = await collect(session.carry_on())
    assert (end.status, tool.done) == ("done", ["b"])
    assert [outcome for outcome, _ in told(model)] == ["unknown", "ok"]


async def test_a_result_found_in_triage_survives_a_stop_for_another_call(store: Store) -> None:
    crashed(store, "a", "b")
    found = Recovering(Recovered(ToolOutcome("ok", "its true end")))
    session, _ = await resumed(store, found, mode="interactive")
    _, end = await collect(session.carry_on())
    assert end.status == "needs_approval"
    session, model = await resumed(store, Recorder(), "ok")
    _, end = await collect(session.carry_on())
    assert [content for _, content in told(model)] == ["its true end", "did b"]


async def test_saying_something_else_leaves_an_honest_result(store: Store) -> None:
    crashed(store, "a")
    session, model = await resumed(store, Recorder(), "fine", mode="interactive")
    await collect(session.carry_on())
    _, end = await collect(session.send("never mind"))
    assert (end.status, told(model)[0][0]) == ("done", "unknown")


def test_what_is_known_of_a_call_is_stored_as_fields_of_the_call() -> None:
    """As stores of every version have it."""
    stored = (
        '{"call_id":"c","tool":"act","arguments":"{}","effect":"effect","decision":"undecided","reason":"",'
        '"decided_by":"policy","edited":false,"kind":"outcome_unknown","starts":2,"started_at":"then",'
        '"output":"o","note":"n","settled_as":"done","settled_result":"r"}'
    )
    call = PendingCall.model_validate_json(stored)
    assert (call.recovery.starts, call.recovery.settled_as, call.recovery.output) == (2, "done", "o")
    assert call.model_dump_json() == stored
