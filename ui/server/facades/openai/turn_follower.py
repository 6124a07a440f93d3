"""Follows the turn that answers a request: its stored events, and the pieces of its text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial

from .....state.errors import SandburError
from ....headless.json_output import Object
from ...answers import RequestRefused
from ...routes.route import ApiRequest
from ...streams.event_ids import EVENTS_PER_ROW
from ..session_events import SessionEvents
from .conversations import AnswerPlace
from .turns import BETWEEN_TEXTS, StoredTurn, read_turns_after

_LOOK_S = 0.5
WAITING = ("needs_approval", "needs_decision")
"""The statuses of a session that a person has to decide about."""
_FAILED = ("error", "failed", "parked")
_REFUSALS = {
    "drain": (503, "draining", "The server ends; the run goes on at its next start."),
    "deleted": (404, "not_found", "The session was deleted."),
    "refused": (401, "unauthorized", "The token is no longer valid."),
}


class TurnFollower:
    """One client that waits for the answer of one turn. It has to be closed."""

    def __init__(self, request: ApiRequest, place: AnswerPlace) -> None:
        self.place = place
        self.turn: StoredTurn | None = None
        """The turn, when it has ended."""
        self._store = request.store
        self._events = SessionEvents(
            request, place.session_id, place.after_row * EVENTS_PER_ROW + EVENTS_PER_ROW - 1
        )
        self._is_fresh = False
        self._has_begun = False
        self._current = ""
        """The pieces of the text that is not whole yet."""
        self._is_first = True
        self._failure: RequestRefused | None = None

    def leave(self) -> None:
        """End the wait, because the client is gone. The run goes on."""
        self._events.end()

    async def close(self) -> None:
        await self._events.close()

    async def pieces(self) -> AsyncGenerator[str]:
        """Yield the answer as it comes; an empty text at each pause. `turn` is set at the end.

        Raises `RequestRefused` if no answer can come.
        """
        watcher = asyncio.ensure_future(self._watch())
        try:
            async with aclosing(self._events.read()) as events:
                async for event in events:
                    piece = "" if event is None else self._read(event)
                    if piece is None:
                        break
                    if piece or event is None:
                        yield piece
        finally:
            watcher.cancel()
        if self._failure is not None:
            raise self._failure
        if not self._events.is_ended or self._has_begun:
            await self._load()

    async def _load(self) -> None:
        place, read = self.place, partial(read_turns_after, self._store, self.place.session_id)
        turns = await self._store.database.offload(lambda: read(place.after_row))
        self.turn = turns[0] if turns else None

    def _read(self, event: Object) -> str | None:
        """Return the text of an event; None if the wait is over."""
        if event["type"] in _REFUSALS:
            self._failure = RequestRefused(*_REFUSALS[event["type"]])
            return None
        return self._read_event(event)

    def _read_event(self, event: Object) -> str | None:
        kind = event["type"]
        if kind == "init":
            self._is_fresh = True
        elif kind == "message" and event["role"] == "user":
            self._has_begun |= self._is_fresh
            self._is_fresh = False
        elif not self._has_begun:
            self._is_fresh &= kind != "message"
            return ""
        elif kind == "result":
            return None
        elif kind == "text":
            return self._add(event["delta"])
        elif kind == "message":
            return self._finish(event["content"])
        return ""

    def _add(self, delta: str) -> str:
        before = "" if self._is_first or self._current else BETWEEN_TEXTS
        self._current += delta
        return before + delta

    def _finish(self, content: str) -> str:
        """Return what is missing of a text that is stored now."""
        is_continued = content.startswith(self._current)
        if not is_continued:
            # The reply was cut, and came once more.
            self._is_first, self._current = False, ""
        rest = content[len(self._current) :]
        piece = self._add(rest) if rest else ""
        self._is_first, self._current = False, ""
        return piece

    async def _watch(self) -> None:
        """End the wait if the session is at rest and nothing more will come."""
        times = 0
        while times < 2:
            await asyncio.sleep(_LOOK_S)
            with suppress(SandburError):
                head = await self._store.database.offload(
                    lambda: self._store.index.summary(self.place.session_id)
                )
                is_waiting = head.status in WAITING and not self._has_begun
                times = times + 1 if head.status in _FAILED or is_waiting else 0
                if times == 2 and not is_waiting:
                    self._failure = RequestRefused(502, "run_failed", "The run failed. The log says why.")
        self._events.end()
