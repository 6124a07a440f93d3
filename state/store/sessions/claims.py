"""Claims: which waiting sessions a worker runs, and those of dead workers that it takes over."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ...databases.database import Database, Expression, GuardedUpdate, Statement, exists, insert, update
from ...databases.schema import IS_OWNED, LAST_COMMIT, WAITS
from ...errors import GuardFailed, StoreError
from ...lazy_dataclass import dataclass
from ...process.clock import format_time
from ...process.crashpoints import reach
from ...process.identity import is_process_gone
from .deaths import PARKED, record_death
from .inbox import drop_stops, find_stopped
from .lanes import CHANNEL, Lane, parse_lane
from .lease import make_lease_end
from .listing import is_fresh, read_beat_s
from .sealed_limits import REMOVED, is_changed, load_codes, note_limit, seal_limit

NOT_BY_MESSAGE = ("needs_approval", "needs_decision", PARKED)
"""The statuses of sessions that a person has to decide about before they take another message."""
_MOST_ROUNDS = 12
_KEPT_S = 24 * 3600
_NEVER = "9999"


class Claimed(NamedTuple):
    """A session that this worker has to run or to hand back."""

    session_id: str
    lane: Lane
    attempts: int
    """The number of runs of the session that failed in a row."""
    asked: int
    """The number of the newest message that asks for a run; 0 if there is none."""
    status: str
    epoch: int


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """What a worker offers."""

    id: str
    """A name that no other start of a worker has: it is the `owner` of all its sessions."""
    host: str
    agents: frozenset[str]
    """The keys of its agents, see `make_agent_key`."""
    labels: frozenset[str]
    concurrency: int


class _Quota(NamedTuple):
    tenant: str
    most_running: int
    version: int


@dataclass(slots=True)
class _Waiting:
    """A tenant with waiting sessions: how many of its sessions run, and its lanes, the first one first."""

    running: int
    quota: _Quota | None
    lanes: list[str] = field(default_factory=list[str])

    @property
    def limits(self) -> tuple[int, ...]:
        return () if self.quota is None else (int(self.quota.most_running),)


class WorkerClaims:
    """The claims of one worker on the sessions of all tenants. Every method waits for the database."""

    def __init__(self, database: Database, profile: WorkerProfile) -> None:
        self.profile = profile
        self.claimed: set[str] = set()
        """The ids of the sessions that this worker claimed and did not hand back."""
        self.left_over = 0
        """How many sessions of dead workers the last `take_over` had to leave, because all places are taken,
        or because the server has not noticed yet that a dead worker was in the middle of a transaction."""
        self.changed_quotas: set[str] = set()
        """The tenants whose sessions its last look left, because their quotas were changed from outside."""
        self._is_unsure = False
        """Whether a session that could not be handed back may still be this worker's."""
        self._lock = threading.Lock()
        """Held while it changes what is this worker's, and while that is compared with `claimed`."""
        self._database = database
        self._watched: dict[str, tuple[str, float]] = {}
        """Owner without a valid lease -> its last lease, and the uptime at which that was first seen."""

    def register(self) -> None:
        """Begin the lease of the worker."""
        profile = self.profile
        row = {"id": profile.id, "host": profile.host, "labels": ",".join(sorted(profile.labels))}
        row |= {"agents": "\n".join(sorted(profile.agents)), "concurrency": str(profile.concurrency)}
        until = make_lease_end(self._database.now())
        started = format_time(self._database.now())
        self._database.commit(
            [insert("workers", {**row, "state": "running", "started_at": started, "lease_until": until})]
        )
        reach("worker_registered")

    async def beat(self, state: str = "running") -> None:
        """Renew the lease of the worker, and with it that of every session that it owns."""
        until = make_lease_end(self._database.now())
        await self._database.acommit(
            [update("workers", {"lease_until": until, "state": state}, {"id": self.profile.id})]
        )

    def leave(self) -> None:
        """End the lease. The rows of ended workers are removed once they own nothing."""
        ended = update("workers", {"lease_until": "", "state": "ended"}, {"id": self.profile.id})
        before = format_time(self._database.now() - timedelta(seconds=_KEPT_S))
        unused = (
            "DELETE FROM workers WHERE (id = ? OR lease_until < ?)"
            f" AND NOT EXISTS (SELECT 1 FROM heads WHERE {IS_OWNED} AND owner = workers.id)"
        )
        self._database.commit([ended, (unused, (self.profile.id, before))])

    def count_workers(self) -> int:
        """Return how many workers the store knows; those that ended long ago are not among them."""
        return int(self._database.query("SELECT COUNT(*) FROM workers WHERE lease_until <> ''")[0][0])

    def list_owned(self) -> set[str]:
        """Return the sessions that are this worker's according to the store."""
        return {one.session_id for one in self._load_owned()}

    def find_stopped(self, session_ids: Collection[str]) -> frozenset[str]:
        """Return those of these running sessions whose run a person asked to stop."""
        return find_stopped(self._database, session_ids)

    def find_stopped_before(self, claimed: Sequence[Claimed]) -> frozenset[str]:
        """Return the sessions whose run a person asked to stop before its worker died, and which this worker
        has claimed now. Requests to stop earlier runs of the claimed sessions are removed.
        """
        cut = [one.session_id for one in claimed if one.status == "running"]
        drop_stops(self._database, [one.session_id for one in claimed if one.status != "running"])
        return find_stopped(self._database, cut)

    def claim(self, most: int) -> list[Claimed]:
        """Claim up to `most` sessions that wait and are due; return them.

        Tenants with fewer running sessions come first; within a tenant, those with the higher priority, and
        then those that wait longest.
        """
        due = format_time(self._database.now())
        claimed: list[Claimed] = []
        if self._is_unsure:
            claimed, self._is_unsure = self._take_in(), False
        waiting = self._load_waiting()
        for _ in range(_MOST_ROUNDS):
            left = most - len(claimed)
            shares = _share(waiting, left)
            if not shares:
                break
            reach("claim_before_commit")
            self._take_shares(waiting, shares, due)
            reach("claim_committed")
            found = self._take_in()
            claimed += found
            _use_up(waiting, shares, found)
        return claimed

    def take_over(self, most: int) -> list[Claimed]:
        """Claim up to `most` sessions whose worker is dead; return them. Their deaths are counted.

        A worker is dead if its lease is over by the clock of the database, or if its process on this machine
        has ended. A session of another process, such as `sandbur approve`, is taken over if it was asked for
        by a message.
        """
        now = self._database.now()
        rows = self._load_suspects(now)
        dead = {
            (owner, lane): int(count)
            for owner, lane, of_worker, of_session, asked, count in rows
            if (of_worker is not None or asked) and self._can_run(lane)
            if self._is_dead(owner, of_session if of_worker is None else of_worker, now)
        }
        self.left_over = sum(dead.values())
        if not dead or most < 1:
            return []
        found: list[Claimed] = []
        for owner, lane in dead:
            if len(found) < most:
                reach("take_over_before_commit")
                self._database.commit([self._take_from(owner, lane, most - len(found), now)])
                reach("take_over_committed")
                taken = self._take_in()
                for one in (one for one in taken if one.status != PARKED):
                    record_death(self._database, one.session_id, one.epoch - 1, owner)
                found += taken
        self.left_over -= len(found)
        return found

    def hand_back(
        self,
        claimed: Claimed,
        status: str = "",
        wake_at: str | None = "",
        attempts: int = 0,
        answered: int = 0,
    ) -> bool:
        """Give a session back. Return False if another worker has taken it over.

        `wake_at` is the time from which it waits for a worker again; empty if it does not, None to keep the
        time that its run has set. If a message with
        a number above `answered` asks for a run, it waits at once, unless a person has to decide before.
        `status` is its new status; empty to keep it.
        """
        columns: dict[str, Any] = {"owner": "", "lease_until": "", "attempts": attempts}
        if wake_at is not None:
            now = self._database.now()
            columns["wake_at"] = make_wake_at(status or claimed.status, wake_at, answered, now)
        if status:
            columns |= {"status": status, "updated_at": Expression(LAST_COMMIT)}
        mine = {"session_id": claimed.session_id, "owner": self.profile.id}
        landed = exists("heads", {"session_id": claimed.session_id, "owner": ""})
        reach("hand_back_before_commit")
        guard = GuardedUpdate(update("heads", columns, mine), landed)
        with self._lock:
            try:
                self._database.commit(self._database.notify(CHANNEL) if wake_at else [], guard)
            except GuardFailed:
                return False
            except StoreError:
                # It is still this worker's: the next claim finds it again.
                self._is_unsure = True
                raise
            finally:
                self.claimed.discard(claimed.session_id)
        reach("handed_back")
        return True

    def _load_suspects(self, now: datetime) -> list[tuple[Any, ...]]:
        """Return the owners, with their lanes and leases, that may be dead."""
        here = f"{os.uname().nodename}:"
        # Without a clock of its own, the database cannot say whose lease is over.
        over = format_time(now) if self._database.has_clock else _NEVER
        return self._database.query(
            "SELECT h.owner, h.lane, w.lease_until, MAX(h.lease_until), MAX(h.asked), COUNT(*) FROM heads h"
            f" LEFT JOIN workers w ON w.id = h.owner WHERE h.{IS_OWNED} AND h.lane > '' AND h.owner <> ?"
            f" AND (w.id IS NULL OR w.lease_until < ? OR SUBSTR(h.owner, 1, {len(here)}) = ?)"
            " GROUP BY h.owner, h.lane, w.lease_until",
            (self.profile.id, over, here),
        )

    def count_held_back(self) -> dict[str, int]:
        """Return how many sessions of each tenant this worker could run now, but for the tenant's quota."""
        due = format_time(self._database.now())
        full = [
            lane
            for one in self._load_waiting().values()
            if one.quota is not None and one.running >= one.quota.most_running
            for lane in one.lanes
        ]
        held: dict[str, int] = {}
        for lane in full:
            sql = f"SELECT COUNT(*) FROM heads WHERE {WAITS} AND lane = ? AND wake_at <= ?"
            if count := int(self._database.query(sql, (lane, due))[0][0]):
                tenant = parse_lane(lane).tenant
                held[tenant] = held.get(tenant, 0) + count
        return held

    def _load_waiting(self) -> dict[str, _Waiting]:
        """Return the tenants whose waiting sessions this worker can run."""
        # The quotas are read first: a claim of another worker after that changes their version.
        quotas = {one.tenant: one for one in (_Quota(*row) for row in self._database.query(_QUOTAS))}
        codes = load_codes(self._database)
        rows = self._database.query(_LANES)
        running: dict[str, int] = {}
        for lane, count in rows:
            if count:
                tenant = parse_lane(lane).tenant
                running[tenant] = running.get(tenant, 0) + int(count)
        found: dict[str, _Waiting] = {}
        fitting = [lane for lane, count in rows if not count and self._can_run(lane)]
        random.shuffle(fitting)
        for lane in sorted(fitting, key=lambda lane: -parse_lane(lane).priority):
            tenant = parse_lane(lane).tenant
            one = found.setdefault(tenant, _Waiting(running.get(tenant, 0), quotas.get(tenant)))
            one.lanes.append(lane)
        self.changed_quotas = {
            tenant
            for tenant, one in found.items()
            if is_changed(self._database, codes, "quota", tenant, one.limits)
        }
        return {tenant: one for tenant, one in found.items() if tenant not in self.changed_quotas}

    def _take_shares(self, waiting: Mapping[str, _Waiting], shares: Mapping[str, int], due: str) -> None:
        """Claim sessions of lanes. A tenant with a quota has a commit of its own, which fails if another
        worker claimed sessions of the tenant at the same time.
        """
        quotas = {one.lanes[0]: one.quota for one in waiting.values() if one.lanes and one.quota is not None}
        takes = {lane: self._take_waiting(lane, count, due) for lane, count in shares.items()}
        if free := [take for lane, take in takes.items() if lane not in quotas]:
            self._database.commit(free)
        for lane, quota in quotas.items():
            if lane in takes:
                was = {"tenant": quota.tenant, "version": quota.version}
                claim = update("quotas", {"version": quota.version + 1}, was)
                landed = exists("quotas", {**was, "version": quota.version + 1})
                with suppress(GuardFailed):
                    self._database.commit([takes[lane]], GuardedUpdate(claim, landed))

    def _can_run(self, lane: str) -> bool:
        return parse_lane(lane).fits(self.profile.agents, self.profile.labels)

    def _take_waiting(self, lane: str, count: int, due: str) -> Statement:
        return self._take(f"{WAITS} AND lane = ? AND wake_at <= ? ORDER BY wake_at", (lane, due), count)

    def _take_from(self, owner: str, lane: str, count: int, now: datetime) -> Statement:
        """Return the statement that claims sessions of a dead owner. An owner that renewed its lease
        meanwhile keeps them.
        """
        alive = "NOT EXISTS (SELECT 1 FROM workers WHERE id = heads.owner AND lease_until > ?)"
        until = "" if is_process_gone(owner) else format_time(now)
        condition = f"{IS_OWNED} AND owner = ? AND lane = ?" + (f" AND {alive}" if until else "")
        return self._take(condition, (owner, lane, until) if until else (owner, lane), count)

    def _take(self, condition: str, values: Sequence[Any], count: int) -> Statement:
        """Return the statement that makes at most `count` sessions this worker's."""
        chosen = f"SELECT session_id FROM heads WHERE {condition} LIMIT {count}{self._database.skip_locked}"
        # As a common table, the limited query runs once, however the update is planned.
        return (
            "UPDATE heads SET owner = ?, epoch = epoch + 1 WHERE session_id IN"
            f" (WITH chosen AS ({chosen}) SELECT session_id FROM chosen)",
            (self.profile.id, *values),
        )

    def _take_in(self) -> list[Claimed]:
        """Return what the store says is this worker's, and was not before."""
        with self._lock:
            found = [one for one in self._load_owned() if one.session_id not in self.claimed]
            self.claimed |= {one.session_id for one in found}
        return found

    def _load_owned(self) -> list[Claimed]:
        rows = self._database.query(
            "SELECT session_id, lane, attempts, asked, status, epoch FROM heads"
            f" WHERE {IS_OWNED} AND owner = ? AND lane > ''",
            (self.profile.id,),
        )
        return [
            Claimed(str(session_id), parse_lane(lane), int(attempts), int(asked), str(status), int(epoch))
            for session_id, lane, attempts, asked, status, epoch in rows
        ]

    def _is_dead(self, owner: str, lease_until: str, now: datetime) -> bool:
        if not lease_until or is_process_gone(owner):
            return True
        if is_fresh(lease_until, now):
            self._watched.pop(owner, None)
            return False
        if self._database.has_clock:
            return True
        # The clock of this machine may have been set. An owner that lives renews its lease meanwhile.
        known, since = self._watched.setdefault(owner, (lease_until, time.monotonic()))
        if known != lease_until:
            self._watched[owner] = lease_until, time.monotonic()
            return False
        return time.monotonic() - since > read_beat_s() * 1.5


