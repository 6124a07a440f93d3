"""Reads what a session records, in the order of its hash chain, from any row on and again and again."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, takewhile
from typing import Any, NamedTuple

from ...conversation.messages import Message, parse_json_object
from ...databases.database import Database
from ...errors import SessionNotFound
from ...trace import RunEnded
from ..recording import (
    Fields,
    RecordedStep,
    Reference,
    StepFold,
    Traced,
    find_step_after_row,
    list_objects,
    list_traces,
    load_messages,
    load_state,
)

_IDS_AT_ONCE = 500
_MOST_OBSERVED = 20
"""The most messages of people after an answer that are skipped to find it."""


class StepMessage(NamedTuple):
    """A message that a step added."""

    step_id: str | None
    """The plan step of its history; None for the global history."""
    message: Message | None
    """None if the message is damaged."""


class FeedStep(NamedTuple):
    """A step with its messages."""

    row: int
    step: RecordedStep
    messages: Sequence[StepMessage]
    asked: Message | None
    """The message that requested the calls which wait after the step; None if no call waits."""


class FeedTrace(NamedTuple):
    """A trace record, the fields of the state at that time, and at the end of a run the newest message."""

    row: int
    traced: Traced
    fields: Fields
    newest: Message | None
    asked: Message | None
    """As in `FeedStep`."""


FeedItem = FeedStep | FeedTrace


class NewestRun(NamedTuple):
    """The newest run of a session."""

    number: int
    """The number of the trace record with its beginning: no other run of the session has it."""
    action: str
    """The action with which the run began."""
    is_open: bool
    """Whether it works now, or its process died."""


def load_newest_run(database: Database, session_id: str) -> NewestRun | None:
    """Return the newest run of a session, or None if it has none."""
    rows = database.query(
        "SELECT n, event, body FROM traces WHERE session_id = ? AND event IN ('run_began', 'run_ended')"
        " ORDER BY n DESC LIMIT 2",
        (session_id,),
    )
    for place, (number, event, body) in enumerate(rows):
        if event == "run_began":
            action = str((parse_json_object(body) or {}).get("action", ""))
            return NewestRun(int(number), action, is_open=place == 0)
    return None


class RecordCount(NamedTuple):
    """How far the recording of a session has come."""

    records: int
    last_seq: int
    status: str


class RecordFeed:
    """The steps and traces of one session, without those of its ancestors.

    Rows are numbered from 0 in the order in which they were recorded. Each call of `read` returns what
    follows, so that a reader in memory costs only what is new.
    """

    def __init__(self, database: Database, session_id: str, after_row: int = -1) -> None:
        head = count_records(database, [session_id]).get(session_id)
        if head is None:
            raise SessionNotFound(f"There is no session {session_id[:60]!r}.")
        self._database = database
        self._session_id = session_id
        # Read after the head: a step that is recorded meanwhile is not passed over.
        step = find_step_after_row(database, session_id, after_row)
        self._step = head.last_seq if step is None else step - 1
        before = load_state(database, session_id, self._step)
        self._fold = StepFold(database, before)
        self._fields: Fields = {} if before is None else before.fields
        self._trace = _find_last_trace(database, session_id, after_row)
        self._asked = _load_request(database, self._fields)
        self.row: int = after_row
        """The newest row that was read."""
        self._open: Iterator[FeedItem] | None = None

    def read(self, most: int) -> list[FeedItem]:
        """Return up to `most` items that follow. An empty list means that there is nothing new.

        Raises `SessionNotFound` if the session was deleted.
        """
        if self._open is not None and (rest := self._take(most)):
            return rest
        return self._take(most)

    def _take(self, most: int) -> list[FeedItem]:
        if self._open is None:
            head = count_records(self._database, [self._session_id]).get(self._session_id)
            if head is None:
                raise SessionNotFound(f"Session {self._session_id} was deleted.")
            if head.records <= self.row + 1:
                return []
            self._open = self._read_until(head)
        found = list(islice(self._open, most))
        if len(found) < most:
            self._open = None
        return found

    def _read_until(self, head: RecordCount) -> Iterator[FeedItem]:
        """Yield the items with rows below the number of records of a session's head."""
        traces = takewhile(
            lambda traced: traced.row < head.records,
            list_traces(self._database, self._session_id, self._trace),
        )
        steps = self._fold.steps(self._session_id, self._step, head.last_seq)
        places: Iterable[Traced | RecordedStep] = merge(traces, steps, key=lambda one: one.row)
        for one in places:
            self.row = one.row
            if isinstance(one, Traced):
                self._trace = one.n
                newest = self._load_newest() if isinstance(one.record, RunEnded) else None
                yield FeedTrace(one.row, one, self._fields, newest, self._asked)
            else:
                self._step, self._fields = one.seq, one.after
                messages = self._load_messages(one.added)
                self._note_request([added.message for added in messages if added.message is not None])
                yield FeedStep(one.row, one, messages, self._asked)
        self.row = max(self.row, head.records - 1)

    def _load_messages(self, places: Sequence[Reference]) -> list[StepMessage]:
        """Return the messages at these places, which follow each other in each log."""
        found: dict[tuple[str, int], dict[int, Message | None]] = {}
        for owner, log in dict.fromkeys((place.session_id, place.log) for place in places):
            inside = [place.position for place in places if (place.session_id, place.log) == (owner, log)]
            found[owner, log] = load_messages(self._database, owner, log, min(inside), max(inside) + 1)
        return [
            StepMessage(place.step_id, found[place.session_id, place.log].get(place.position))
            for place in places
        ]

    def _note_request(self, messages: Sequence[Message]) -> None:
        """Remember the message whose calls wait, as long as one waits."""
        newest = [message for message in messages if message.tool_uses]
        self._asked = newest[-1] if newest else self._asked
        if not self._fields.get("pending_tool_calls"):
            self._asked = None

    def _load_newest(self) -> Message | None:
        """Return the last message of the global history that a person or a model wrote, or None."""
        for session_id, log, start, end in reversed(list_spans(self._fields)):
            for position in range(end - 1, max(start, end - _MOST_OBSERVED) - 1, -1):
                message = load_messages(self._database, session_id, log, position, position + 1).get(position)
                if message is not None and (message.role != "user" or message.is_user_command):
                    return message
        return None


