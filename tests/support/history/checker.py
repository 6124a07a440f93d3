"""Checks the history of many processes against what their store kept, and returns the violations.

The rules: one owner of a session at a time; no acknowledged message is lost, none is there twice, and those
of one sender stay in order; no call takes effect twice, and none without its approval or after its denial;
what the store says of a call agrees with the effect; no call starts more often than processes died, and once;
and a session whose call kills its process is parked after three deaths.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from support.history.log import Event

from sandbur.state.store.sessions.deaths import MOST_DEATHS, PARKED


class Ownership(NamedTuple):
    """The owner of a session after a commit, in the order of commits."""

    epoch: int
    owner: str
    """The runner; empty while nobody owns the session."""
    records: int


@dataclass(frozen=True)
class StoredCall:
    """What the store says of one call."""

    id: str
    needs_approval: bool = False
    is_read: bool = False
    starts: int = 0
    outcome: str = ""
    """`ok`, `denied` and so on; empty if the call has no result."""


@dataclass(frozen=True)
class StoredSession:
    """What the store kept of a session at the end."""

    is_at_rest: bool = True
    messages: Sequence[str] = ()
    """The messages of people in the history, then those that still wait, in order."""
    calls: Sequence[StoredCall] = ()
    owners: Sequence[Ownership] = field(default=())
    status: str = ""
    is_deadly: bool = False
    """Whether a call of the session kills every process that makes it."""


def check_history(history: Sequence[Event], sessions: Mapping[str, StoredSession], deaths: int) -> list[str]:
    """Return the violations. `deaths` is how many processes ended or slept past their lease."""
    return [
        *_check_owners(sessions),
        *_check_messages(history, sessions),
        *_check_effects(history, sessions),
        *_check_approvals(history, sessions),
        *_check_recoveries(sessions, deaths),
    ]


def _check_owners(sessions: Mapping[str, StoredSession]) -> Iterator[str]:
    for name, session in sessions.items():
        owners: dict[int, str] = {}
        before = Ownership(0, "", 0)
        for now in session.owners:
            if now.epoch < before.epoch:
                yield f"{name}: epoch {now.epoch} after {before.epoch}"
            if now.records < before.records:
                yield f"{name}: {now.records} records after {before.records}"
            if now.owner and owners.setdefault(now.epoch, now.owner) != now.owner:
                yield f"{name}: two owners in epoch {now.epoch}: {owners[now.epoch]} and {now.owner}"
            before = now


def _check_messages(history: Sequence[Event], sessions: Mapping[str, StoredSession]) -> Iterator[str]:
    sent: dict[str, Event] = {}
    acknowledged: dict[str, list[Event]] = defaultdict(list)
    for event in history:
        if event.kind in ("send", "steer"):
            sent[event.text] = event
            if event.phase == "ok":
                acknowledged[event.session].append(event)
            elif event.phase == "refused":
                sent.pop(event.text)
    for name, session in sessions.items():
        counts = Counter(session.messages)
        for text, count in counts.items():
            if count > 1:
                yield f"{name}: message {text} is there {count} times"
            if text not in sent or sent[text].session != name:
                yield f"{name}: nobody sent message {text} there"
        for event in acknowledged[name]:
            if event.text not in counts:
                yield f"{name}: message {event.text} was acknowledged and is lost"
        yield from _check_order(name, session, acknowledged[name])
    for name in acknowledged.keys() - sessions.keys():
        yield f"{name}: the session is lost"


def _check_order(name: str, session: StoredSession, acknowledged: Sequence[Event]) -> Iterator[str]:
    """Messages of one sender, each sent after the one before was acknowledged, are answered in that order."""
    places = {text: place for place, text in enumerate(session.messages)}
    last: dict[str, tuple[int, str]] = {}
    for event in acknowledged:
        if event.kind != "send" or event.text not in places:
            continue  # a steering message may overtake those that wait for the end of the run
        before = last.get(event.process)
        if before is not None and places[event.text] < before[0]:
            yield f"{name}: message {event.text} came before {before[1]}, which was acknowledged earlier"
        last[event.process] = (places[event.text], event.text)


def _check_effects(history: Sequence[Event], sessions: Mapping[str, StoredSession]) -> Iterator[str]:
    effects = Counter((event.session, event.text) for event in history if event.kind == "effect")
    reruns, settled = _count_settlements(history, "rerun"), _count_settlements(history, "done")
    known = {(name, call.id): call for name, session in sessions.items() for call in session.calls}
    for (name, call_id), count in effects.items():
        call = known.get((name, call_id))
        if call is None or not call.starts:
            yield f"{name}: call {call_id} took effect, and its start is not in the store"
        elif call.is_read:
            continue
        elif count > 1 + reruns[name, call_id]:
            yield f"{name}: call {call_id} took effect {count} times"
        elif call.outcome in ("denied", "cancelled"):
            yield f"{name}: call {call_id} took effect, and the store says {call.outcome}"
    for (name, call_id), call in known.items():
        # A person may say that a call took effect, without knowing.
        if call.outcome == "ok" and not effects[name, call_id] and not settled[name, call_id]:
            yield f"{name}: call {call_id} is done in the store, and never took effect"
        if not call.is_read and call.starts > 1 + reruns[name, call_id]:
            yield f"{name}: call {call_id} was started {call.starts} times"


def _count_settlements(history: Sequence[Event], outcome: str) -> Counter[tuple[str, str]]:
    return Counter(
        (event.session, event.text)
        for event in history
        if event.kind == "settle" and event.phase == "asked" and event.more.get("outcome") == outcome
    )


def _check_approvals(history: Sequence[Event], sessions: Mapping[str, StoredSession]) -> Iterator[str]:
    asking = {(name, call.id) for name, one in sessions.items() for call in one.calls if call.needs_approval}
    approved: set[tuple[str, str]] = set()
    for event in history:
        place = (event.session, event.text)
        if event.kind == "approve" and event.phase == "asked":
            approved.add(place)
        elif event.kind == "effect" and place in asking and place not in approved:
            yield f"{event.session}: call {event.text} took effect before a person approved it"


def _check_recoveries(sessions: Mapping[str, StoredSession], deaths: int) -> Iterator[str]:
    for name, session in sessions.items():
        if not session.is_at_rest:
            yield f"{name}: the session never came to rest"
        if session.is_deadly and session.status != PARKED:
            yield f"{name}: the session kills its process and is not parked, but {session.status}"
        most = MOST_DEATHS if session.is_deadly else deaths + 1
        for call in session.calls:
            if call.starts > most:
                yield f"{name}: call {call.id} was started {call.starts} times after {deaths} deaths"


def list_rules(violations: Collection[str]) -> set[str]:
    """Return the violations without their sessions and ids, for tests."""
    return {one.partition(": ")[2] for one in violations}
