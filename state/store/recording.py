"""Reads the recordings of sessions: steps, messages, moves of calls, and traces."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from ..conversation.content import Attachment
from ..conversation.messages import Message, ToolResult, ToolUse, parse_json_object
from ..databases.chain import EVERY_ROW, list_quarantined_places, list_rows, list_sound_rows
from ..databases.database import Database
from ..lazy_dataclass import dataclass
from ..trace import TraceRecord
from .deltas import UNREADABLE, merge, merge_steps, parse_message, void_approvals
from .files.contents import make_content_reader
from .sessions.listing import load_lineage, read_imported_seq, walk_ancestors

Lineage = Sequence[tuple[str, int | None]]
"""The ancestors and the session, oldest first, each with its last step that counts (None: all)."""

Fields = Mapping[str, Any]
"""The fields of a state as JSON. Each span of a history is [session, log, start, end]."""

_ALL = 2**62


class _Placed(Protocol):
    @property
    def row(self) -> int: ...


PlacedT = TypeVar("PlacedT", bound=_Placed)


def select_rows_between(found: Sequence[PlacedT], first: int, end: int) -> Sequence[PlacedT]:
    """Return the elements from row `first` up to, but not including, row `end`. `found` is sorted by row."""
    begin, stop = (bisect_left(found, row, key=lambda placed: placed.row) for row in (first, end))
    return found[begin:stop]


def find_last_foreign_step(database: Database, session_id: str) -> int:
    """Return the last step that was imported, or -1 if there is none."""
    rows = database.query("SELECT settings FROM sessions WHERE id = ?", (session_id,))
    if not rows or '"imported_seq"' not in rows[0][0]:
        return -1
    seq = read_imported_seq(rows[0][0])
    return -1 if seq is None else seq


class StepRow(NamedTuple):
    """A stored step."""

    seq: int
    action: str
    at: str
    row: int
    delta: str
    """The changed fields as JSON; in a snapshot, all fields."""


class StoredState(NamedTuple):
    """The state after a step, as the rows from which it is computed."""

    session_id: str
    """The session of the rows, which is this session or an ancestor."""
    rows: Sequence[StepRow]
    """A snapshot and the steps after it."""
    is_cut: bool
    """Whether newer rows are damaged, so that these are the last valid ones."""
    foreign_until: int = -1
    """The last imported step; -1 if there is none."""
    fields: Fields = MappingProxyType({})
    """The fields after the last of the rows."""

    @property
    def is_foreign(self) -> bool:
        return self.rows[-1].seq <= self.foreign_until


def load_state(database: Database, session_id: str, seq: int | None = None) -> StoredState | None:
    """Return the state after step `seq` (default: the newest), or after the last valid step before it."""
    for owner, last in walk_ancestors(database, session_id):
        limits = [limit for limit in (seq, last) if limit is not None]
        if found := _load_own_state(database, owner, min(limits, default=_ALL)):
            return found
    return None


def _load_own_state(database: Database, session_id: str, last: int) -> StoredState | None:
    damaged = list_quarantined_places(database, session_id, "steps")
    snapshot = "SELECT MAX(seq) FROM steps WHERE session_id = ? AND seq <= ? AND is_snapshot = 1"
    is_cut = False
    while True:
        condition = f"seq <= ? AND seq >= ({snapshot})"
        # A row that was removed from the chain counts, too, because the next step must not get its number.
        values = (last, session_id, last)
        rows = list(_step_rows(database, session_id, condition, values, least=EVERY_ROW))
        if not rows:
            return None
        good = [row for place, row in enumerate(rows) if row.seq == rows[0].seq + place]
        broken = (place for place, row in enumerate(good) if str(row.seq) in damaged)
        good = good[: next(broken, None)]
        foreign_until = find_last_foreign_step(database, session_id) if good else -1
        count, fields = merge_steps([(row.seq, row.delta) for row in good], foreign_until)
        good = good[:count]
        is_cut = is_cut or len(good) < len(rows)
        if good:
            return StoredState(session_id, good, is_cut, foreign_until, fields)
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
    for seq, action, at, row, delta in list_rows(
        database, "steps", session_id, columns, condition, values, after, least
    ):
        yield StepRow(int(seq), action, at, int(row), delta)


def find_step_after_row(database: Database, session_id: str, row: int) -> int | None:
    """Return the first step after a row of the session's hash chain, or None if there is none."""
    rows = database.query("SELECT MIN(seq) FROM steps WHERE session_id = ? AND record > ?", (session_id, row))
    return None if rows[0][0] is None else int(rows[0][0])


