"""The response whose body is the answer of a turn, whole or piece by piece."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...answers import JsonAnswer, RequestRefused
from ...streams.event_stream import send_frames, watch_disconnect
from ...streams.session_feed import PING
from .outcomes import TurnOutcome, make_outcome
from .turn_follower import TurnFollower
from .turns import StoredTurn

JsonChunk = dict[str, Any]
NoteAnswer = Callable[[StoredTurn, str], Awaitable[None]]


class ReplyForm(Protocol):
    """How an answer is written."""

    @abstractmethod
    def make_whole(self, outcome: TurnOutcome) -> JsonChunk: ...

    @abstractmethod
    def begin(self) -> Iterator[JsonChunk]: ...

    @abstractmethod
    def add(self, piece: str) -> Iterator[JsonChunk]: ...

    @abstractmethod
    def end(self, outcome: TurnOutcome) -> Iterator[JsonChunk]: ...

    @abstractmethod
    def fail(self, refused: RequestRefused) -> Iterator[JsonChunk]: ...

    @abstractmethod
    def encode(self, chunk: JsonChunk) -> str:
        """Return a chunk as an event of a stream."""
        ...

    @property
    @abstractmethod
    def last(self) -> str:
        """Return the text with which the stream ends."""
        ...


class TurnResponse(Response):
    """Waits for a turn. A client that goes away does not end the run."""

    def __init__(
        self,
        follower: TurnFollower,
        form: ReplyForm,
        base_url: str,
        streams: bool,
        note_answer: NoteAnswer | None = None,
    ) -> None:
        """`note_answer` is called with the turn and the whole text before the client has all of it."""
        super().__init__()
        self._follower, self._form, self._streams = follower, form, streams
        self._base_url, self._note_answer = base_url, note_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._streams:
                await send_frames(self._make_frames(), receive, send, self._follower.leave)
                return
            watcher = asyncio.ensure_future(watch_disconnect(receive, self._follower.leave))
            try:
                await (await self._wait())(scope, receive, send)
            finally:
                watcher.cancel()
        finally:
            await self._follower.close()

    async def _wait(self) -> JsonAnswer:
        try:
            async with aclosing(self._follower.pieces()) as pieces:
                async for _ in pieces:
                    pass
            return JsonAnswer(self._form.make_whole(await self._finish()))
        except RequestRefused as refused:
            return refused.answer

    async def _finish(self) -> TurnOutcome:
        turn = self._follower.turn
        outcome = make_outcome(turn, self._follower.place.session_id, self._base_url)
        if turn is not None and self._note_answer is not None:
            await self._note_answer(turn, outcome.whole_text)
        return outcome

    async def _make_frames(self) -> AsyncGenerator[bytes]:
        for chunk in self._form.begin():
            yield self._encode(chunk)
        try:
            has_text = False
            async with aclosing(self._follower.pieces()) as pieces:
                async for piece in pieces:
                    has_text |= bool(piece)
                    yield b"".join(map(self._encode, self._form.add(piece))) if piece else PING
            outcome = await self._finish()
            if outcome.notice:
                for chunk in self._form.add(outcome.write_notice(has_text)):
                    yield self._encode(chunk)
            for chunk in self._form.end(outcome):
                yield self._encode(chunk)
            yield self._form.last.encode("ascii")
        except RequestRefused as refused:
            for chunk in self._form.fail(refused):
                yield self._encode(chunk)

    def _encode(self, chunk: JsonChunk) -> bytes:
        return self._form.encode(chunk).encode("ascii")
