"""Lists the compressions of a session, reads what each took out of its history, and undoes them."""

from collections.abc import Iterator, Sequence
from typing import Any

from ....state.conversation.messages import Message
from ....state.conversation.transcript import Transcript
from ....state.lazy_dataclass import dataclass
from ....state.store.recording import (
    Fields,
    MessagePages,
    RecordedStep,
    Reference,
    StepFold,
    list_objects,
)
from ....state.store.sessions.family import list_descendants
from ....state.store.sessions.listing import load_lineage
from ....state.store.store import Store, StoredRange
from ...graph import traits_of
from ...session.session import Session

Place = tuple[str, int, int]
"""A message: session, log, index."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Messages of a history, and what a compression put in their place."""

    removed: tuple[Place, ...]
    added: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Compression:
    """A step that replaced messages of a history by shorter ones."""

    number: int
    """1 for the oldest of its session."""
    session_id: str
    """The session whose history it shortened."""
    agent: str
    """The name of the sub-agent; empty if it is the session that was asked for."""
    seq: int
    at: str
    """The end of the step: UTC, ISO 8601."""
    step_id: str | None
    """The plan step whose history it shortened; None for the main history."""
    replacements: tuple[Replacement, ...]

    @property
    def removed(self) -> list[Place]:
        """Return the messages that it took out, in their order."""
        return [place for one in self.replacements for place in one.removed]


def list_compressions(store: Store, session_id: str) -> list[Compression]:
    """Return the compressions of a session, oldest first, then those of each sub-agent.

    Those of what the session was forked from count up to the fork. Every step of these sessions is read.
    """
    found = list(_list_own(store, session_id, ""))
    for child in list_descendants(store.database, session_id):
        by = store.index.settings(child).spawned_by
        found += _list_own(store, child, by.agents[-1] if by is not None else "sub-agent")
    return found


def load_removed(store: Store, compression: Compression, first: int, count: int) -> list[Message | None]:
    """Return messages that a compression took out, from the number `first` on; None for a damaged one."""
    wanted = compression.removed[first : first + count]
    return MessagePages(store.database).load_all(Reference(*place, compression.step_id) for place in wanted)


def list_undone(session: Session, compressions: Sequence[Compression]) -> set[int]:
    """Return the numbers of the compressions of a session whose messages are in its history now."""
    own = [one for one in compressions if one.session_id == session.id and one.step_id is None]
    _, in_force = _unwind(session, own)
    return {one.number for one in own} - {*in_force}


def restore(store: Store, session: Session, since: int | None = None) -> tuple[Transcript, list[int]] | None:
    """Return the main history of a session without some of its compressions, and their numbers.

    `since` is the oldest compression to undo; without it, the newest one that is not undone. What was added
    to the history after a compression stays. Return None if there is nothing to undo.
    """
    own = [one for one in _list_own(store, session.id, "") if one.step_id is None]
    wanted = [one for one in own if one.number >= (since or 0)]
    places, undone = _unwind(session, wanted, 1 if since is None else len(wanted))
    return (store.load_history(session.id, _join_places(places)), undone) if undone else None


def _unwind(
    session: Session, compressions: Sequence[Compression], most: int | None = None
) -> tuple[list[Place], list[int]]:
    """Return the main history of a session without its newest compressions in force, up to `most`, and their
    numbers, the newest first.
    """
    places = [*_list_places(_name_spans(session.state.chat_history))]
    undone: list[int] = []
    for one in reversed(compressions):
        if len(undone) == most:
            break
        restored = _restore(places, one)
        if restored != places:
            places = restored
            undone.append(one.number)
    return places, undone


def _restore(places: Sequence[Place], compression: Compression) -> list[Place]:
    """Return a history in which what a compression put in is replaced by what it took out."""
    starts = {one.added[0]: one for one in compression.replacements if one.added}
    restored: list[Place] = []
    at = 0
    while at < len(places):
        one = starts.get(places[at])
        if one is not None and tuple(places[at : at + len(one.added)]) == one.added:
            restored += one.removed
            at += len(one.added)
        else:
            restored.append(places[at])
            at += 1
    return restored


def _list_own(store: Store, session_id: str, agent: str) -> Iterator[Compression]:
    number = 0
    fold = StepFold(store.database)
    for owner, last in load_lineage(store.database, session_id):
        for step in fold.steps(owner, last=last):
            if not step.action or traits_of(step.action).step_kind != "compression":
                continue
            for step_id, replacements in _list_changes(step):
                number += 1
                yield Compression(number, session_id, agent, step.seq, step.at, step_id, replacements)


def _list_changes(step: RecordedStep) -> Iterator[tuple[str | None, tuple[Replacement, ...]]]:
    """Yield each history that a step shortened: its plan step, and what was replaced in it."""
    before, after = _read_histories(step.before), _read_histories(step.after)
    for step_id, spans in before.items():
        if spans != (now := after.get(step_id, [])):
            found = compare([*_list_places(spans)], [*_list_places(now)])
            if any(one.removed for one in found):
                yield step_id, found


def compare(before: Sequence[Place], after: Sequence[Place]) -> tuple[Replacement, ...]:
    """Return what was replaced between the messages that two histories share."""
    shared = {*before} & {*after}
    pairs = zip(_split(before, shared), _split(after, shared), strict=True)
    return tuple(Replacement(removed, added) for removed, added in pairs if removed or added)


def _split(places: Sequence[Place], marks: set[Place]) -> list[tuple[Place, ...]]:
    """Return the messages before, between and after the marks."""
    parts: list[list[Place]] = [[]]
    for place in places:
        if place in marks:
            parts.append([])
        else:
            parts[-1].append(place)
    return [tuple(part) for part in parts]


def _read_histories(fields: Fields) -> dict[str | None, list[StoredRange]]:
    """Return the ranges of the main history, under None, and of each plan step."""
    found: dict[str | None, list[StoredRange]] = {None: _read_spans(fields)}
    return found | {str(one.get("step_id")): _read_spans(one) for one in list_objects(fields, "vibe_plan")}


def _read_spans(fields: Fields) -> list[StoredRange]:
    spans: Sequence[Any] = fields.get("chat_history") or ()
    return [(str(owner), int(log), int(start), int(end)) for owner, log, start, end in spans]


def _name_spans(history: Transcript) -> list[StoredRange]:
    return [
        (log.session_id, log.number, start, end)
        for log, start, end in history.spans
        if log.session_id is not None and log.number is not None
    ]


def _list_places(spans: Sequence[StoredRange]) -> Iterator[Place]:
    return ((owner, log, index) for owner, log, start, end in spans for index in range(start, end))


def _join_places(places: Sequence[Place]) -> list[StoredRange]:
    """Return messages as ranges."""
    spans: list[StoredRange] = []
    for owner, log, index in places:
        if spans and spans[-1][:2] == (owner, log) and spans[-1][3] == index:
            spans[-1] = (owner, log, spans[-1][2], index + 1)
        else:
            spans.append((owner, log, index, index + 1))
    return spans
