"""Maintenance of many records says how far it is, to whoever watches."""

from datetime import UTC, datetime, timedelta
from io import BytesIO

from support.stores.audits import run_decided_call, run_passing_call

from sandbur.agent.history.time_travel.branches import branch
from sandbur.state.maintenance.export import export_session
from sandbur.state.maintenance.import_ import check_import
from sandbur.state.maintenance.prune import PruneRules, plan_prune
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.store import Store
from sandbur.ui.headless.json_output import encode


async def test_an_audit_counts_the_sessions_that_it_was_forked_from(store: Store) -> None:
    await run_passing_call(store)
    fork = await branch(store, "s1", None, {})
    seen: list[tuple[int, int]] = []
    audit(store.database, ["s1", fork], lambda *numbers: seen.append(numbers))
    assert seen == [(1, 2), (2, 2)]


async def test_a_plan_to_prune_counts_every_session_that_it_looks_at(store: Store) -> None:
    for name in ("s1", "s2", "s3"):
        await run_passing_call(store, name)
    await run_decided_call(store, session_id="s4")
    seen: list[int] = []
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    plan = plan_prune(store.database, store.tenant, PruneRules(timedelta(0), 1), tomorrow, seen.append)
    assert (len(plan.goes), seen) == (3, [1, 2, 3])


async def test_an_import_counts_every_record_that_it_checks(store: Store) -> None:
    await run_passing_call(store)
    records = list(export_session(store.database, "s1"))
    fork = await branch(store, "s1", None, {})
    file = BytesIO("".join(encode(one) + "\n" for one in export_session(store.database, fork)).encode())
    store.delete(fork)
    store.delete("s1")
    seen: list[tuple[int, int]] = []
    check_import(store.database, file, lambda *numbers: seen.append(numbers))
    total = len(seen)
    assert total >= sum("record" in record for record in records)
    assert seen == [(number, total) for number in range(1, total + 1)]
