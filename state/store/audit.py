"""Verifies the record of approvals and effects: that it is what was written, and that it makes sense."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from state.store.call_moves import CallMove, call_moves, json_object
from state.store.call_rules import CallTrail
from state.store.database import Database
from state.store.health import Health, examine, places_set_aside
from state.store.schema import KEYS

Trails = dict[str, CallTrail]
Paths = dict[str, dict[str, None]]
"""Call id -> the paths of the files that it changed."""

_PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class Breach:
    """A record that breaks the chain, or the rules."""

    session_id: str
    table: str
    place: str
    """The key of the row within its table; empty if the row is gone."""
    record: int
    """Its number in the session's hash chain; -1 if it is not known."""
    problem: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """What is recorded of one call, for people."""

    session_id: str
    """Whose journal tells of it last."""
    call_id: str
    moves: tuple[CallMove, ...]
    paths: tuple[str, ...]
    """The files that it changed."""


@dataclass(frozen=True, slots=True)
class AuditedSession:
    session_id: str
    records: int
    chain: str
    """The digest of the newest record: it covers all of them. Kept elsewhere, it proves them."""


@dataclass(frozen=True, slots=True)
class Audit:
    sessions: tuple[AuditedSession, ...]
    """The session behind those that it was forked from."""
    breaches: tuple[Breach, ...]
    calls: tuple[AuditedCall, ...]


def audit(database: Database, lineage: list[str]) -> Audit:
    """Verify a session and what it was forked from, oldest first; nothing is changed."""
    sessions: list[AuditedSession] = []
    breaches: list[Breach] = []
    trails: Trails = {}
    for session_id in lineage:
        rows = database.query("SELECT records, chain FROM heads WHERE session_id = ?", (session_id,))
        records, chain = (int(rows[0][0]), str(rows[0][1])) if rows else (0, "")
        sessions.append(AuditedSession(session_id, records, chain))
        breaches += _chain_breaches(database, session_id, records)
        trails = {call_id: trail.forked() for call_id, trail in trails.items()}
        breaches += _rule_breaches(database, session_id, records, trails)
    paths = {session_id: _paths(database, session_id) for session_id in lineage}
    calls = (_audited(trail, paths) for trail in trails.values() if trail.moves)
    return Audit(tuple(sessions), tuple(breaches), tuple(calls))


def _chain_breaches(database: Database, session_id: str, records: int) -> Iterator[Breach]:
    health = examine(database, session_id)
    for damage in health.damages:
        record = _record_of(database, session_id, damage.table, damage.place)
        yield Breach(session_id, damage.table, damage.place, record, damage.reason)
    for damage in health.set_aside:
        record = _record_of(database, session_id, damage.table, damage.place)
        yield Breach(session_id, damage.table, damage.place, record, f"{damage.reason}; it was set aside")
    numbers = _numbers(database, session_id)
    yield from _missing(session_id, records, health, numbers)
    yield from _strangers(database, session_id, numbers)


def _numbers(database: Database, session_id: str) -> dict[int, list[tuple[str, str]]]:
    """Return the table and the key of the rows that have each number of the chain."""
    found: dict[int, list[tuple[str, str]]] = {}
    for table, keys in KEYS.items():
        rows = database.query(
            f"SELECT record, {', '.join(keys)} FROM {table} WHERE session_id = ?", (session_id,)
        )
        for record, *place in rows:
            found.setdefault(int(record), []).append((table, "/".join(map(str, place))))
    return found


def _missing(session_id: str, records: int, health: Health, numbers: Mapping[int, Any]) -> Iterator[Breach]:
    """Name the numbers of the records that are gone."""
    if not health.missing:
        return
    gone = [record for record in range(records) if record not in numbers]
    for record in gone:
        yield Breach(session_id, "", "", record, "is gone")
    if len(gone) < health.missing:
        yield Breach(session_id, "", "", -1, "the end of the chain is not where it was: records are gone")


def _strangers(
    database: Database, session_id: str, numbers: Mapping[int, list[tuple[str, str]]]
) -> Iterator[Breach]:
    """Name the rows that no writer put there: behind the end, or with the number of another."""
    # Asked after the rows were read: what a running session adds in between is no stranger.
    head = database.query("SELECT records FROM heads WHERE session_id = ?", (session_id,))
    records = int(head[0][0]) if head else 0
    for record, places in sorted(numbers.items()):
        for table, place in places:
            if record >= records:
                yield Breach(session_id, table, place, record, "stands behind the end of the chain")
            elif len(places) > 1:
                yield Breach(session_id, table, place, record, "has the same number as another record")


