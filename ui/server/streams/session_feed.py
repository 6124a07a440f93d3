"""Follows the sessions that somebody watches, and passes their events to each stream.

What is stored comes from the store, in its order, whichever process runs the session. Events that are not
stored, such as pieces of text, come from sessions that run in this process.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial

from ....actions.ports.events import (
    ApprovalNeeded,
    Event,
    FlowMatched,
    MessageAdded,
    PlanChanged,
    PlanResumed,
    RunFinished,
    RunStarted,
    StepChanged,
    SubAgentEvent,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    UsageChanged,
)
from ....state.databases.database import COMMITS, Database
from ....state.errors import SandburError, SessionNotFound
from ....state.store.sessions.record_feed import RecordFeed, count_records
from .event_ids import (
    EVENTS_PER_ROW,
    Frame,
    WrongEventId,
    encode_control,
    make_live_frame,
    make_stored_frames,
)

_POLL_S = 0.25
PING_S = 15.0
_PAGE_ITEMS = 100
_BATCH_BYTES = 64 * 1024
"""About how many bytes are sent at once."""
_MOST_QUEUED_BYTES = 256 * 1024
"""The most bytes that wait for one client. A slower client gets stored events from the store again."""
_MOST_OUTPUT_BYTES = 128 * 1024
"""Output of running calls is left out for a client for which so many bytes wait."""
_MOST_WAITING = 100
"""Output of running calls is left out while so many events wait for a read of the store."""
_STORED = (
    RunStarted, MessageAdded, FlowMatched, PlanChanged, PlanResumed, StepChanged, ApprovalNeeded,
    UsageChanged, RunFinished,
)  # fmt: skip
PING = b": ping\n\n"


class SessionFeed:
    """The events of one session for all streams that follow it."""

    def __init__(self, database: Database, session_id: str) -> None:
        self._database = database
        self._session_id = session_id
        self.streams: set[EventStreamQueue] = set()
        self._waiting: deque[Event | None] = deque()
        """Live events in order; None: the store may have something new."""
        self._arrived = asyncio.Event()
        self._reader: RecordFeed | None = None
        self._head = 0
        self._must_read = True
        """Whether the next read is needed, whatever this process has committed."""
        self._commits_read = 0
        """The number of commits of this process that the last read has seen."""
        self._was_stored = True
        """Whether the last event of a run in this process was one that is stored."""
        self._task = asyncio.ensure_future(self._run())

    @property
    def next_row(self) -> int:
        """The number of the row that was not read yet; a large number before the first read."""
        reader = self._reader
        return 2**62 if reader is None else reader.row + 1

    def hint(self) -> None:
        """Read the store soon: another process has recorded something."""
        self._must_read = True
        self._wake_reader()

    def _wake_reader(self) -> None:
        if not self._waiting or self._waiting[-1] is not None:
            self._waiting.append(None)
        self._arrived.set()

    def publish(self, event: Event) -> None:
        """Pass on an event of a run in this process."""
        is_of_run = isinstance(event, ToolRequested | ToolFinished) and not event.parent_call_id
        is_stored = is_of_run or isinstance(event, _STORED)
        if is_stored or self._was_stored:
            # The commit of a stored event may come after it, but comes before what follows.
            self._wake_reader()
        if not (is_stored or (isinstance(event, ToolOutput) and len(self._waiting) > _MOST_WAITING)):
            self._waiting.append(event)
            self._arrived.set()
        self._was_stored = is_stored

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except SandburError:
                # Each stream finds the reason when it reads the store itself.
                for stream in self.streams:
                    stream.fall_behind()
                self._reader, self._must_read = None, True
                await asyncio.sleep(_POLL_S)

    async def _follow(self) -> None:
        if self._reader is None:
            heads = await self._database.offload(lambda: count_records(self._database, [self._session_id]))
            if self._session_id not in heads:
                raise SessionNotFound(f"Session {self._session_id} was deleted.")
            newest = heads[self._session_id].records - 1
            make = partial(RecordFeed, self._database, self._session_id, newest)
            self._reader = await self._database.offload(make)
            self._head = newest * EVENTS_PER_ROW + EVENTS_PER_ROW - 1
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                event = self._waiting.popleft()
                if event is None:
                    await self._read_store(self._reader)
                elif (frame := make_live_frame(self._session_id, event, self._head)) is not None:
                    self._send(frame)

    async def _read_store(self, reader: RecordFeed) -> None:
        """Pass on what is new in the store, unless nothing can be new."""
        is_full = self._must_read or self._commits_read != COMMITS.number
        # Both are noted before the read: what is committed meanwhile is read by the next one.
        self._must_read, self._commits_read = False, COMMITS.number
        while is_full:
            items = await self._database.offload(lambda: reader.read(_PAGE_ITEMS))
            for item in items:
                for frame in make_stored_frames(self._session_id, item):
                    self._head = frame.follows
                    self._send(frame)
            # Whatever is recorded after a page that was not full comes with a hint of its own.
            is_full = len(items) == _PAGE_ITEMS

    def _send(self, frame: Frame) -> None:
        for stream in self.streams:
            stream.put(frame)


class EventStreamQueue:
    """The frames that wait for one client. At its start and after a delay it reads the store itself."""

    def __init__(self, feeds: "SessionFeeds", session_id: str, after: int) -> None:
        self._feeds = feeds
        self._session_id = session_id
        self._position = after
        """The SEQ of the last stored event that was sent."""
        self._frames: deque[Frame] = deque()
        self._bytes = 0
        self._is_behind = True
        self._arrived = asyncio.Event()
        self._session_is_gone = False
        self.is_ended = False

    def put(self, frame: Frame) -> None:
        if self._is_behind:
            # Stored events are read again; others are lost.
            return
        if frame.is_output and self._bytes + len(frame.data) > _MOST_OUTPUT_BYTES:
            return
        self._frames.append(frame)
        self._bytes += len(frame.data)
        if self._bytes > _MOST_QUEUED_BYTES:
            self.fall_behind()
        self._arrived.set()

    def fall_behind(self) -> None:
        """Forget what waits: the stream reads the store when the client has taken what was sent."""
        self._frames.clear()
        self._bytes, self._is_behind = 0, True
        self._arrived.set()

    def wake(self) -> None:
        self._arrived.set()

    def end(self) -> None:
        """End the stream, because the client is gone."""
        self.is_ended = True
        self._arrived.set()

    async def frames(self, may_go_on: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes]:
        """Yield what the client gets, until it leaves, the server drains, or it may no longer read.

        `may_go_on` is asked again and again.
        """
        async with aclosing(self.batches(may_go_on)) as batches:
            async for batch in batches:
                for data in batch:
                    yield data

    async def batches(
        self, may_go_on: Callable[[], Awaitable[bool]], check_s: float = PING_S
    ) -> AsyncGenerator[list[bytes]]:
        """Yield the same frames as `frames`, those that wait at the same time together.

        `may_go_on` is asked at every pause, and after `check_s` of a busy stream.
        """
        checked = time.monotonic()
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                if piece is None or time.monotonic() - checked >= check_s:
                    if not await may_go_on():
                        yield [encode_control("refused", message="The token is no longer valid.")]
                        return
                    checked = time.monotonic()
                yield [PING] if piece is None else piece

    async def _pieces(self) -> AsyncGenerator[list[bytes] | None]:
        """Yield the frames, and None at every pause."""
        while not self.is_ended and not self._feeds.is_draining:
            if self._is_behind:
                async for data in self._catch_up():
                    yield [data]
                if self._session_is_gone:
                    yield [encode_control("deleted", session_id=self._session_id)]
                    return
                continue
            while self._frames and not self.is_ended:
                if batch := self._take_batch():
                    yield batch
            if not await self._wait() and not self._frames:
                yield None
        if self._feeds.is_draining:
            yield [encode_control("drain", message="The server ends. Connect again.")]

    def _take_batch(self) -> list[bytes]:
        """Return the next frames that the client does not have yet."""
        found: list[bytes] = []
        size = 0
        while self._frames and size < _BATCH_BYTES:
            if (data := self._take()) is not None:
                found.append(data)
                size += len(data)
        return found

    def _take(self) -> bytes | None:
        """Return the next frame that the client does not have yet, or None."""
        frame = self._frames.popleft()
        self._bytes -= len(frame.data)
        if frame.seq:
            if frame.seq <= self._position:
                return None
            self._position = frame.seq
        elif frame.follows < self._position:
            return None
        return frame.data

    async def _wait(self) -> bool:
        """Wait for something to send; return False after a pause without anything."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_S):
                await self._arrived.wait()
            self._arrived.clear()
            return True
        return False

    async def _catch_up(self) -> AsyncGenerator[bytes]:
        """Yield what the store has after the position. From then on the queue is filled."""
        database, row = self._feeds.database, self._position // EVENTS_PER_ROW - 1
        row = max(row, -1)
        try:
            reader = await database.offload(lambda: RecordFeed(database, self._session_id, row))
            # Whatever is recorded from now on is in the queue or in the store, or in both.
            self._is_behind = False
            while items := await database.offload(lambda: reader.read(_PAGE_ITEMS)):
                for item in items:
                    for frame in make_stored_frames(self._session_id, item):
                        if frame.follows > self._position:
                            self._position = frame.seq or self._position
                            yield frame.data
                if self.is_ended or self._feeds.is_draining:
                    return
        except SessionNotFound:
            self._session_is_gone = True