def count_records(database: Database, session_ids: Sequence[str]) -> dict[str, RecordCount]:
    """Return, for each session that exists, how many rows it has, its last step and its stored status."""
    found: dict[str, RecordCount] = {}
    for start in range(0, len(session_ids), _IDS_AT_ONCE):
        ids = session_ids[start : start + _IDS_AT_ONCE]
        rows = database.query(
            "SELECT session_id, records, last_seq, status FROM heads"
            f" WHERE session_id IN ({', '.join('?' * len(ids))})",
            ids,
        )
        found |= {row[0]: RecordCount(int(row[1]), int(row[2]), row[3]) for row in rows}
    return found


class StoredPosition(NamedTuple):
    """The state of a session."""

    fields: Fields
    asked: Message | None
    """As in `FeedStep`."""
    position: str
    """The name of the action that ran last; empty before the first one."""


def load_position(database: Database, session_id: str) -> StoredPosition:
    """Return the newest state of a session without its messages."""
    found = load_state(database, session_id)
    if found is None:
        return StoredPosition({}, None, "")
    return StoredPosition(found.fields, _load_request(database, found.fields), found.rows[-1].action)


class HistoryPage(NamedTuple):
    """A part of the global history."""

    total: int
    """The number of messages in the whole history."""
    messages: Sequence[Message | None]
    """None is a damaged message."""


def load_history_page(database: Database, session_id: str, first: int, most: int) -> HistoryPage:
    """Return up to `most` messages of the global history from number `first` on; the first one is 0."""
    found = load_state(database, session_id)
    messages: list[Message | None] = []
    before = 0
    for owner, log, start, end in list_spans({} if found is None else found.fields):
        inside = range(start, end)[max(first - before, 0) :][: most - len(messages)]
        if inside:
            loaded = load_messages(database, owner, log, inside.start, inside.stop)
            messages += [loaded.get(position) for position in inside]
        before += end - start
    return HistoryPage(before, messages)


def list_spans(history: Fields) -> list[tuple[str, int, int, int]]:
    """Return the parts of the `chat_history` in these fields: session, log, first position, end."""
    spans: list[Any] = history.get("chat_history") or []
    return [(str(owner), int(log), int(start), int(end)) for owner, log, start, end in spans]


def _load_request(database: Database, fields: Fields) -> Message | None:
    """Return the message that requested the waiting calls, or None if no call waits."""
    if not fields.get("pending_tool_calls"):
        return None
    active = fields.get("active_step_id")
    steps = [step for step in list_objects(fields, "vibe_plan") if step["step_id"] == active]
    for session_id, log, start, end in (
        span for one in (*steps, fields) for span in reversed(list_spans(one))
    ):
        found = load_messages(database, session_id, log, max(start, end - _MOST_OBSERVED), end)
        for position in sorted(found, reverse=True):
            if (message := found[position]) is not None and message.tool_uses:
                return message
    return None


def _find_last_trace(database: Database, session_id: str, row: int) -> int:
    """Return the number of the last trace record up to a row, or -1."""
    sql = "SELECT MAX(n) FROM traces WHERE session_id = ? AND record <= ?"
    newest = database.query(sql, (session_id, row))[0][0]
    return -1 if newest is None else int(newest)
