"""Reads the turns of a session from the store: what a person asked, and what the runs answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from .....state.conversation.messages import Message, UserContent, to_blocks
from .....state.errors import SessionNotFound
from .....state.lazy_dataclass import dataclass
from .....state.store.sessions.record_feed import FeedItem, FeedStep, FeedTrace, RecordFeed, count_records
from .....state.store.store import Store
from .....state.trace import RunBegan, RunEnded
from ...streams.stored_events import list_stored_events

_PAGE_ITEMS = 200
BETWEEN_TEXTS = "\n\n"
"""The separator of two texts of one answer, such as before and after a tool call."""


@dataclass(slots=True)
class StoredTurn:
    """A message of a person, and what was answered until the next one."""

    asked: str
    """The text of the message."""
    asked_digest: str
    """The digest of the text and the files of the message; see `digest_content`."""
    session_id: str
    """The session that recorded it: this one or an ancestor."""
    before_row: int
    """The row of that session before the turn."""
    texts: list[str] = field(default_factory=list[str])
    at: str = ""
    """When it was recorded: UTC, ISO 8601; empty if it waits to begin."""
    last_step: int = -1
    """The newest step that belongs to the turn."""
    last_row: int = -1
    """The row of the session with the end of its newest run."""
    result: dict[str, Any] | None = None
    """The event `result` of its newest run; None while a run works on it."""

    @property
    def answer(self) -> str:
        return BETWEEN_TEXTS.join(self.texts)

    @property
    def status(self) -> str:
        """The status of its newest run; empty while it works."""
        return "" if self.result is None else str(self.result["status"])


class TurnFold:
    """Makes turns from the items of a record feed, in order."""

    def __init__(self) -> None:
        self.turns: list[StoredTurn] = []
        self._before_row = -1
        self._is_fresh = False
        """Whether a run has begun and has neither got nor written a message."""

    def add(self, item: FeedItem) -> None:
        if isinstance(item, FeedTrace):
            self._add_trace(item)
        else:
            self._add_step(item)

    def _add_trace(self, item: FeedTrace) -> None:
        if isinstance(item.traced.record, RunBegan):
            # Whether the run goes on with the newest turn or begins another one, its first step tells.
            self._is_fresh, self._before_row = True, item.row - 1
        elif isinstance(item.traced.record, RunEnded) and self.turns:
            # A run that only recorded decisions has no result: the next run goes on with the turn.
            self.turns[-1].result = next(iter(list_stored_events(item)), None)
            self.turns[-1].last_row = item.row

    def _add_step(self, item: FeedStep) -> None:
        for added in item.messages:
            message = added.message
            if message is not None and is_question(message) and self._is_fresh:
                digest = digest_content(message.user_content)
                owner, at = item.step.session_id, item.step.at
                self.turns.append(StoredTurn(message.text, digest, owner, self._before_row, at=at))
                self._is_fresh = False
        replies = [
            event["content"]
            for event in list_stored_events(item)
            if event["type"] == "message" and event["role"] == "assistant"
        ]
        is_fresh, self._is_fresh = self._is_fresh, self._is_fresh and not replies
        if not self.turns:
            return
        turn = self.turns[-1]
        turn.last_step = item.step.seq
        if is_fresh and turn.before_row != self._before_row:
            # A further run goes on with the turn.
            turn.result = None
        turn.texts += replies


def is_question(message: Message) -> bool:
    """Return whether a person asked this; commands that a person ran are none."""
    return message.role == "user" and message.origin == "person" and not message.tool_uses


def digest_content(content: UserContent) -> str:
    """Return a digest of a message by its words and files, whatever the white space between the words."""
    blocks = to_blocks(content)
    words = "".join(getattr(block, "text", "") for block in blocks)
    files = [getattr(block, "sha256", "") or getattr(block, "url", "") for block in blocks]
    return hashlib.sha256("\0".join((squeeze(words), *filter(None, files))).encode()).hexdigest()


def squeeze(text: str) -> str:
    """Return a text with one space between words: clients change white space."""
    return " ".join(text.split())


def read_turns(store: Store, session_id: str) -> list[StoredTurn]:
    """Return all turns of a session and its ancestors, then those that wait to begin.

    Raises `SessionNotFound`.
    """
    fold = TurnFold()
    for owner, last in store.index.lineage(session_id):
        for item in _read_items(store, owner, -1):
            if last is not None and isinstance(item, FeedStep) and item.step.seq > last:
                break
            fold.add(item)
    return fold.turns + read_waiting_turns(store, session_id)


def read_waiting_turns(store: Store, session_id: str) -> list[StoredTurn]:
    """Return the turns of messages that wait for their run."""
    inbox = store.inbox(session_id)
    waiting = [one for one in inbox.load(inbox.load_taken()) if one.kind == "queue"]
    row = count_rows(store, session_id) - 1
    return [StoredTurn(one.text, digest_content(one.content), session_id, row) for one in waiting]


def read_turns_after(store: Store, session_id: str, row: int) -> list[StoredTurn]:
    """Return the first turn after a row of the session, and the one that follows it, if they have begun."""
    fold = TurnFold()
    for item in _read_items(store, session_id, row):
        fold.add(item)
        if len(fold.turns) > 1:
            break
    return fold.turns


def count_rows(store: Store, session_id: str) -> int:
    """Return how many rows a session has; raises `SessionNotFound`."""
    found = count_records(store.database, [session_id]).get(session_id)
    if found is None:
        raise SessionNotFound("There is no such session.")
    return found.records


def _read_items(store: Store, session_id: str, after_row: int) -> Iterator[FeedItem]:
    reader = RecordFeed(store.database, session_id, after_row)
    items: Sequence[FeedItem] = reader.read(_PAGE_ITEMS)
    while items:
        yield from items
        items = reader.read(_PAGE_ITEMS)
