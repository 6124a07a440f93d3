"""A call that kills its process is found, and its session is parked: no other session dies with it twice."""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.crash.fleet.deadly_victim import CALLS, DEADLY, NAME, make_agent
from support.stores.databases import DATABASES, fresh_url
from support.victims.victims import run_victim

from sandbur.agent.fleet.messages import create_session, send_message
from sandbur.state.maintenance.verify import audit
from sandbur.state.store.sessions.deaths import MOST_DEATHS
from sandbur.state.store.store import Store

pytestmark = pytest.mark.slow

INNOCENT = ("one", "two", "three")
MOST_STARTS = 12


def add_sessions(
    url: str, log: Path, effect: str, mode: str, names: Sequence[str] = (DEADLY, *INNOCENT)
) -> None:
    store = Store.open(url)
    agent = make_agent(log, effect, mode)

    async def add() -> None:
        for name in names:
            await create_session(store, NAME, agent, name)
            await send_message(store, name, name)

    asyncio.run(add())
    store.close()


def keep_working(url: str, log: Path, effect: str, mode: str) -> int:
    """Start the worker again until it ends in order; return how often it died."""
    for deaths in range(MOST_STARTS):
        words = (url, str(log), effect, mode)
        ended = run_victim("../crash/fleet/deadly_victim", *words, SANDBUR_LEASE_S="1")
        if ended.code == 0:
            return deaths
        assert ended.code == -signal.SIGKILL, ended.err
    raise AssertionError(f"The worker died {MOST_STARTS} times: {log.read_text()}")


def require_innocent_done(store: Store, log: Path) -> None:
    """Check that the sessions beside the deadly one ended, and that each lost at most the end of one call."""
    effects = Counter(line for line in log.read_text().split() if line != DEADLY)
    assert max(effects.values()) == 1
    for name in INNOCENT:
        view = store.show(name)
        assert view.summary.status == "done"
        results = [result.content for one in view.state.chat_history for result in one.tool_results]
        assert len(results) == CALLS
        assert sum("took effect" in text for text in results) >= CALLS - 1, results


def require_parked(url: str, log: Path, effect: str) -> None:
    """Let workers die from a call, and check that it was tried three times and took no other session down
    twice.
    """
    add_sessions(url, log, effect, "yolo")
    died = keep_working(url, log, effect, "yolo")
    store = Store.open(url)
    require_innocent_done(store, log)
    assert died == log.read_text().split().count(DEADLY) == MOST_DEATHS
    assert store.index.summary(DEADLY).status == "parked"
    reason = store.index.load_deaths(DEADLY).reason
    assert reason.startswith("Its process died 3 times in a row while it ran explode({}), on ")
    assert not audit(store.database, [DEADLY, *INNOCENT]).breaches
    store.close()


@pytest.mark.parametrize("kind", DATABASES)
def test_a_call_that_kills_its_process_is_tried_three_times_and_takes_no_other_session_down_twice(
    tmp_path: Path, kind: str
) -> None:
    with fresh_url(kind, tmp_path) as url:
        require_parked(url, tmp_path / "log", "read")


@pytest.mark.parametrize("effect", ["idempotent", "verifiable", "effect"])
def test_a_call_with_an_effect_that_kills_its_process_is_tried_three_times(
    tmp_path: Path, effect: str
) -> None:
    require_parked(f"sqlite:///{tmp_path}/store.db", tmp_path / "log", effect)


@pytest.mark.parametrize(
    ("explosions", "point"),
    [(1, "death_before_commit"), (1, "death_committed"), (3, "park_before_commit"), (3, "parked")],
)
def test_a_worker_that_is_killed_while_it_counts_or_parks_costs_no_further_try(
    tmp_path: Path, explosions: int, point: str
) -> None:
    log, url = tmp_path / "log", f"sqlite:///{tmp_path}/store.db"
    add_sessions(url, log, "read", "yolo", names=(DEADLY,))
    words = (url, str(log), "read", "yolo")
    for kills in (*[""] * explosions, point):
        died = run_victim("../crash/fleet/deadly_victim", *words, point=kills, SANDBUR_LEASE_S="1")
        assert died.code == -signal.SIGKILL, died.err
    keep_working(url, log, "read", "yolo")
    store = Store.open(url)
    assert store.index.summary(DEADLY).status == "parked"
    assert "while it ran explode({})" in store.index.load_deaths(DEADLY).reason
    assert log.read_text().split().count(DEADLY) <= MOST_DEATHS
    assert not audit(store.database, [DEADLY]).breaches
    store.close()


def test_a_person_decides_about_a_call_whose_effect_is_unknown_after_one_death(tmp_path: Path) -> None:
    log, url = tmp_path / "log", f"sqlite:///{tmp_path}/store.db"
    add_sessions(url, log, "effect", "interactive")
    assert keep_working(url, log, "effect", "interactive") == 1
    store = Store.open(url)
    assert store.index.summary(DEADLY).status == "needs_decision"
    store.close()
