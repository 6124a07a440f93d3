"""Messages that people send to a session, requests to stop its run, and deaths of its process.

Each is one row, which the writer of the session does not write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from ...application import InboxTaken
from ...conversation.content import Attachment, Source
from ...conversation.messages import (
    Message,
    Text,
    UserContent,
    list_block_lines,
    parse_json_object,
    person_message,
    to_blocks,
)
from ...databases.chain import insert_row
from ...databases.database import Database, GuardedUpdate, Statement, exists, insert, insert_once, update
from ...errors import GuardFailed, StoreError, UsageError
from ...process.clock import now
from ...process.crashpoints import reach
from ...session import InboxKind, WaitingMessage
from ..deltas import parse_message
from ..files.contents import insert_uses, make_content_reader
from ..integrity import name_damage
from ..recording import load_state
from .lanes import CHANNEL
from .listing import load_lineage
from .record_feed import NewestRun, load_newest_run

MOST_CHARS = 256 * 1024
MOST_AT_ONCE = 10_000
MOST_CHARS_AT_ONCE = 16 * 1024 * 1024
"""The limits of one call of `add_many`, because a database keeps an open transaction in memory."""
WITHDRAWN: Literal["withdrawn"] = "withdrawn"
STOP: Literal["stop"] = "stop"
"""A request to interrupt a run."""
DIED: Literal["died"] = "died"
"""A death of the process that ran the session, see `deaths.py`."""
_NO_MESSAGE = (WITHDRAWN, STOP, DIED)
_MOST_TRIES = 50


class NewMessage(NamedTuple):
    """A message to be written."""

    text: str
    context: str = ""
    """A text that a hook adds for the model."""
    message: Message | None = None
    """The message with its files; None if it is only the text."""

    @classmethod
    def make(cls, content: UserContent, context: str = "") -> NewMessage:
        """Return a message of a text, or of texts and files."""
        if isinstance(content, str):
            return cls(content, context)
        return cls("\n".join(list_block_lines(to_blocks(content))), context, person_message(content))

    @property
    def files(self) -> tuple[Attachment, ...]:
        """Return the files whose bytes the store has to keep."""
        found = () if self.message is None else self.message.files
        return tuple(file for file in found if file.is_stored)


class Inbox:
    """The waiting messages of one session. Any process can add a message without the lease.

    A row stays after its message was taken. The session's state records which messages were taken: a message
    is added to the history and counted as taken in one commit.
    """

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self._known: dict[int, WaitingMessage] = {}

    def waiting(self, taken: InboxTaken) -> tuple[WaitingMessage, ...]:
        """Return the known messages that were not taken, in the order of their arrival."""
        self._known = {
            number: message
            for number, message in sorted(self._known.items())
            if number > getattr(taken, message.kind)
        }
        return tuple(self._known.values())

    def load(self, taken: InboxTaken) -> tuple[WaitingMessage, ...]:
        """Return the messages that were not taken, for a process that only reads."""
        return tuple(message for _, message in self._load_rows(taken))

    def load_taken(self) -> InboxTaken:
        """Return the numbers of the taken messages, as the newest step records them."""
        found = load_state(self._database, self._session_id)
        with name_damage(self._database, self._session_id):
            return InboxTaken.model_validate((found and found.fields.get("inbox_taken")) or {})

    def list_unreadable(self) -> Iterator[int]:
        """Yield the numbers of rows that are not valid messages. They are never sent."""
        rows = self._database.query(
            "SELECT n, kind, body FROM inbox WHERE session_id = ? ORDER BY n", (self._session_id,)
        )
        for number, kind, body in rows:
            if kind not in _NO_MESSAGE and _parse_row(int(number), str(kind), str(body)) is None:
                yield int(number)

    def list_files(self) -> Iterator[tuple[int, Attachment]]:
        """Yield the stored files of all messages, each with the number of its message."""
        rows = self._database.query(
            "SELECT n, kind, body FROM inbox WHERE session_id = ? ORDER BY n", (self._session_id,)
        )
        for number, kind, body in rows:
            found = _parse_row(int(number), str(kind), str(body))
            yield from ((int(number), file) for file in (found.files if found is not None else ()))

    async def read(self, taken: InboxTaken) -> tuple[WaitingMessage, ...]:
        """Return the messages of all processes that were not taken."""
        before = set(self._known)
        found = await self._database.offload(lambda: dict(self._load_rows(taken)))
        # A message that was added meanwhile may be missing in the result of the query.
        self._known = found | {n: one for n, one in self._known.items() if n not in before}
        return self.waiting(taken)

    async def add_many(
        self,
        kind: InboxKind,
        messages: Sequence[NewMessage],
        above: int = 0,
        is_from_outside: bool = False,
        also: Callable[[int], Sequence[Statement]] = lambda newest: (),
    ) -> tuple[WaitingMessage, ...]:
        """Write messages in one transaction: all of them are on disk when this returns, or none.

        Their numbers follow each other, and are larger than `above`: an import brings the numbers of taken
        messages, but not their rows. `also` returns, for the number of the last message, what the same
        transaction writes. Raises `UsageError` for too many or too long messages, and `StoreError`
        if they cannot be written.
        """
        if not messages:
            return ()
        _require_short(messages)
        bodies = [_make_body(one, is_from_outside) for one in messages]
        files = [file for one in messages for file in one.files]

        def also_with_files(newest: int) -> list[Statement]:
            # The head of the session comes first, as in every commit of its writer.
            return [*also(newest), *insert_uses(self._session_id, files)]

        first = await self._insert(kind, bodies, above, also_with_files)
        added = tuple(
            WaitingMessage(number, kind, one.text, one.context, is_from_outside, one.message)
            for number, one in enumerate(messages, first)
        )
        self._known.update((one.number, one) for one in added)
        return added

    async def add_from_outside(
        self,
        kind: InboxKind,
        *contents: UserContent,
        also: Callable[[int], Sequence[Statement]] = lambda newest: (),
    ) -> tuple[WaitingMessage, ...]:
        """Write messages for a session that another process runs, in one transaction; `also` is as in
        `add_many`.
        """
        above = await self._database.offload(self._find_newest_taken)
        messages = [NewMessage.make(content) for content in contents]
        return await self.add_many(kind, messages, above, is_from_outside=True, also=also)

    async def withdraw(self, number: int) -> bool:
        """Withdraw a message. Return False if it was withdrawn before."""
        place = {"session_id": self._session_id, "n": number}
        kind = self._known[number].kind if number in self._known else ""
        claim = update("inbox", {"kind": WITHDRAWN, "body": "{}"}, {**place, "kind": kind})
        guard = GuardedUpdate(claim, exists("inbox", {**place, "kind": WITHDRAWN}))
        reach("inbox_withdraw_before_commit")
        try:
            await self._database.acommit([], guard)
        except GuardFailed:
            return False
        finally:
            self._known.pop(number, None)
        reach("inbox_withdraw_after_commit")
        return True

    async def ask_to_stop(self) -> bool:
        """Ask the worker that runs the session to interrupt the run that works now, and no later one.

        Return False if no run works, or if no worker runs the session.
        """
        run = await self._database.offload(self._find_run_of_worker)
        if run is None:
            return False
        reach("stop_before_commit")
        hint = self._database.notify(CHANNEL)
        await self._insert(STOP, [json.dumps({"run": run})], 0, lambda newest: hint)
        reach("stop_committed")
        return True

    def _find_run_of_worker(self) -> int | None:
        sql = "SELECT 1 FROM heads h JOIN workers w ON w.id = h.owner WHERE h.session_id = ?"
        newest = load_newest_run(self._database, self._session_id)
        if newest is None or not newest.is_open or not self._database.query(sql, (self._session_id,)):
            return None
        return newest.number

    async def _insert(
        self,
        kind: InboxKind | Literal["stop"],
        bodies: Sequence[str],
        above: int,
        also: Callable[[int], Sequence[Statement]],
    ) -> int:
        """Insert a row for each body, and return the number of the first one."""
        token = secrets.token_hex(16)
        for _ in range(_MOST_TRIES):
            first = max(await self._database.offload(self._next_number), above + 1)
            place = {"session_id": self._session_id, "n": first}
            shared = {"session_id": self._session_id, "kind": kind, "at": now(), "token": token}
            rows = [{**shared, "n": number, "body": body} for number, body in enumerate(bodies, first)]
            claim = insert_once("inbox", rows[0], unless=place)
            guard = GuardedUpdate(claim, exists("inbox", {**place, "token": token}))
            reach("inbox_before_commit")
            try:
                more = also(first + len(rows) - 1)
                await self._database.acommit([*(insert("inbox", row) for row in rows[1:]), *more], guard)
            except GuardFailed:
                continue
            except StoreError:
                # Two processes wrote at the same time, and the database accepted one of them.
                if await self._database.offload(partial(self._has_rows, first, len(rows))):
                    continue
                raise
            reach("inbox_after_commit")
            return first
        raise StoreError("Too many other processes write to this session.", "Try again.")

    def _has_rows(self, first: int, count: int) -> bool:
        """Return whether one of these numbers is in use."""
        sql = "SELECT 1 FROM inbox WHERE session_id = ? AND n >= ? AND n < ? LIMIT 1"
        return bool(self._database.query(sql, (self._session_id, first, first + count)))

    def _find_newest_taken(self) -> int:
        taken = self.load_taken()
        return taken.newest

    def _next_number(self) -> int:
        """Return a number above all numbers that a state can contain. A fork starts with its parent's
        numbers.
        """
        owners = [owner for owner, _ in load_lineage(self._database, self._session_id)] or [self._session_id]
        marks = ", ".join("?" * len(owners))
        rows = self._database.query(f"SELECT MAX(n) FROM inbox WHERE session_id IN ({marks})", owners)
        return 1 + int(rows[0][0] or 0)

    def _load_rows(self, taken: InboxTaken) -> Iterator[tuple[int, WaitingMessage]]:
        contents = make_content_reader(self._database)
        rows = self._database.query(
            "SELECT n, kind, body FROM inbox WHERE session_id = ? AND n > ? ORDER BY n",
            (self._session_id, taken.oldest),
        )
        for number, kind, body in rows:
            message = _parse_row(int(number), str(kind), str(body), contents)
            if message is not None and message.number > getattr(taken, message.kind):
                yield message.number, message


class _Stop(NamedTuple):
    """A request to interrupt a run."""

    session_id: str
    number: int
    run: int
    """The number of the run, see `NewestRun`."""


def find_stopped(database: Database, session_ids: Collection[str]) -> frozenset[str]:
    """Return those of these sessions whose open run a person asked to stop. Older requests are removed."""
    asked = _load_stops(database, session_ids)
    newest = {one: load_newest_run(database, one) for one in {stop.session_id for stop in asked}}
    valid = [one for one in asked if _is_meant(one.run, newest[one.session_id])]
    # A request that came after this was read stays.
    _withdraw_stops(database, [one for one in asked if one not in valid])
    return frozenset(one.session_id for one in valid)


def drop_stops(database: Database, session_ids: Collection[str]) -> None:
    """Remove the requests to stop runs of these sessions, none of which runs."""
    _withdraw_stops(database, _load_stops(database, session_ids))


def _is_meant(run: int, newest: NewestRun | None) -> bool:
    return newest is not None and newest.is_open and newest.number == run


def _withdraw_stops(database: Database, stops: Iterable[_Stop]) -> None:
    withdrawn = {"kind": WITHDRAWN, "body": "{}"}
    if found := [
        update("inbox", withdrawn, {"session_id": one.session_id, "n": one.number}) for one in stops
    ]:
        database.commit(found)


def _load_stops(database: Database, session_ids: Collection[str]) -> list[_Stop]:
    if not session_ids:
        return []
    marks = ", ".join("?" * len(session_ids))
    sql = f"SELECT session_id, n, body FROM inbox WHERE session_id IN ({marks}) AND kind = ?"
    rows = database.query(sql, (*session_ids, STOP))
    bodies = [(str(one), int(number), parse_json_object(body) or {}) for one, number, body in rows]
    return [_Stop(one, number, int(body.get("run", -1))) for one, number, body in bodies]


def list_sessions_with_messages(database: Database) -> frozenset[str]:
    """Return the sessions with at least one message that was not withdrawn."""
    rows = database.query("SELECT DISTINCT session_id FROM inbox WHERE kind NOT IN (?, ?, ?)", _NO_MESSAGE)
    return frozenset(str(session_id) for (session_id,) in rows)


def insert_imported(session_id: str, message: WaitingMessage) -> list[Statement]:
    """Return the statements that store a message of an imported session."""
    body = _make_body(NewMessage(message.text, "", message.message), is_from_outside=True)
    row = (session_id, message.number, message.kind, now(), secrets.token_hex(16), body)
    return [insert_row("inbox", row), *insert_uses(session_id, message.files)]


def _require_short(messages: Sequence[NewMessage]) -> None:
    """Raise `UsageError` for messages that are too long or too many."""
    size = 0
    for one in messages:
        if len(one.text) + len(one.context) > MOST_CHARS:
            raise UsageError(f"A message may have {MOST_CHARS:,} characters; this one has {len(one.text):,}.")
        size += len(one.text) + len(one.context)
    if len(messages) > MOST_AT_ONCE or size > MOST_CHARS_AT_ONCE:
        raise UsageError(
            f"{len(messages):,} messages with {size:,} characters are too many for one call.",
            f"Add at most {MOST_AT_ONCE:,} messages with {MOST_CHARS_AT_ONCE:,} characters at once.",
        )


def _make_body(message: NewMessage, is_from_outside: bool) -> str:
    more = {"context": message.context, "from_outside": is_from_outside}
    fields: dict[str, Any] = {"text": message.text, **{name: value for name, value in more.items() if value}}
    if message.message is not None:
        fields["blocks"] = dump_blocks(message.message)
    return json.dumps(fields, ensure_ascii=True)


def dump_blocks(message: Message) -> list[Any]:
    """Return the texts and files of a message as JSON values; the bytes of files are not among them."""
    return message.model_dump(mode="json", exclude_none=True)["blocks"]


def parse_blocks(blocks: Any, contents: Source | None = None) -> Message | None:
    """Return the message with these texts and files; None if they are not valid."""
    body = json.dumps({"role": "user", "origin": "person", "blocks": blocks})
    found = parse_message(body, contents)
    is_valid = found is not None and all(isinstance(one, Text | Attachment) for one in found.blocks)
    return found if is_valid and blocks else None


def _parse_row(number: int, kind: str, body: str, contents: Source | None = None) -> WaitingMessage | None:
    """Return the message in a row, or None if it was withdrawn or is not valid."""
    fields: dict[str, Any] = parse_json_object(body) or {}
    text, context = fields.get("text"), fields.get("context", "")
    known: dict[str, InboxKind] = {one: one for one in get_args(InboxKind)}
    if kind not in known or not isinstance(text, str) or not isinstance(context, str):
        return None
    message = parse_blocks(fields["blocks"], contents) if "blocks" in fields else None
    if message is None and "blocks" in fields:
        return None
    return WaitingMessage(number, known[kind], text, context, fields.get("from_outside") is True, message)
