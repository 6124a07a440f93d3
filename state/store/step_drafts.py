"""Every step of a session as its deltas tell it: the small fields before and after, the messages it added."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from state.store.database import Database
from state.store.fields import merge
from state.store.health import places_set_aside
from state.store.row_pages import rows_in_order

Fields = dict[str, Any]
LogName = tuple[str, int]
Reference = tuple[str, int, int]
"""Session, log and index of a message."""


@dataclass(frozen=True, slots=True)
class StepDraft:
    seq: int
    at: str
    action: str
    session_id: str
    before: Fields
    """Of the small fields; histories are left out."""
    after: Fields
    """The same behind the step; both are empty where its record is damaged."""
    added: tuple[Reference, ...]


_SMALL = ("user_input", "vibe_plan", "active_step_id", "pending_tool_calls", "execution_mode", "current_goal",
          "usage")  # fmt: skip


def step_drafts(database: Database, session_id: str) -> Iterator[StepDraft]:
    """Replay the deltas of all steps; a message counts for the step that first refers to it."""
    fields: Fields = {}
    seen: dict[LogName, int] = {}
    for owner, limit in _lineage(database, session_id):
        damaged = places_set_aside(database, owner, "steps")
        columns = ("position", "at", "fields")
        rows = rows_in_order(database, "steps", columns, owner, "seq <= ?", (limit,))
        for seq, action, at, delta in rows:
            if str(seq) in damaged:
                yield StepDraft(int(seq), at, "", owner, {}, {}, ())
                continue
            before = {name: fields.get(name) for name in _SMALL}
            try:
                merge(fields, delta)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                yield StepDraft(int(seq), at, "", owner, {}, {}, ())
                continue
            after = {name: fields.get(name) for name in _SMALL}
            yield StepDraft(int(seq), at, action, owner, before, after, tuple(_added(fields, seen)))


def _lineage(database: Database, session_id: str) -> list[tuple[str, int]]:
    """Return the sessions whose steps make up this one, oldest first, each with its last step that counts."""
    found: list[tuple[str, int]] = []
    owner, limit = session_id, 2**62
    while True:
        found.insert(0, (owner, limit))
        parents = database.query("SELECT parent_id, parent_seq FROM sessions WHERE id = ?", (owner,))
        if not parents or parents[0][0] is None:
            return found
        owner, limit = parents[0][0], min(limit, int(parents[0][1]))


def _added(fields: Fields, seen: dict[LogName, int]) -> Iterator[Reference]:
    """Yield the messages that no earlier step referred to."""
    for session_id, log, _, end in _spans(fields):
        known = seen.get((session_id, log), 0)
        if end > known:
            yield from ((session_id, log, index) for index in range(known, end))
            seen[session_id, log] = end


def _spans(fields: Fields) -> Iterator[tuple[str, int, int, int]]:
    yield from map(tuple, fields.get("chat_history") or ())
    steps = cast(Sequence[Mapping[str, Any] | None], fields.get("vibe_plan") or ())
    active = fields.get("active_step_id")
    for step in steps:
        if step is not None and step.get("step_id") == active:
            yield from map(tuple, step.get("chat_history") or ())
