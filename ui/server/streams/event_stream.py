"""The response of a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .event_ids import ResetReason, WrongEventId, encode_control, parse_event_id
from .session_feed import EventStreamQueue, SessionFeeds

_RETRY_MS = 2000
_SEND_S = 60.0
"""A client that takes nothing for this time is disconnected."""
BEFORE_ALL = -1
"""The place before the first event of a session."""
EVENT_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStreamResponse(Response):
    """Sends the events of a session after `last_id`, and further ones as they come.

    An id that names no event of this session is answered by the event `reset`, and then by all events.
    `last_id` None: all events. `may_go_on` is asked again and again while the stream is open.
    """

    def __init__(
        self,
        feeds: SessionFeeds,
        session_id: str,
        last_id: str | None,
        may_go_on: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self._feeds = feeds
        self._session_id = session_id
        self._last_id = last_id
        self._may_go_on = may_go_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        after, reset = await self._find_place()
        stream = self._feeds.join(self._session_id, after)
        try:
            await send_frames(self._frames(stream, reset), receive, send, stream.end)
        finally:
            await self._feeds.leave(self._session_id, stream)

    async def _find_place(self) -> tuple[int, ResetReason | None]:
        if not self._last_id:
            return BEFORE_ALL, None
        try:
            seq = parse_event_id(self._last_id, self._session_id)
            await self._feeds.check_position(self._session_id, seq)
        except WrongEventId as wrong:
            return BEFORE_ALL, wrong.reason
        return seq, None

    async def _frames(self, stream: EventStreamQueue, reset: ResetReason | None) -> AsyncGenerator[bytes]:
        yield f"retry: {_RETRY_MS}\n\n".encode()
        if reset is not None:
            yield encode_control("reset", reason=reset, session_id=self._session_id)
        async with aclosing(stream.batches(self._may_go_on)) as batches:
            async for batch in batches:
                yield b"".join(batch)


async def send_frames(
    frames: AsyncGenerator[bytes], receive: Receive, send: Send, end: Callable[[], None]
) -> None:
    """Send a stream as an answer. `end` is called when the client disconnects, and has to end `frames`."""
    watcher = asyncio.ensure_future(watch_disconnect(receive, end))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})
        async with aclosing(frames):
            async for data in frames:
                async with asyncio.timeout(_SEND_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except TimeoutError:
        # Without an end of the body the client sees that the stream was cut, and connects again.
        return
    finally:
        watcher.cancel()


async def watch_disconnect(receive: Receive, end: Callable[[], None]) -> None:
    """Call `end` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    end()
