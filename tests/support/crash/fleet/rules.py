"""The rules of a history of clients and workers, and what breaks them.

A history is what the clients asked for and were answered, what the tools did, who owned each session, and
what the store has at the end. Times are those of the monotonic clock of the machine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["send", "approve", "settle", "stop", "effect", "owner", "fault", "heal"]
MOST_DEATHS_PER_FAULT = 2
"""A worker that was only stopped may find its sessions with another one, and be found dead again."""


class Event(NamedTuple):
    """Something that happened."""

    kind: Kind
    session: str
    what: str
    """The text of a message, the item of a call, the name of an owner, or the fault."""
    began: float
    ended: float = 0.0
    acknowledged: bool = True
    """Whether the answer of the store came back; if not, it may have happened or not."""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class AtRest:
    """A session at the end."""

    status: str
    messages: Sequence[str] = ()
    """The messages of the person in its history, in order."""
    waiting: Sequence[str] = ()
    """Messages that no run took."""
    breaches: int = 0
    """What an audit of its records found."""
    deaths: int = 0
    """How often another process found that its process was dead."""
    rested_at: float = 0.0
    """When it came to rest after the last fault; 0: it did not."""


@dataclass(frozen=True, slots=True)
class History:
    events: Sequence[Event]
    rest: Mapping[str, AtRest] = field(default_factory=dict[str, AtRest])
    needs_approval: frozenset[str] = frozenset()
    """The items of calls that must not run without an approval."""
    bound_s: float = 60.0
    """How long after the last fault every session may take."""


class Violation(NamedTuple):
    rule: str
    session: str
    what: str


def check(history: History) -> list[Violation]:
    """Return what breaks a rule; an empty list if nothing does."""
    rules = (_one_owner, _no_message_lost, _no_effect_twice, _none_unapproved, _recovery_is_bounded)
    return [found for rule in rules for found in rule(history)]


def _select(history: History, *kinds: Kind) -> Iterator[Event]:
    return (event for event in history.events if event.kind in kinds)


def _one_owner(history: History) -> Iterator[Violation]:
    """An epoch belongs to one owner, and epochs only rise."""
    owners: dict[tuple[str, int], str] = {}
    newest: dict[str, int] = {}
    for event in sorted(_select(history, "owner"), key=lambda event: event.began):
        if event.epoch < newest.get(event.session, 0):
            yield Violation("one owner", event.session, f"epoch {event.epoch} came after a later one")
        newest[event.session] = max(newest.get(event.session, 0), event.epoch)
        if event.what and owners.setdefault((event.session, event.epoch), event.what) != event.what:
            yield Violation("one owner", event.session, f"epoch {event.epoch} had two owners")
    for name, rest in history.rest.items():
        if rest.breaches:
            yield Violation("one owner", name, f"{rest.breaches} records do not follow each other")


def _no_message_lost(history: History) -> Iterator[Violation]:
    sent: dict[str, dict[str, bool]] = defaultdict(dict)
    for event in _select(history, "send"):
        sent[event.session][event.what] = event.acknowledged
    for name in history.rest.keys() | sent.keys():
        rest = history.rest.get(name, AtRest("lost"))
        found = Counter([*rest.messages, *rest.waiting])
        for text, acknowledged in sent[name].items():
            if found[text] > 1:
                yield Violation("no message lost", name, f"{text} is there {found[text]} times")
            if acknowledged and not found[text]:
                yield Violation("no message lost", name, f"{text} was acknowledged and is gone")
        for text in found.keys() - sent[name].keys():
            yield Violation("no message lost", name, f"{text} was never sent")


def _no_effect_twice(history: History) -> Iterator[Violation]:
    counted = Counter((event.session, event.what) for event in _select(history, "effect"))
    for (name, item), count in counted.items():
        if count > 1:
            yield Violation("no effect twice", name, f"{item} took effect {count} times")


def _none_unapproved(history: History) -> Iterator[Violation]:
    approved: dict[str, float] = {}
    for event in _select(history, "approve"):
        approved[event.what] = min(event.began, approved.get(event.what, event.began))
    for event in _select(history, "effect"):
        if event.what not in history.needs_approval:
            continue
        if event.what not in approved:
            yield Violation("none unapproved", event.session, f"{event.what} ran without an approval")
        elif event.began < approved[event.what]:
            yield Violation("none unapproved", event.session, f"{event.what} ran before its approval")


def _recovery_is_bounded(history: History) -> Iterator[Violation]:
    """After the last fault, every session comes to rest within the bound; none dies without faults."""
    faults = sum(1 for _ in _select(history, "fault"))
    last = max((max(event.began, event.ended) for event in _select(history, "fault", "heal")), default=0.0)
    for name, rest in history.rest.items():
        if not rest.rested_at:
            yield Violation("bounded recovery", name, f"it did not come to rest: {rest.status}")
        elif rest.rested_at - last > history.bound_s:
            yield Violation("bounded recovery", name, f"it took {rest.rested_at - last:.1f} s")
        if rest.deaths > MOST_DEATHS_PER_FAULT * faults:
            yield Violation("bounded recovery", name, f"it died {rest.deaths} times of {faults} faults")
