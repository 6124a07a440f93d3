"""The response whose body is the answer of a turn, whole or piece by piece."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...answers import JsonAnswer, RequestRefused
from .outcomes import TurnOutcome, make_outcome
from .turn_follower import TurnFollower

_SEND_S = 60.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
JsonChunk = dict[str, Any]


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
        """What the stream ends with."""
        ...


class TurnResponse(Response):
    """Waits for a turn. A client that goes away does not end the run."""

    def __init__(self, follower: TurnFollower, form: ReplyForm, base_url: str, streams: bool) -> None:
        super().__init__()
        self._follower, self._form, self._streams = follower, form, streams
        self._base_url = base_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watcher = asyncio.ensure_future(_watch(receive, self._follower))
        try:
            if self._streams:
                await self._stream(send)
            else:
                await (await self._wait())(scope, receive, send)
        except TimeoutError:
            # The client takes nothing; the cut body tells it that the answer is not whole.
            return
        finally:
            watcher.cancel()
            await self._follower.close()

    async def _wait(self) -> JsonAnswer:
        try:
            async with aclosing(self._follower.pieces()) as pieces:
                async for _ in pieces:
                    pass
            return JsonAnswer(self._form.make_whole(self._outcome()))
        except RequestRefused as refused:
            return refused.answer

    def _outcome(self) -> TurnOutcome:
        return make_outcome(self._follower.turn, self._follower.place.session_id, self._base_url)

    async def _stream(self, send: Send) -> None:
        async def put(text: str) -> None:
            async with asyncio.timeout(_SEND_S):
                body = text.encode("ascii")
                await send({"type": "http.response.body", "body": body, "more_body": True})

        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        for chunk in self._form.begin():
            await put(self._form.encode(chunk))
        try:
            has_text = False
            async with aclosing(self._follower.pieces()) as pieces:
                async for piece in pieces:
                    has_text |= bool(piece)
                    chunks = map(self._form.encode, self._form.add(piece)) if piece else [": ping\n\n"]
                    await put("".join(chunks))
            outcome = self._outcome()
            if outcome.notice:
                for chunk in self._form.add(outcome.write_notice(has_text)):
                    await put(self._form.encode(chunk))
            for chunk in self._form.end(outcome):
                await put(self._form.encode(chunk))
            await put(self._form.last)
        except RequestRefused as refused:
            for chunk in self._form.fail(refused):
                await put(self._form.encode(chunk))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _watch(receive: Receive, follower: TurnFollower) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    follower.leave()
