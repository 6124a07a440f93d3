"""Messages that people send during a run. Each is one row, which the writer of the session does not write."""

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

from ...application import InboxTaken
from ...conversation.messages import parse_json_object
from ...databases.chain import insert_row
from ...databases.database import Database, GuardedUpdate, Statement, exists, insert, insert_once, update
from ...errors import GuardFailed, StoreError, UsageError
from ...process.clock import now
from ...process.crashpoints import reach
from ...session import InboxKind, WaitingMessage
from ..recording import load_state
from .listing import load_lineage

MOST_CHARS = 256 * 1024
MOST_AT_ONCE = 10_000
MOST_CHARS_AT_ONCE = 16 * 1024 * 1024
"""The limits of one call of `add_many`, because a database keeps an open transaction in memory."""
WITHDRAWN = "withdrawn"
_MOST_TRIES = 50


class NewMessage(NamedTuple):
    """A message to be written."""

    text: str
    context: str = ""
    """A text that a hook adds for the model."""


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
        return InboxTaken.model_validate((found and found.fields.get("inbox_taken")) or {})

    def list_unreadable(self) -> Iterator[int]:
        """Yield the numbers of rows that are not valid messages. They are never sent."""
        rows = self._database.query(
            "SELECT n, kind, body FROM inbox WHERE session_id = ? ORDER BY n", (self._session_id,)
        )
        for number, kind, body in rows:
            if kind != WITHDRAWN and _parse_row(int(number), str(kind), str(body)) is None:
                yield int(number)

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
        first = await self._insert(kind, bodies, above, also)
        added = tuple(
            WaitingMessage(number, kind, one.text, one.context, is_from_outside)
            for number, one in enumerate(messages, first)
        )
        self._known.update((one.number, one) for one in added)
        return added

    async def add_from_outside(
        self,
        kind: InboxKind,
        *texts: str,
        also: Callable[[int], Sequence[Statement]] = lambda newest: (),
    ) -> tuple[WaitingMessage, ...]:
        """Write messages for a session that another process runs, in one transaction; `also` is as in
        `add_many`.
        """
        above = await self._database.offload(self._find_newest_taken)
        messages = [NewMessage(text) for text in texts]
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

    async def _insert(
        self,
        kind: InboxKind,
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
        rows = self._database.query(
            "SELECT n, kind, body FROM inbox WHERE session_id = ? AND n > ? ORDER BY n",
            (self._session_id, taken.oldest),
        )
        for number, kind, body in rows:
            message = _parse_row(int(number), str(kind), str(body))
            if message is not None and message.number > getattr(taken, message.kind):
                yield message.number, message


def list_sessions_with_messages(database: Database) -> frozenset[str]:
    """Return the sessions with at least one message that was not withdrawn."""
    rows = database.query("SELECT DISTINCT session_id FROM inbox WHERE kind <> ?", (WITHDRAWN,))
    return frozenset(str(session_id) for (session_id,) in rows)


def insert_imported(session_id: str, number: int, kind: InboxKind, text: str) -> Statement:
    """Return the statement that stores a message of an imported session."""
    body = json.dumps({"text": text, "from_outside": True}, ensure_ascii=True)
    return insert_row("inbox", (session_id, number, kind, now(), secrets.token_hex(16), body))


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
    fields = {"text": message.text, **{name: value for name, value in more.items() if value}}
    return json.dumps(fields, ensure_ascii=True)


def _parse_row(number: int, kind: str, body: str) -> WaitingMessage | None:
    """Return the message in a row, or None if it was withdrawn or is not valid."""
    fields: dict[str, Any] = parse_json_object(body) or {}
    text, context = fields.get("text"), fields.get("context", "")
    known: dict[str, InboxKind] = {one: one for one in get_args(InboxKind)}
    if kind not in known or not isinstance(text, str) or not isinstance(context, str):
        return None
    return WaitingMessage(number, known[kind], text, context, fields.get("from_outside") is True)
