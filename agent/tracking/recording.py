"""One session as it is on disk, read in order and only once: each look takes up what is new."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from state.store.database import Database
from state.store.fields import merge
from state.store.health import places_set_aside
from state.store.steps import find_steps, merged_fields
from state.store.traces import Traced, traces

DAMAGED = "(damaged record)"
_PAGE_ROWS = 500

Fields = Mapping[str, Any]


class Reference(NamedTuple):
    """Where a message is, and whose history took it in."""

    session_id: str
    log: int
    position: int
    step_id: str | None
    """None: the global history."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    seq: int
    at: str
    """UTC, ISO 8601; of its end."""
    action: str
    row: int
    """Its number in the session's hash chain."""
    before: Fields
    after: Fields
    added: tuple[Reference, ...]
    """The messages that no earlier step refers to."""

    @property
    def step_id(self) -> str | None:
        """The step of the plan that this was work on."""
        return self.after.get("active_step_id") or self.before.get("active_step_id")


class CallMove(NamedTuple):
    n: int
    call_id: str
    move: str
    at: str
    row: int
    body: str


def body_of(move: CallMove) -> dict[str, Any]:
    """Read what a move says; nothing if it is damaged."""
    try:
        body = json.loads(move.body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


class Recording:
    """The steps, moves of calls and trace of a session; those of its ancestors are theirs."""

    def __init__(self, database: Database, session_id: str, parent: tuple[str, int] | None) -> None:
        self.session_id = session_id
        self.steps: list[RecordedStep] = []
        self.moves: list[CallMove] = []
        self.files: dict[str, list[str]] = {}
        """Call id -> the paths that it changed."""
        self._files_read = -1
        self.trace: list[Traced] = []
        self.facts: dict[str, dict[str, Any]] = {}
        """Call id -> what was proposed and decided about it."""
        self._database = database
        self._seen: dict[tuple[str, int], int] = {}
        self._fields: dict[str, Any] = {}
        if parent is not None and (found := find_steps(database, *parent)) is not None:
            self._fields = merged_fields(found.rows)
            tuple(self._added())

    def advance(self) -> None:
        """Read what was written since the last time."""
        damaged = places_set_aside(self._database, self.session_id, "steps")
        for seq, action, at, row, delta in self._new_steps():
            self._take(_Row(int(seq), action, at, int(row), delta), str(seq) in damaged)
        # Behind the steps: so no call of a step that is known can be missed.
        self._read_files()
        self.moves += self._new_moves()
        self._read_trace()

    def bodies(self, wanted: Sequence[Reference]) -> dict[tuple[str, int, int], str]:
        """Return stored messages as they are on disk, log by log."""
        ends: dict[tuple[str, int], tuple[int, int]] = {}
        for session_id, log, position, _ in wanted:
            start, end = ends.get((session_id, log), (position, position))
            ends[session_id, log] = min(start, position), max(end, position)
        owners = {session_id for session_id, _ in ends}
        damaged = {owner: places_set_aside(self._database, owner, "messages") for owner in owners}
        return {
            (session_id, log, int(index)): str(body)
            for (session_id, log), (start, end) in ends.items()
            for index, body in self._paged(
                "SELECT idx, body FROM messages WHERE session_id = ? AND log = ? AND idx <= ? AND idx > ?"
                " ORDER BY idx",
                (session_id, log, end),
                start - 1,
            )
            if f"{log}/{index}" not in damaged[session_id]
        }

    def _take(self, row: "_Row", is_damaged: bool) -> None:
        before = self.steps[-1].after if self.steps else dict(self._fields)
        added: tuple[Reference, ...] = ()
        try:
            if not is_damaged:
                merge(self._fields, row.delta)
                added = tuple(self._added())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            is_damaged, self._fields = True, dict(before)
        action = DAMAGED if is_damaged else row.action
        after = dict(self._fields)
        self.steps.append(RecordedStep(row.seq, row.at, action, row.row, before, after, added))

    def _added(self) -> Iterator[Reference]:
        for step_id, (session_id, log, _, end) in _spans(self._fields):
            known = self._seen.get((session_id, log), 0)
            if end > known:
                yield from (Reference(session_id, log, index, step_id) for index in range(known, end))
                self._seen[session_id, log] = end

    def _new_steps(self) -> Iterator[tuple[Any, ...]]:
        after = self.steps[-1].seq if self.steps else -1
        return self._paged(
            "SELECT seq, position, at, record, fields FROM steps WHERE session_id = ? AND seq > ?"
            " ORDER BY seq",
            (self.session_id,),
            after,
        )

    def _new_moves(self) -> Iterator[CallMove]:
        damaged = places_set_aside(self._database, self.session_id, "calls")
        after = self.moves[-1].n if self.moves else -1
        sql = "SELECT n, call_id, move, at, record, body FROM calls WHERE session_id = ? AND n > ? ORDER BY n"
        for n, call_id, move, at, row, body in self._paged(sql, (self.session_id,), after):
            # The row itself stays: it says where to go on.
            found = CallMove(int(n), call_id, move, at, int(row), "{}" if str(n) in damaged else body)
            if move in ("proposed", "decided"):
                self.facts.setdefault(call_id, {}).update(body_of(found))
            yield found

    def _read_files(self) -> None:
        sql = "SELECT n, call_id, path FROM files WHERE session_id = ? AND n > ? ORDER BY n"
        for n, call_id, path in self._paged(sql, (self.session_id,), self._files_read):
            self.files.setdefault(call_id, []).append(path)
            self._files_read = int(n)

    def _read_trace(self) -> None:
        last = self.trace[-1] if self.trace else None
        found = traces(self._database, self.session_id, -2 if last is None else last.seq)
        self.trace += [traced for traced in found if last is None or traced.n > last.n]

    def _paged(self, sql: str, values: tuple[Any, ...], after: int) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query whose last parameter is its first column, page by page."""
        while True:
            rows = self._database.query(f"{sql} LIMIT {_PAGE_ROWS}", (*values, after))
            yield from rows
            if len(rows) < _PAGE_ROWS:
                return
            after = int(rows[-1][0])


class _Row(NamedTuple):
    seq: int
    action: str
    at: str
    row: int
    delta: str


def _spans(fields: Fields) -> Iterator[tuple[str | None, tuple[str, int, int, int]]]:
    yield from ((None, tuple(span)) for span in fields.get("chat_history") or ())
    active = fields.get("active_step_id")
    for step in cast("Sequence[Mapping[str, Any] | None]", fields.get("vibe_plan") or ()):
        if step is not None and active is not None and step.get("step_id") == active:
            yield from ((active, tuple(span)) for span in step.get("chat_history") or ())