def write_quota(database: Database, tenant: str, most_running: int) -> None:
    """Limit how many sessions of a tenant run at once, on all workers together; 0 removes the limit."""
    row = {"tenant": tenant, "most_running": most_running, "version": 0}
    removal = ("DELETE FROM quotas WHERE tenant = ?", (tenant,))
    code = seal_limit(database, "quota", tenant, (most_running,) if most_running else REMOVED)
    database.commit([removal, insert("quotas", row), *code] if most_running else [removal, *code])
    note_limit(database, "quota", tenant)


def make_wake_at(status: str, wake_at: str, answered: int, now: datetime) -> str | Expression:
    """Return the value of `wake_at` for a session whose run has ended with a status.

    Without a time of its own, it waits for a worker at once if a message above `answered` asks for that.
    """
    if wake_at or status in NOT_BY_MESSAGE:
        return wake_at
    return Expression("CASE WHEN asked > ? THEN ? ELSE '' END", (answered, format_time(now)))


def ask_for_run(session_id: str, number: int, lane: str, now: datetime) -> Statement:
    """Return the statement that makes a session wait for a worker, because of message `number`.

    If it runs, it waits as soon as its run has ended; if a person has to decide, after that.
    """
    marks = ", ".join("?" * len(NOT_BY_MESSAGE))
    waits = Expression(
        f"CASE WHEN owner = '' AND wake_at = '' AND status NOT IN ({marks}) THEN ? ELSE wake_at END",
        (*NOT_BY_MESSAGE, format_time(now)),
    )
    return update("heads", {"wake_at": waits, "asked": number, "lane": lane}, {"session_id": session_id})


