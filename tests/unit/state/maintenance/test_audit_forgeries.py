"""Whatever is changed behind the back of the store, the record that does not hold is named."""

import json

import pytest
from support.models.scripted import Recorder, ScriptedModel, collect, open_session
from support.stores.audits import ONE, breaches, describe_breaches, run_decided_call, run_passing_call
from support.stores.tampering import chain_again, delete_move, move_of, rewrite

from sandbur.state.databases.chain import digest_of
from sandbur.state.store.store import Store


@pytest.mark.parametrize("move", ["proposed", "decided", "started", "finished"])
async def test_a_changed_record_is_named(store: Store, move: str) -> None:
    await run_decided_call(store)
    record = rewrite(store, "c1_0", move, note="changed")
    assert describe_breaches(store) == [(record, "is not what was written")]
    assert breaches(store)[0].table == "calls"


@pytest.mark.parametrize("move", ["proposed", "decided", "started", "finished"])
async def test_a_deleted_record_is_named(store: Store, move: str) -> None:
    await run_decided_call(store)
    record = delete_move(store, "c1_0", move)
    assert (record, "is gone") in describe_breaches(store)


async def test_records_that_changed_places_are_named(store: Store) -> None:
    model = ScriptedModel([*ONE, ("act", {"text": "two"})], "said")
    session = await open_session(store, model, Recorder())
    await collect(session.send("go"))
    places = [move_of(store, call_id, "started") for call_id in ("c1_0", "c1_1")]
    for (n, _, _), (_, _, body) in zip(places, reversed(places), strict=True):
        store.database.commit(
            [("UPDATE calls SET body = ? WHERE session_id = 's1' AND n = ?", (json.dumps(body), n))]
        )
    named = {breach.record for breach in breaches(store)}
    assert named >= {record for _, record, _ in places}


async def test_a_cut_end_is_named(store: Store) -> None:
    await run_passing_call(store)
    rows = store.database.query("SELECT MAX(n) FROM traces WHERE session_id = 's1'")
    store.database.commit([("DELETE FROM traces WHERE session_id = 's1' AND n = ?", (rows[0][0],))])
    assert [breach.problem for breach in breaches(store)] == ["is gone"]


@pytest.mark.parametrize("place", ["after the end", "in the place of another"])
async def test_an_approval_that_was_slipped_in_is_named(store: Store, place: str) -> None:
    """Its own digest fits, and that of no other record has to change."""
    session = await open_session(store, ScriptedModel(ONE), Recorder(), mode="interactive")
    await collect(session.send("go"))
    n, _, body = move_of(store, "c1_0", "proposed")
    body |= {"decision": "approved", "decided_by": "person", "who": "ann@lab"}
    records, chain = store.database.query("SELECT records, chain FROM heads WHERE session_id = 's1'")[0]
    record, before = int(records), str(chain)
    if place == "in the place of another":
        rows = store.database.query(
            "SELECT record, digest FROM steps WHERE session_id = 's1' ORDER BY record"
        )
        record, before = int(rows[0][0]) + 1, str(rows[0][1])
    values = (n + 1, "c1_0", "decided", "2026-01-01T00:00:00.000+00:00", json.dumps(body))
    store.database.commit(
        [
            (
                "INSERT INTO calls (session_id, n, call_id, move, at, body, record, digest)"
                " VALUES ('s1', ?, ?, ?, ?, ?, ?, ?)",
                (*values, record, digest_of(before, "calls", values)),
            )
        ]
    )
    assert ("calls", str(n + 1), record) in [(one.table, one.place, one.record) for one in breaches(store)]


FORGERIES = {
    "other arguments started": (
        ("started", {"arguments_sha256": "0" * 64}),
        "starts with other arguments than those that were approved",
    ),
    "other arguments proposed": (
        ("proposed", {"arguments_sha256": "0" * 64}),
        "proposes other arguments than the model's message requests",
    ),
    "other arguments decided": (
        ("decided", {"arguments_sha256": "0" * 64}),
        "decides about other arguments than record",
    ),
    "an edit that nobody made": (
        ("decided", {"arguments_sha256": "0" * 64, "edited": True}),
        "starts with other arguments than those that were approved",
    ),
    "a denial": (("decided", {"decision": "denied"}), "nobody approved: the last decision was `denied`"),
    "nobody decided": (("decided", {"who": ""}), "does not say who decided"),
    "policy instead of the person": (("started", {"decided_by": "policy"}), "says that `policy` approved it"),
    "no verdict": (("started", {"decided_by": None}), "says that `nobody` approved it"),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forgery_that_fits_the_chain_breaks_the_rules(store: Store, name: str) -> None:
    (move, changes), problem = FORGERIES[name]
    await run_decided_call(store)
    rewrite(store, "c1_0", move, **changes)
    chain_again(store)
    found = breaches(store)
    assert found
    assert any(problem in breach.problem for breach in found)
    assert all((breach.table, breach.call_id) == ("calls", "c1_0") for breach in found)


@pytest.mark.parametrize(
    ("move", "problem"),
    [
        ("proposed", "starts a call that was never proposed"),
        ("decided", "nobody approved: the last decision was `undecided`"),
        ("started", "finishes a call as `ok`, which was never started"),
    ],
)
async def test_a_record_that_was_taken_out_leaves_a_gap_in_the_sense(
    store: Store, move: str, problem: str
) -> None:
    await run_decided_call(store)
    delete_move(store, "c1_0", move)
    chain_again(store)
    assert any(problem in breach.problem for breach in breaches(store))


async def test_an_old_look_hides_no_verdict(store: Store) -> None:
    await run_decided_call(store)
    rewrite(store, "c1_0", "proposed", decision=None, decided_by=None, reason=None)
    rewrite(store, "c1_0", "started", decided_by=None)
    delete_move(store, "c1_0", "decided")
    chain_again(store)
    assert any("nobody approved" in breach.problem for breach in breaches(store))


@pytest.mark.parametrize("move", ["started", "finished"])
async def test_a_repeated_move_is_named(store: Store, move: str) -> None:
    await run_passing_call(store)
    _, _, body = move_of(store, "c1_0", move)
    rows = store.database.query("SELECT MAX(n), MAX(record) FROM calls WHERE session_id = 's1'")
    records = store.database.query("SELECT records FROM heads WHERE session_id = 's1'")[0][0]
    store.database.commit(
        [
            (
                "INSERT INTO calls (session_id, n, call_id, move, at, body, record, digest)"
                " VALUES ('s1', ?, 'c1_0', ?, '2026-01-01T00:00:00.000+00:00', ?, ?, '')",
                (rows[0][0] + 1, move, json.dumps(body), records),
            )
        ]
    )
    chain_again(store)
    verb = {"started": "starts a call that has finished", "finished": "has finished already"}[move]
    assert [verb in breach.problem for breach in breaches(store)] == [True]


async def test_rubbish_in_a_record_is_named_and_ends_nothing(store: Store) -> None:
    await run_passing_call(store)
    for body in ("", "null", "[]", '"text"', "{", "[" * 5000, '{"decision": [1], "tool": {}}'):
        store.database.commit([("UPDATE calls SET body = ? WHERE session_id = 's1' AND n = 1", (body,))])
        store.database.commit(
            [("UPDATE traces SET body = ? WHERE session_id = 's1' AND n = 0", ('{"changes": [1]}',))]
        )
        chain_again(store)
        assert breaches(store)
