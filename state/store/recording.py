"""The reader of the past: what sessions recorded, as steps, messages, moves of calls, and traces."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from ..conversation.content import Attachment, Source
from ..conversation.messages import Message, ToolResult, ToolUse, json_object
from ..databases.chain import EVERY_ROW, places_set_aside, rows_in_order, sound_rows
from ..databases.database import Database
from ..session import SessionSettings
from ..trace import TraceRecord
from .deltas import merge, message_of, voided
from .files.contents import content
from .sessions.listing import lineage_of, upwards

Lineage = Sequence[tuple[str, int | None]]
"""A session after those that it was forked from, each with its last step that counts (None: all)."""

Fields = Mapping[str, Any]
"""The fields of a state, as JSON has them; histories as [session, log, start, end] of each span."""

_ALL = 2**62


class _Placed(Protocol):
    @property
    def row(self) -> int: ...


PlacedT = TypeVar("PlacedT", bound=_Placed)


def rows_between(found: Sequence[PlacedT], first: int, end: int) -> Sequence[PlacedT]:
    """Return what was recorded from row `first` to before row `end`; `found` is in the order of rows."""
    begin, stop = (bisect_left(found, row, key=lambda placed: placed.row) for row in (first, end))
    return found[begin:stop]


def foreign_until(database: Database, session_id: str) -> int:
    """Return the last step that came with an import; -1 if all of them ran here."""
    rows = database.query("SELECT settings FROM sessions WHERE id = ?", (session_id,))
    if not rows or '"imported_seq"' not in rows[0][0]:
        return -1
    seq = SessionSettings.model_validate_json(rows[0][0]).imported_seq
    return -1 if seq is None else seq


class StepRow(NamedTuple):
    """A step as it is stored."""

    seq: int
    action: str
    at: str
    row: int
    delta: str
    """JSON of the fields that changed; of all fields in a snapshot."""


class StoredState(NamedTuple):
    """The state after a step, as rows that add up to it."""

    session_id: str
    """Whose rows they are: the session's own, or those of one it was forked from."""
    rows: Sequence[StepRow]
    """A snapshot and the steps after it."""
    is_cut: bool
    """True if newer rows are damaged, so that these are the last good ones."""
    foreign_until: int = -1
    """The last step that ran elsewhere."""

    @property
    def is_foreign(self) -> bool:
        return self.rows[-1].seq <= self.foreign_until

    @property
    def fields(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        was_foreign = False
        for row in self.rows:
            if was_foreign and row.seq > self.foreign_until:
                merged = voided(merged)
            was_foreign = row.seq <= self.foreign_until
            merge(merged, row.delta)
        return voided(merged) if was_foreign else merged


def stored_state(database: Database, session_id: str, seq: int | None = None) -> StoredState | None:
    """Return the state after step `seq` (default: the newest), or after the last good one before it."""
    for owner, last in upwards(database, session_id):
        limits = [limit for limit in (seq, last) if limit is not None]
        if found := _own_state(database, owner, min(limits, default=_ALL)):
            return found
    return None


def _own_state(database: Database, session_id: str, last: int) -> StoredState | None:
    damaged = places_set_aside(database, session_id, "steps")
    snapshot = "SELECT MAX(seq) FROM steps WHERE session_id = ? AND seq <= ? AND is_snapshot = 1"
    is_cut = False
    while True:
        condition = f"seq <= ? AND seq >= ({snapshot})"
        # Also a row that left the chain takes a number, which the next step must not get.
        values = (last, session_id, last)
        rows = list(_step_rows(database, session_id, condition, values, least=EVERY_ROW))
        if not rows:
            return None
        good = [row for place, row in enumerate(rows) if row.seq == rows[0].seq + place]
        broken = (place for place, row in enumerate(good) if str(row.seq) in damaged)
        good = good[: next(broken, None)]
        is_cut = is_cut or len(good) < len(rows)
        if good:
            return StoredState(session_id, good, is_cut, foreign_until(database, session_id))
        last = rows[0].seq - 1


def _step_rows(
    database: Database,
    session_id: str,
    condition: str,
    values: Sequence[Any],
    after: Sequence[int] = (),
    least: int = 0,
) -> Iterator[StepRow]:
    columns = ("position", "at", "record", "fields")
    for seq, action, at, row, delta in rows_in_order(
        database, "steps", session_id, columns, condition, values, after, least
    ):
        yield StepRow(int(seq), action, at, int(row), delta)


def step_of_row(database: Database, session_id: str, row: int) -> int | None:
    """Return the step after a row of the session's hash chain: it went to disk with, or before, it."""
    rows = database.query("SELECT MIN(seq) FROM steps WHERE session_id = ? AND record > ?", (session_id, row))
    return None if rows[0][0] is None else int(rows[0][0])


class Reference(NamedTuple):
    """Where a message is, and whose history took it in."""

    session_id: str
    log: int
    position: int
    step_id: str | None
    """The step of the plan; None: the global history."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    session_id: str
    """Whose step it is: of the session itself, or of one that it was forked from."""
    seq: int
    action: str
    """Empty if the record is damaged: it tells nothing then."""
    at: str
    """UTC, ISO 8601; of its end."""
    row: int
    """Its number in the session's hash chain, which orders all rows of a session."""
    before: Fields
    after: Fields
    """The step before has the same; so has the next one in `before`: none of them may be changed."""
    added: tuple[Reference, ...]
    """The messages that no earlier step refers to."""

    @property
    def step_id(self) -> str | None:
        """The step of the plan that this was work on."""
        return self.after.get("active_step_id") or self.before.get("active_step_id")


class StepFold:
    """Adds up the deltas of steps, oldest first; it may stop anywhere and go on later."""

    def __init__(self, database: Database, before: StoredState | None = None) -> None:
        self._database = database
        self._seen: dict[tuple[str, int], int] = {}
        self._fields: Fields = {} if before is None else before.fields
        self._is_foreign = False
        tuple(self._added(self._fields))

    def steps(self, session_id: str, after: int = -1, last: int | None = None) -> Iterator[RecordedStep]:
        """Yield the own steps of a session after step `after`, up to step `last`."""
        damaged = places_set_aside(self._database, session_id, "steps")
        limit = _ALL if last is None else last
        elsewhere = foreign_until(self._database, session_id)
        for row in _step_rows(self._database, session_id, "seq <= ?", (limit,), (after,)):
            if self._is_foreign and row.seq > elsewhere:
                self._fields = voided(self._fields)
            self._is_foreign = row.seq <= elsewhere
            yield self._taken(session_id, row, str(row.seq) in damaged)

    def _taken(self, session_id: str, row: StepRow, is_damaged: bool) -> RecordedStep:
        before, after = self._fields, dict(self._fields)
        try:
            if not is_damaged:
                merge(after, row.delta)
            added = tuple(self._added(after))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_damaged, after, added = True, before, ()
        self._fields = after
        action = "" if is_damaged else row.action
        return RecordedStep(session_id, row.seq, action, row.at, row.row, before, after, added)

    def _added(self, fields: Fields) -> Iterator[Reference]:
        for step_id, (session_id, log, _, end) in _spans(fields):
            known = self._seen.get((session_id, log), 0)
            if end > known:
                yield from (Reference(session_id, log, position, step_id) for position in range(known, end))
                self._seen[session_id, log] = end


def _spans(fields: Fields) -> Iterator[tuple[str | None, Sequence[Any]]]:
    """Yield where the messages are that a step may have added, each span with the step of the plan."""
    yield from ((None, span) for span in fields.get("chat_history") or ())
    active = fields.get("active_step_id")
    for step in cast(Sequence[Mapping[str, Any] | None], fields.get("vibe_plan") or ()):
        if step is not None and active is not None and step.get("step_id") == active:
            yield from ((active, span) for span in step.get("chat_history") or ())


def elements(fields: Fields, name: str) -> list[dict[str, Any]]:
    """Return the objects of a list; those that a damaged record leaves open are left out."""
    value = fields.get(name)
    found = cast(list[Any], value) if isinstance(value, list) else []
    return [element for element in found if isinstance(element, dict)]


def recorded_steps(database: Database, session_id: str) -> Iterator[RecordedStep]:
    """Yield every step of a session, those of its ancestors first."""
    fold = StepFold(database)
    for owner, last in lineage_of(database, session_id):
        yield from fold.steps(owner, last=last)


@dataclass(frozen=True, slots=True)
class CallMove:
    """One row of the table `calls`."""

    session_id: str
    n: int
    row: int
    """Its number in the session's hash chain."""
    call_id: str
    move: str
    """proposed, decided, started or finished."""
    at: str
    """UTC, ISO 8601."""
    body: Mapping[str, Any]
    """Empty where it cannot be read."""

    def text(self, name: str) -> str:
        """Return a field of the body; empty if it is not there."""
        value = self.body.get(name)
        return value if isinstance(value, str) else ""

    @property
    def result(self) -> ToolResult | None:
        """Set where the journal itself holds it: no step has put it into a history."""
        stored = self.body.get("result")
        return ToolResult.model_validate(stored) if stored else None


def call_moves(database: Database, session_id: str, after: int = -1) -> Iterator[CallMove]:
    """Yield the moves that a session recorded itself after number `after`, without damaged ones."""
    columns = ("record", "call_id", "move", "at", "body")
    rows = sound_rows(database, "calls", session_id, columns, after=(after,))
    for n, row, call_id, move, at, body in rows:
        yield CallMove(session_id, int(n), int(row), call_id, move, at, json_object(body) or {})


def last_moves(
    database: Database, session_id: str, call_ids: Collection[str], kinds: Collection[str]
) -> dict[str, str]:
    """Return the last move of each of these calls, of the kinds named.

    Damaged rows count, as they do for a session that goes on: what they say may have happened.
    """
    if not call_ids:
        return {}
    condition = f"call_id IN ({', '.join('?' * len(call_ids))})"
    rows = rows_in_order(database, "calls", session_id, ("call_id", "move"), condition, (*call_ids,))
    return {call_id: move for _, call_id, move in rows if move in kinds}


def changed_paths(database: Database, session_id: str, after: int = -1) -> Iterator[tuple[int, str, str]]:
    """Yield number, call and path of the file changes that a session recorded after number `after`."""
    rows = rows_in_order(database, "files", session_id, ("call_id", "path"), after=(after,))
    return ((int(n), call_id, path) for n, call_id, path in rows)


def damage(database: Database, session_id: str) -> Iterator[tuple[str, str]]:
    """Yield kind and key of each step, message, move and trace record that was set aside."""
    for table in ("steps", "messages", "calls", "traces"):
        for place in places_set_aside(database, session_id, table):
            yield table.removesuffix("s"), place


class PlacedMove(NamedTuple):
    step: int
    """One more than the newest if the step that it belongs to never came."""
    move: CallMove


def placed_moves(database: Database, lineage: Lineage) -> Iterator[PlacedMove]:
    """Yield the moves that count, oldest first, each with its step: that comes after what belongs to it."""
    for session_id, last in lineage:
        rows = list(rows_in_order(database, "steps", session_id, ("record",)))
        records = [int(record) for _, record in rows]
        steps = [*(int(seq) for seq, _ in rows), int(rows[-1][0]) + 1 if rows else 0]
        for move in call_moves(database, session_id):
            step = steps[bisect_left(records, move.row)]
            if last is None or step <= last:
                yield PlacedMove(step, move)


_TRACES: TypeAdapter[TraceRecord] = TypeAdapter(TraceRecord)


class Traced(NamedTuple):
    """A trace record and its place among everything that the session wrote."""

    session_id: str
    n: int
    seq: int
    """The newest step when it was recorded; -1 in front of the first."""
    at: str
    """UTC, ISO 8601."""
    row: int
    """Its number in the session's hash chain, which orders it with steps, messages and moves of calls."""
    event: str
    """Of which kind the record is, also where it cannot be read."""
    record: TraceRecord | None
    """None if it cannot be read: nobody has looked for damage since it happened."""


def traces(database: Database, session_id: str, after: int = -1) -> Iterator[Traced]:
    """Yield the trace of a session's own runs after number `after`, oldest first; damage is left out."""
    return (traced for traced in all_traces(database, session_id, after) if traced.record is not None)


def all_traces(database: Database, session_id: str, after: int = -1) -> Iterator[Traced]:
    """Yield the trace with records that cannot be read, without those that were set aside."""
    columns = ("seq", "event", "at", "record", "body")
    rows = sound_rows(database, "traces", session_id, columns, after=(after,))
    for n, seq, event, at, row, body in rows:
        yield Traced(session_id, int(n), int(seq), at, int(row), event, _trace_record(event, body))


def _trace_record(event: str, body: str) -> TraceRecord | None:
    try:
        return _TRACES.validate_json(f'{{"kind":"{event}",{body[1:]}')
    except ValidationError:
        return None


class RecordedMessage(NamedTuple):
    log: int
    position: int
    row: int
    """Its number in the session's hash chain."""
    message: Message | None
    """None if it cannot be read."""


def recorded_messages(database: Database, session_id: str) -> Iterator[RecordedMessage]:
    """Yield the messages that a session wrote itself, log by log, without damaged ones."""
    for log, position, row, body in sound_rows(database, "messages", session_id, ("record", "body")):
        yield RecordedMessage(int(log), int(position), int(row), message_of(body, contents_of(database)))


def tool_uses(database: Database, session_id: str) -> Iterator[ToolUse]:
    """Yield the calls that the messages of a session ask for."""
    for *_, body in sound_rows(database, "messages", session_id, ("body",)):
        # Most messages ask for nothing, and need not be parsed.
        if '"tool_use"' in body and (message := message_of(body)) is not None:
            yield from message.tool_uses


_MOST_EARLY, _MOST_BODY_BYTES = 40, 4000
"""Who looks for a session remembers how it began."""
_OF_A_PERSON = '{"role":"user","origin":"person"'
"""How the stored form of a message begins that a person sent."""


def said_early(database: Database, session_ids: Sequence[str]) -> Iterator[tuple[str, Message]]:
    """Yield what people said early in these sessions, in order; long messages are left out."""
    rows = database.query(
        f"SELECT session_id, body FROM messages WHERE session_id IN ({', '.join('?' * len(session_ids))})"
        f" AND idx < {_MOST_EARLY} AND LENGTH(body) < {_MOST_BODY_BYTES}"
        f" AND SUBSTR(body, 1, {len(_OF_A_PERSON)}) = ? ORDER BY session_id, log, idx",
        (*session_ids, _OF_A_PERSON),
    )
    yield from ((owner, said) for owner, body in rows if (said := message_of(body)) is not None)


def contents_of(database: Database) -> Source:
    """Return what reads the files of messages."""

    def read(sha256: str) -> bytes | None:
        return content(database, sha256)

    return read


def files_of(body: str) -> list[Attachment]:
    """Return the files that a stored message refers to."""
    # Most messages have none, and need not be parsed.
    message = message_of(body) if '"sha256"' in body else None
    return [] if message is None else list(message.files)


_PAGE_MESSAGES = 100
_KEPT_PAGES = 8


class MessagePages:
    """Messages by their place; holds a few pages at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pages: OrderedDict[tuple[str, int, int], Mapping[int, Message | None]] = OrderedDict()

    def message(self, place: Reference) -> Message | None:
        """Return a message; None if it is gone or damaged."""
        name = place.session_id, place.log, place.position // _PAGE_MESSAGES
        if name not in self._pages:
            first = name[2] * _PAGE_MESSAGES
            self._pages[name] = messages_at(self._database, *name[:2], first, first + _PAGE_MESSAGES)
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(name)
        return self._pages[name].get(place.position)

    def messages(self, places: Iterable[Reference]) -> list[Message | None]:
        return [self.message(place) for place in places]


def messages_at(
    database: Database, session_id: str, log: int, first: int, end: int
) -> dict[int, Message | None]:
    """Return the messages of a log from index `first` to before `end`, as far as they are there."""
    rows, contents = message_rows(database, session_id, log, first, end), contents_of(database)
    return {position: message_of(body, contents) for position, body in rows}


def message_rows(database: Database, session_id: str, *place: int) -> Iterator[tuple[int, str]]:
    """Yield index and text of those messages; `place` is the log, the first index, and the end."""
    rows = sound_rows(database, "messages", session_id, ("body",), "log = ? AND idx >= ? AND idx < ?", place)
    return ((int(position), body) for _, position, body in rows)


def recorded_result(database: Database, session_id: str, call_id: str) -> ToolResult | None:
    """Find the result of a call that a session finished.

    The row in the journal holds it, or the step after that row has put it into a history. The oldest
    stores have numbered their rows table by table: there every step is looked at.
    """
    where = "call_id = ? AND move = 'finished'"
    for _, row, body in rows_in_order(database, "calls", session_id, ("record", "body"), where, (call_id,)):
        if stored := (json_object(body) or {}).get("result"):
            return ToolResult.model_validate(stored, context={"contents": contents_of(database)})
        step = step_of_row(database, session_id, int(row))
        next_step = None if step is None else _result_in_steps(database, session_id, call_id, step - 1, step)
        if found := next_step or _result_in_steps(database, session_id, call_id, -1, None):
            return found
    return None


def _result_in_steps(
    database: Database, session_id: str, call_id: str, after: int, last: int | None
) -> ToolResult | None:
    fold = StepFold(database, stored_state(database, session_id, after))
    pages = MessagePages(database)
    for step in fold.steps(session_id, after, last):
        for message in pages.messages(step.added):
            for result in message.tool_results if message is not None else ():
                if result.call_id == call_id:
                    return result
    return None


def step_counts(database: Database, since: str) -> dict[str, int]:
    """Return how many steps each session has had since a time: UTC, ISO 8601."""
    rows = database.query(
        "SELECT session_id, COUNT(*) FROM steps WHERE at >= ? GROUP BY session_id", (since,)
    )
    return {session_id: int(count) for session_id, count in rows}


def output_sizes(database: Database, session_id: str) -> dict[str, int]:
    """Return the size in bytes of each whole output that a session keeps, by call."""
    rows = database.query(
        "SELECT call_id, SUM(LENGTH(body)) FROM outputs WHERE session_id = ? GROUP BY call_id", (session_id,)
    )
    return {call_id: int(size) for call_id, size in rows}
