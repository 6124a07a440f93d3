"""Runs with one call, and the breaches that an audit finds in them."""

from collections.abc import Sequence
from typing import Any

from support.models.scripted import Recorder, ScriptedModel, collect, open_session

from sandbur.state.calls import CallDecision
from sandbur.state.maintenance.verify import Audit, Breach, audit
from sandbur.state.store.store import Store

ONE = [("act", {"text": "one"})]


def audit_session(store: Store, session_id: str = "s1") -> Audit:
    return audit(store.database, [*store.index.ancestors(session_id), session_id])


def breaches(store: Store, session_id: str = "s1") -> Sequence[Breach]:
    return audit_session(store, session_id).breaches


def describe_breaches(store: Store, session_id: str = "s1") -> list[tuple[int, str]]:
    return [(breach.record, breach.problem) for breach in breaches(store, session_id)]


async def run_decided_call(store: Store, *, session_id: str = "s1", **decision: Any) -> None:
    """Run one call that a person decides about."""
    model = ScriptedModel(ONE, "said", "said again")
    session = await open_session(store, model, Recorder(), session_id=session_id, mode="interactive")
    await collect(session.send("go"))
    taken = CallDecision(call_id="c1_0", approved=True, by="ann@lab").model_copy(update=decision)
    await collect(session.decide([taken]))


async def run_passing_call(store: Store, session_id: str = "s1") -> None:
    """Run one call that needs no approval."""
    session = await open_session(store, ScriptedModel(ONE, "said"), Recorder(), session_id=session_id)
    await collect(session.send("go"))