class Reference(NamedTuple):
    """The position of a message, and the history that contains it."""

    session_id: str
    log: int
    position: int
    step_id: str | None
    """The plan step of the history; None for the global history."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    session_id: str
    """The session of the step, which is this session or an ancestor."""
    seq: int
    action: str
    """The name of the action; empty if the record is damaged and has no content."""
    at: str
    """The time of the end of the step: UTC, ISO 8601."""
    row: int
    """The number of the row in the session's hash chain, which orders all rows of a session."""
    before: Fields
    after: Fields
    """The fields after the step. Do not change them: `before` of the next step is the same object."""
    added: tuple[Reference, ...]
    """The messages that no earlier step refers to."""

    @property
    def step_id(self) -> str | None:
        """Return the plan step that this step worked on, or None."""
        return self.after.get("active_step_id") or self.before.get("active_step_id")


class StepFold:
    """Applies the changes of steps, oldest first. It can stop after any step and continue later."""

    def __init__(self, database: Database, before: StoredState | None = None) -> None:
        self._database = database
        self._seen: dict[tuple[str, int], int] = {}
        self._fields: Fields = {} if before is None else before.fields
        self._is_foreign = False
        for _, (session_id, log, _, end) in _list_spans(self._fields):
            self._seen[session_id, log] = max(end, self._seen.get((session_id, log), 0))

    def steps(self, session_id: str, after: int = -1, last: int | None = None) -> Iterator[RecordedStep]:
        """Yield the steps of the session itself after step `after`, up to step `last`."""
        limit = _ALL if last is None else last
        damaged, elsewhere = set[str](), None
        for row in _step_rows(self._database, session_id, "seq <= ?", (limit,), (after,)):
            if elsewhere is None:
                damaged = list_quarantined_places(self._database, session_id, "steps")
                elsewhere = find_last_foreign_step(self._database, session_id)
            if self._is_foreign and row.seq > elsewhere:
                self._fields = void_approvals(self._fields)
            self._is_foreign = row.seq <= elsewhere
            yield self._apply(session_id, row, str(row.seq) in damaged)

    def _apply(self, session_id: str, row: StepRow, is_damaged: bool) -> RecordedStep:
        before, after = self._fields, dict(self._fields)
        try:
            if not is_damaged:
                merge(after, row.delta)
            added = tuple(self._find_new_references(after))
        except UNREADABLE:
            is_damaged, after, added = True, before, ()
        self._fields = after
        action = "" if is_damaged else row.action
        return RecordedStep(session_id, row.seq, action, row.at, row.row, before, after, added)

    def _find_new_references(self, fields: Fields) -> Iterator[Reference]:
        for step_id, (session_id, log, _, end) in _list_spans(fields):
            known = self._seen.get((session_id, log), 0)
            if end > known:
                yield from (Reference(session_id, log, position, step_id) for position in range(known, end))
                self._seen[session_id, log] = end


def _list_spans(fields: Fields) -> Iterator[tuple[str | None, Sequence[Any]]]:
    """Yield the spans with messages that a step may have added, each with its plan step."""
    yield from ((None, span) for span in fields.get("chat_history") or ())
    active = fields.get("active_step_id")
    for step in cast(Sequence[Mapping[str, Any] | None], fields.get("vibe_plan") or ()):
        if step is not None and (step.get("step_id") == active or step.get("call_id")):
            yield from ((step["step_id"], span) for span in step.get("chat_history") or ())


def list_objects(fields: Fields, name: str) -> list[dict[str, Any]]:
    """Return the objects in a list field. Places of damaged records, which are empty, are left out."""
    value = fields.get(name)
    found = cast(list[Any], value) if isinstance(value, list) else []
    return [element for element in found if isinstance(element, dict)]


def list_steps(database: Database, session_id: str) -> Iterator[RecordedStep]:
    """Yield every step of a session. The steps of its ancestors come first."""
    fold = StepFold(database)
    for owner, last in load_lineage(database, session_id):
        yield from fold.steps(owner, last=last)


@dataclass(frozen=True, slots=True)
class CallMove:
    """One row of the table `calls`."""

    session_id: str
    n: int
    row: int
    """The number of the row in the session's hash chain."""
    call_id: str
    move: str
    """The move: proposed, decided, started or finished."""
    at: str
    """The time of the move: UTC, ISO 8601."""
    body: Mapping[str, Any]
    """The content of the record; empty if it cannot be parsed."""

    def text(self, name: str) -> str:
        """Return a text field of the body; empty if it is missing."""
        value = self.body.get(name)
        return value if isinstance(value, str) else ""

    @property
    def result(self) -> ToolResult | None:
        """Return the result, if no step has added it to a history; else None."""
        stored = self.body.get("result")
        return ToolResult.model_validate(stored) if stored else None


