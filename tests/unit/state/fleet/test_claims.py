"""Each waiting session is claimed by one worker that can run it, in a fair order."""

import threading
from collections import Counter
from datetime import datetime

import pytest
from support.stores.waiting import AGENT, add_waiting, make_claims, set_head

from sandbur.state.databases.database import insert
from sandbur.state.errors import UsageError
from sandbur.state.process.clock import format_time
from sandbur.state.session import SpawnedBy
from sandbur.state.store.sessions.claims import WorkerClaims, ask_for_run
from sandbur.state.store.sessions.lanes import check_needs, make_agent_key, make_lane, parse_lane
from sandbur.state.store.store import Store

PAST, ELSEWHERE = "2020-01-01T00:00:00.000+00:00", "elsewhere"


def ids(claims: WorkerClaims, most: int = 10) -> list[str]:
    return [one.session_id for one in claims.claim(most)]


def wake_at(store: Store, session_id: str) -> str:
    return store.database.query("SELECT wake_at FROM heads WHERE session_id = ?", (session_id,))[0][0]


def test_workers_that_claim_at_once_share_the_sessions(store: Store) -> None:
    names = {f"s{number}" for number in range(24)}
    for name in sorted(names):
        add_waiting(store, name)
    found: list[str] = []

    def work(claims: WorkerClaims) -> None:
        for _ in range(12):
            found.extend(ids(claims, 3))

    threads = [threading.Thread(target=work, args=(make_claims(store),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(found) == Counter(names)


def test_a_claim_is_limited_and_what_is_claimed_is_not_claimed_again(store: Store) -> None:
    for number in range(5):
        add_waiting(store, f"s{number}")
    claims, other = make_claims(store), make_claims(store)
    first = ids(claims, 2)
    assert len(first) == 2
    assert claims.list_owned() == set(first)
    assert len(ids(other)) == 3
    assert ids(claims) == []


def test_each_slot_goes_to_the_tenant_with_the_fewest_running_sessions(store: Store) -> None:
    for number in range(20):
        add_waiting(store, f"many{number}", tenant="many")
    for number in range(2):
        add_waiting(store, f"few{number}", tenant="few")
    claims = make_claims(store)
    assert Counter(name[:3] for name in ids(claims, 4)) == {"man": 2, "few": 2}
    add_waiting(store, "few2", tenant="few")
    add_waiting(store, "third", tenant="third")
    assert ids(claims, 1) == ["third"]
    assert len(ids(claims, 10)) == 10


def test_a_tenant_has_at_most_as_many_running_sessions_as_its_quota(store: Store) -> None:
    store.database.commit([insert("quotas", {"tenant": "small", "most_running": 2, "version": 0})])
    for number in range(5):
        add_waiting(store, f"s{number}", tenant="small")
    claims, other = make_claims(store), make_claims(store)
    first = claims.claim(1)
    assert len(ids(other)) == 1
    assert ids(claims) == []
    assert claims.hand_back(first[0], "done", answered=1)
    assert len(ids(other)) == 1


def test_a_higher_priority_comes_first_and_then_what_waits_longest(store: Store) -> None:
    for number, priority in enumerate((5, 2, 9, 5)):
        add_waiting(store, f"s{number}", priority=priority)
    set_head(store, "s3", wake_at=PAST)
    claims = make_claims(store)
    assert [ids(claims, 1) for _ in range(4)] == [["s2"], ["s3"], ["s0"], ["s1"]]


def test_only_a_worker_with_the_agent_and_all_labels_claims_a_session(store: Store) -> None:
    add_waiting(store, "plain")
    add_waiting(store, "placed", needs=("host:alpha", "gpu"))
    add_waiting(store, "other", agent="another:agent")
    assert ids(make_claims(store, labels=["gpu"])) == ["plain"]
    assert ids(make_claims(store, labels=["gpu", "host:alpha", "more"])) == ["placed"]
    assert ids(make_claims(store, agents=["another:agent"])) == ["other"]


def test_sub_agents_and_sessions_without_an_agent_are_never_claimed(store: Store) -> None:
    by = SpawnedBy(session_id="p", sequence=1, call_id="c", agents=("a",))
    for name, settings in (("child", {"spawned_by": by}), ("chat", {"agent": ""}), ("trial", {"trial": "t"})):
        made = add_waiting(store, name, **settings)
        assert make_lane("", made) == ""
    assert ids(make_claims(store)) == []


def test_a_session_is_not_claimed_before_its_time(store: Store) -> None:
    add_waiting(store, "s")
    set_head(store, "s", wake_at="2199-01-01T00:00:00.000+00:00")
    claims = make_claims(store)
    assert ids(claims) == []
    set_head(store, "s", wake_at=PAST)
    assert ids(claims) == ["s"]


@pytest.mark.parametrize("status", ["needs_approval", "needs_decision"])
def test_a_session_that_waits_for_a_person_takes_no_message_before(store: Store, status: str) -> None:
    made = add_waiting(store, "s")
    claims = make_claims(store)
    (claimed,) = claims.claim(1)
    assert claims.hand_back(claimed, status, answered=1)
    store.database.commit([ask_for_run("s", 2, make_lane("", made), store.database.now())])
    assert wake_at(store, "s") == ""
    assert ids(claims) == []


def test_a_message_that_comes_during_a_run_makes_the_session_wait_after_it(store: Store) -> None:
    made = add_waiting(store, "s")
    claims = make_claims(store)
    (claimed,) = claims.claim(1)
    store.database.commit([ask_for_run("s", 2, make_lane("", made), store.database.now())])
    assert claims.hand_back(claimed, "done", answered=1)
    (again,) = claims.claim(1)
    assert again.asked == 2
    assert claims.hand_back(again, "done", answered=2)
    assert ids(claims) == []


def test_the_sessions_of_a_worker_on_another_host_are_taken_over_once_its_lease_is_over(
    store: Store,
) -> None:
    add_waiting(store, "s")
    dead, claims = make_claims(store, host=ELSEWHERE), make_claims(store)
    (lost,) = dead.claim(1)
    assert claims.take_over(5) == []
    store.database.commit([("UPDATE workers SET lease_until = ? WHERE id = ?", (PAST, dead.profile.id))])
    if not store.database.has_clock:
        assert claims.take_over(5) == [], "a clock may have been set, so the owner is watched before"
        claims._watched[dead.profile.id] = (PAST, -1e9)
    assert [one.session_id for one in claims.take_over(5)] == ["s"]
    assert not dead.hand_back(lost, "done")
    assert claims.list_owned() == {"s"}
    assert dead.list_owned() == set()


def test_the_sessions_of_a_process_of_this_host_that_has_ended_are_taken_over_at_once(store: Store) -> None:
    add_waiting(store, "s")
    claims, gone = make_claims(store), make_claims(store)
    gone.claim(1)
    host, pid, _, nonce = gone.profile.id.split(":")
    name = f"{host}:{pid}:1:{nonce}"
    set_head(store, "s", owner=name)
    store.database.commit([("UPDATE workers SET id = ? WHERE id = ?", (name, gone.profile.id))])
    assert [one.session_id for one in claims.take_over(5)] == ["s"]


def test_a_worker_that_owns_a_session_keeps_its_row(store: Store) -> None:
    add_waiting(store, "s")
    claims = make_claims(store)
    (claimed,) = claims.claim(1)
    claims.leave()
    assert store.database.query("SELECT id, state FROM workers") == [(claims.profile.id, "ended")]
    other = make_claims(store)
    assert [one.session_id for one in other.take_over(1)] == ["s"]
    assert other.hand_back(claimed._replace(session_id="s"), "done", answered=1)
    other.leave()
    claims.leave()
    assert store.database.query("SELECT id FROM workers") == []


def test_a_lane_says_what_a_worker_must_offer(store: Store) -> None:
    made = add_waiting(store, "s", tenant="ada", needs=("b", "a"), priority=7, agent="x" * 300)
    lane = parse_lane(make_lane("ada", made))
    assert lane == ("ada", frozenset({"a", "b"}), 7, make_agent_key("x" * 300))
    assert len(make_lane("t" * 64, made.model_copy(update={"needs": ("n" * 90,)}))) <= 300
    for wrong in (["a b"], ["a|b"], ["x" * 60, "y" * 60], [""]):
        with pytest.raises(UsageError):
            check_needs(wrong)


def test_times_are_those_of_the_database(store: Store) -> None:
    add_waiting(store, "s")
    if store.database.has_clock:
        clock = {"postgresql": "SELECT CAST(clock_timestamp() AT TIME ZONE 'UTC' AS TEXT)"}
        sql = clock.get(store.url.partition(":")[0], "SELECT CAST(UTC_TIMESTAMP(3) AS CHAR)")
        server = datetime.fromisoformat(f"{store.database.query(sql)[0][0]}+00:00")
        assert abs((store.database.now() - server).total_seconds()) < 5
    assert wake_at(store, "s") <= format_time(store.database.now())
    assert AGENT in store.database.query("SELECT lane FROM heads")[0][0]