def _record_of(database: Database, session_id: str, table: str, place: str) -> int:
    condition = " AND ".join(f"{key} = ?" for key in KEYS[table])
    # An output is named by its call, whose id may hold a slash.
    values = place.rsplit("/", len(KEYS[table]) - 1)
    rows = database.query(
        f"SELECT record FROM {table} WHERE session_id = ? AND {condition}", (session_id, *values)
    )
    return int(rows[0][0]) if rows else -1


def _rule_breaches(database: Database, session_id: str, records: int, trails: Trails) -> Iterator[Breach]:
    """Follow the moves of every call, and what the beginnings of runs say about waiting ones.

    What a running session adds behind its first `records` is left for the next time.
    """
    wishes = _wishes(database, session_id)
    began = _beginnings(database, session_id)
    first_traced = began[0][0] if began else None
    for move in call_moves(database, session_id):
        if move.record >= records:
            continue
        while began and began[0][0] < move.record:
            _judged_again(began.pop(0)[1], trails)
        trail = trails.setdefault(move.call_id, CallTrail(move.call_id))
        trail.wish_sha256 = wishes.get(move.call_id, trail.wish_sha256)
        is_traced = first_traced is not None and first_traced < move.record
        for problem in trail.take(move, is_traced):
            yield Breach(session_id, "calls", str(move.n), move.record, problem, move.call_id)


def _beginnings(database: Database, session_id: str) -> list[tuple[int, list[Mapping[str, Any]]]]:
    """Return the record number of each beginning of a run, and the waiting calls that it changed."""
    damaged = places_set_aside(database, session_id, "traces")
    rows = database.query(
        "SELECT n, record, body FROM traces WHERE session_id = ? AND event = 'run_began' ORDER BY n",
        (session_id,),
    )
    found: list[tuple[int, list[Mapping[str, Any]]]] = []
    for n, record, body in rows:
        if str(n) not in damaged:
            changes: Any = json_object(body).get("changes")
            calls = cast(dict[str, Any], changes).get("pending_tool_calls") if _is_object(changes) else None
            found.append((int(record), _objects(calls)))
    return found


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the JSON objects of an array; whatever else is there is no call and no block."""
    elements = cast(list[Any], value) if isinstance(value, list) else []
    return [element for element in elements if _is_object(element)]


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _judged_again(calls: list[Mapping[str, Any]], trails: Trails) -> None:
    for call in calls:
        trail = trails.get(str(call.get("call_id")))
        if trail is not None:
            trail.judged_again(call, _sha256(str(call.get("arguments", ""))))


def _wishes(database: Database, session_id: str) -> dict[str, str]:
    """Return the digest of the arguments that each call has in the message that asks for it."""
    damaged = places_set_aside(database, session_id, "messages")
    found: dict[str, str] = {}
    log, idx = -1, -1
    while True:
        rows = database.query(
            "SELECT log, idx, body FROM messages WHERE session_id = ? AND (log > ? OR (log = ? AND idx > ?))"
            f" AND body LIKE ? ORDER BY log, idx LIMIT {_PAGE_ROWS}",
            (session_id, log, log, idx, '%"tool_use"%'),
        )
        for log, idx, body in rows:
            if f"{log}/{idx}" not in damaged:
                blocks = _objects(json_object(body).get("blocks"))
                uses = (block for block in blocks if block.get("kind") == "tool_use")
                found |= {str(use.get("call_id")): _sha256(str(use.get("arguments", ""))) for use in uses}
        if len(rows) < _PAGE_ROWS:
            return found


def _audited(trail: CallTrail, paths: Mapping[str, Paths]) -> AuditedCall:
    last = trail.moves[-1].session_id
    changed = paths[last].get(trail.call_id, {})
    return AuditedCall(last, trail.call_id, tuple(trail.moves), tuple(changed))


def _paths(database: Database, session_id: str) -> Paths:
    """Return the files that each call changed, in order."""
    found: Paths = {}
    rows = database.query("SELECT call_id, path FROM files WHERE session_id = ? ORDER BY n", (session_id,))
    for call_id, path in rows:
        found.setdefault(call_id, {})[path] = None
    return found


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