def list_call_moves(
    database: Database, session_id: str, after: int = -1, only_nested: bool = False
) -> Iterator[CallMove]:
    """Yield the moves that the session itself recorded after number `after`, without damaged ones.

    With `only_nested`, yield only those of calls whose id names a parent call.
    """
    columns = ("record", "call_id", "move", "at", "body")
    pattern = "%/%" if only_nested else "%"
    rows = list_sound_rows(
        database, "calls", session_id, columns, "call_id LIKE ?", (pattern,), after=(after,)
    )
    for n, row, call_id, move, at, body in rows:
        yield CallMove(session_id, int(n), int(row), call_id, move, at, parse_json_object(body) or {})


def find_last_moves(
    database: Database, session_id: str, call_ids: Collection[str], kinds: Collection[str]
) -> dict[str, str]:
    """Return, for each of these calls, its last move of the given kinds.

    Damaged rows count, as they do when a session continues: these moves may have happened.
    """
    if not call_ids:
        return {}
    condition = f"call_id IN ({', '.join('?' * len(call_ids))})"
    rows = list_rows(database, "calls", session_id, ("call_id", "move"), condition, (*call_ids,))
    return {call_id: move for _, call_id, move in rows if move in kinds}


def list_changed_paths(
    database: Database, session_id: str, after: int = -1
) -> Iterator[tuple[int, str, str]]:
    """Yield number, call and path of the file changes that the session recorded after number `after`."""
    rows = list_rows(database, "files", session_id, ("call_id", "path"), after=(after,))
    return ((int(n), call_id, path) for n, call_id, path in rows)