class SessionFeeds:
    """The feeds of the sessions that streams of this server follow."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.is_draining = False
        self._feeds: dict[str, SessionFeed] = {}
        self._poller: asyncio.Task[None] | None = None
        self._left = asyncio.Event()

    @property
    def stream_count(self) -> int:
        return sum(len(feed.streams) for feed in self._feeds.values())

    def is_followed(self, session_id: str) -> bool:
        """Return whether a stream of this server follows the session."""
        return session_id in self._feeds

    def publish(self, session_id: str, event: Event) -> None:
        """Pass an event of a run in this process to the streams of its session, and of its sub-agent."""
        if isinstance(event, SubAgentEvent):
            self.publish(event.agent.agent_id, event.event)
            if isinstance(event.event, ToolOutput):
                return
        if (feed := self._feeds.get(session_id)) is not None:
            feed.publish(event)

    async def check_position(self, session_id: str, seq: int) -> None:
        """Raise `WrongEventId` if the store has no row for this SEQ, such as after a restored backup."""
        counts = await self.database.offload(lambda: count_records(self.database, [session_id]))
        if session_id in counts and seq // EVENTS_PER_ROW >= counts[session_id].records:
            raise WrongEventId("unknown_event")

    def join(self, session_id: str, after: int) -> EventStreamQueue:
        """Return a stream of the events after a SEQ; -1: all events. It has to leave at its end."""
        stream = EventStreamQueue(self, session_id, after)
        if session_id not in self._feeds:
            self._feeds[session_id] = SessionFeed(self.database, session_id)
        self._feeds[session_id].streams.add(stream)
        if self._poller is None:
            self._poller = asyncio.ensure_future(self._poll())
        return stream

    async def leave(self, session_id: str, stream: EventStreamQueue) -> None:
        feed = self._feeds[session_id]
        feed.streams.discard(stream)
        if not feed.streams:
            del self._feeds[session_id]
            if not self._feeds:
                self._left.set()
            await feed.close()

    def drain(self) -> None:
        """End every stream with a `drain` event."""
        self.is_draining = True
        for feed in self._feeds.values():
            for stream in feed.streams:
                stream.wake()

    async def wait_until_left(self) -> None:
        """Wait until no stream is open."""
        while self._feeds:
            self._left.clear()
            await self._left.wait()

    async def aclose(self) -> None:
        tasks = [] if self._poller is None else [self._poller]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for feed in self._feeds.values():
            await feed.close()

    async def _poll(self) -> None:
        """Look for what other processes record."""
        while True:
            await asyncio.sleep(_POLL_S)
            ids = list(self._feeds)
            with suppress(SandburError):
                counts = await self.database.offload(partial(count_records, self.database, ids))
                for session_id, feed in list(self._feeds.items()):
                    count = counts.get(session_id)
                    if session_id in ids and (count is None or count.records > feed.next_row):
                        feed.hint()