_LANES = (
    # Finds each lane with one look into the index, however many sessions wait in it.
    "WITH RECURSIVE found (lane) AS ("
    f"SELECT MIN(lane) FROM heads WHERE {WAITS}"
    f" UNION ALL SELECT (SELECT MIN(lane) FROM heads WHERE {WAITS} AND lane > found.lane)"
    " FROM found WHERE found.lane IS NOT NULL"
    ") SELECT lane, 0 FROM found WHERE lane IS NOT NULL"
    f" UNION ALL SELECT lane, COUNT(*) FROM heads WHERE {IS_OWNED} AND lane > '' GROUP BY lane"
)
_QUOTAS = "SELECT tenant, most_running, version FROM quotas WHERE most_running > 0"


def _share(waiting: Mapping[str, _Waiting], slots: int) -> dict[str, int]:
    """Return lane -> how many of its sessions to claim: each slot goes to the tenant with the fewest
    running sessions.
    """
    tenants = [one for one in waiting.values() if one.lanes]
    running = {id(one): one.running for one in tenants}
    shares: dict[str, int] = {}
    for _ in range(slots):
        able = [one for one in tenants if one.quota is None or running[id(one)] < one.quota.most_running]
        if not able:
            break
        chosen = min(able, key=lambda one: running[id(one)])
        running[id(chosen)] += 1
        shares[chosen.lanes[0]] = shares.get(chosen.lanes[0], 0) + 1
    return shares


def _use_up(waiting: Mapping[str, _Waiting], shares: Mapping[str, int], found: Collection[Claimed]) -> None:
    """Count the claimed sessions, and leave lanes out that had fewer than asked for."""
    for tenant in waiting.values():
        if not tenant.lanes or (asked := shares.get(tenant.lanes[0])) is None:
            continue
        lane = parse_lane(tenant.lanes[0])
        got = sum(one.lane == lane for one in found)
        tenant.running += got
        if got < asked:
            del tenant.lanes[0]