def list_damage(database: Database, session_id: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the key of each quarantined step, message, move and trace record."""
    for table in ("steps", "messages", "calls", "traces"):
        for place in list_quarantined_places(database, session_id, table):
            yield table.removesuffix("s"), place


_TRACES: TypeAdapter[TraceRecord] = TypeAdapter(TraceRecord)


class Traced(NamedTuple):
    """A trace record and its position among the records of the session."""

    session_id: str
    n: int
    seq: int
    """The newest step at the time of the record; -1 before the first step."""
    at: str
    """The time of the record: UTC, ISO 8601."""
    row: int
    """The number of the row in the session's hash chain, which orders it with steps, messages and moves."""
    event: str
    """The kind of the record, even if it cannot be parsed."""
    record: TraceRecord | None
    """The record; None if it cannot be parsed and the damage has not been checked yet."""


def list_traces(database: Database, session_id: str, after: int = -1) -> Iterator[Traced]:
    """Yield the undamaged trace records of the session's own runs after number `after`, oldest first."""
    return (traced for traced in list_all_traces(database, session_id, after) if traced.record is not None)


def list_all_traces(database: Database, session_id: str, after: int = -1) -> Iterator[Traced]:
    """Yield the trace records like `list_traces`, and also those that cannot be parsed."""
    columns = ("seq", "event", "at", "record", "body")
    rows = list_sound_rows(database, "traces", session_id, columns, after=(after,))
    for n, seq, event, at, row, body in rows:
        yield Traced(session_id, int(n), int(seq), at, int(row), event, _parse_trace(event, body))


def _parse_trace(event: str, body: str) -> TraceRecord | None:
    try:
        return _TRACES.validate_json(f'{{"kind":"{event}",{body[1:]}')
    except ValidationError:
        return None


class RecordedMessage(NamedTuple):
    log: int
    position: int
    row: int
    """The number of the row in the session's hash chain."""
    message: Message | None
    """The message; None if it cannot be parsed."""


def list_messages(database: Database, session_id: str, since: int = 0) -> Iterator[RecordedMessage]:
    """Yield the messages that the session itself wrote, log by log, without damaged ones. Those before record
    `since` are left out.
    """
    condition, values = ("record >= ?", (since,)) if since else ("1 = 1", ())
    columns = ("record", "body")
    rows = list_sound_rows(database, "messages", session_id, columns, condition, values)
    for log, position, row, body in rows:
        yield RecordedMessage(
            int(log), int(position), int(row), parse_message(body, make_content_reader(database))
        )


def list_tool_uses(database: Database, session_id: str) -> Iterator[ToolUse]:
    """Yield the calls that the messages of a session request."""
    for *_, body in list_sound_rows(database, "messages", session_id, ("body",)):
        # Most messages request no calls, so they need not be parsed.
        if '"tool_use"' in body and (message := parse_message(body)) is not None:
            yield from message.tool_uses


_MOST_EARLY, _MOST_BODY_BYTES = 40, 4000
"""The limits for early messages: only short ones, because people remember how a session began."""
_OF_A_PERSON = '{"role":"user","origin":"person"'
"""The start of a person's message in its stored form."""


def list_early_messages(database: Database, session_ids: Sequence[str]) -> Iterator[tuple[str, Message]]:
    """Yield early messages of people in these sessions, in order. Long messages are left out."""
    rows = database.query(
        f"SELECT session_id, body FROM messages WHERE session_id IN ({', '.join('?' * len(session_ids))})"
        f" AND idx < {_MOST_EARLY} AND LENGTH(body) < {_MOST_BODY_BYTES}"
        f" AND SUBSTR(body, 1, {len(_OF_A_PERSON)}) = ? ORDER BY session_id, log, idx",
        (*session_ids, _OF_A_PERSON),
    )
    messages = ((owner, parse_message(body)) for owner, body in rows)
    yield from ((owner, message) for owner, message in messages if message is not None)


def list_attachments(body: str) -> list[Attachment]:
    """Return the attachments of a stored message whose bytes the store contains."""
    # Most messages have no attachments, so they need not be parsed.
    message = parse_message(body) if '"sha256"' in body else None
    return [] if message is None else [file for file in message.files if file.is_stored]


_PAGE_MESSAGES = 100
_KEPT_PAGES = 8


class MessagePages:
    """Loads messages by their position. Keeps a few pages in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pages: OrderedDict[tuple[str, int, int], Mapping[int, Message | None]] = OrderedDict()

    def load(self, place: Reference) -> Message | None:
        """Return a message, or None if it is missing or damaged."""
        name = place.session_id, place.log, place.position // _PAGE_MESSAGES
        if name not in self._pages:
            first = name[2] * _PAGE_MESSAGES
            self._pages[name] = load_messages(self._database, *name[:2], first, first + _PAGE_MESSAGES)
            if len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)
        self._pages.move_to_end(name)
        return self._pages[name].get(place.position)

    def load_all(self, places: Iterable[Reference]) -> list[Message | None]:
        return [self.load(place) for place in places]


def load_messages(
    database: Database, session_id: str, log: int, first: int, end: int
) -> dict[int, Message | None]:
    """Return the messages of a log from index `first` up to, but not including, `end`, if they exist."""
    rows, contents = list_message_rows(database, session_id, log, first, end), make_content_reader(database)
    return {position: parse_message(body, contents) for position, body in rows}


def list_message_rows(database: Database, session_id: str, *place: int) -> Iterator[tuple[int, str]]:
    """Yield the index and the text of messages. `place` is the log, the first index, and the end."""
    rows = list_sound_rows(
        database, "messages", session_id, ("body",), "log = ? AND idx >= ? AND idx < ?", place
    )
    return ((int(position), body) for _, position, body in rows)


def find_result(database: Database, session_id: str, call_id: str) -> ToolResult | None:
    """Return the result of a call that a session finished, or None if there is none.

    The row in the journal contains the result, or the step after that row has added it to a history. In the
    oldest stores, the numbers of rows do not show their order across tables, so every step is searched.
    """
    where = "call_id = ? AND move = 'finished'"
    for _, row, body in list_rows(database, "calls", session_id, ("record", "body"), where, (call_id,)):
        if stored := (parse_json_object(body) or {}).get("result"):
            with suppress(ValidationError):
                return ToolResult.model_validate(stored, context={"contents": make_content_reader(database)})
        step = find_step_after_row(database, session_id, int(row))
        next_step = (
            None if step is None else _find_result_in_steps(database, session_id, call_id, step - 1, step)
        )
        if found := next_step or _find_result_in_steps(database, session_id, call_id, -1, None):
            return found
    return None


def _find_result_in_steps(
    database: Database, session_id: str, call_id: str, after: int, last: int | None
) -> ToolResult | None:
    fold = StepFold(database, load_state(database, session_id, after))
    pages = MessagePages(database)
    for step in fold.steps(session_id, after, last):
        for message in pages.load_all(step.added):
            for result in message.tool_results if message is not None else ():
                if result.call_id == call_id:
                    return result
    return None


def count_steps(database: Database, since: str) -> dict[str, int]:
    """Return how many steps each session has had since a time (UTC, ISO 8601)."""
    rows = database.query(
        "SELECT session_id, COUNT(*) FROM steps WHERE at >= ? GROUP BY session_id", (since,)
    )
    return {session_id: int(count) for session_id, count in rows}


def load_output_sizes(database: Database, session_id: str) -> dict[str, int]:
    """Return the size in bytes of each complete output that a session stores, by call."""
    rows = database.query(
        "SELECT call_id, SUM(LENGTH(body)) FROM outputs WHERE session_id = ? GROUP BY call_id", (session_id,)
    )
    return {call_id: int(size) for call_id, size in rows}
