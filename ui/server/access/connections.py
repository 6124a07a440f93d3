"""The bounds of connections: the time that a request may take to arrive, and how many strangers hold open.

A stranger is a connection whose last request had no valid token. When there are too many, the oldest one is
closed and the new one is let in: behind a proxy all clients have one address, and none locks the others out.
"""

from __future__ import annotations

import asyncio
import errno
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from ....state.lazy_dataclass import dataclass
from ..answers import SECURITY_HEADERS, make_error

_LEAST_BYTES_A_SECOND = 500
"""The rate of a body beyond the time limit."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOTICES_S = 60.0
_Rank = Literal[0, 1, 2, 3]
_IDLE_STRANGER, _BUSY_STRANGER, _IDLE_KNOWN, _BUSY_KNOWN = 0, 1, 2, 3
"""The ranks in the order in which connections are closed to make room; the last one is not closed."""


@dataclass(slots=True)
class Connections:
    """The open connections of a server, and which of them is closed when there are too many."""

    most: int
    most_strangers: int
    """How many connections of strangers an address may hold open."""
    request_s: float
    """How long the header of a request may take. A body may take as long, and longer at a steady rate."""
    on_notice: Callable[[str], None]
    _ranks: dict[BoundedProtocol, _Rank] = field(default_factory=dict["BoundedProtocol", "_Rank"])
    _queues: tuple[OrderedDict[BoundedProtocol, None], ...] = field(
        default_factory=lambda: tuple(OrderedDict["BoundedProtocol", None]() for _ in range(4))
    )
    """Rank -> the connections that have it, those that have had it longest first."""
    _strangers: dict[str, OrderedDict[BoundedProtocol, None]] = field(
        default_factory=dict[str, "OrderedDict[BoundedProtocol, None]"]
    )
    """Address -> its connections that were strangers when they were looked at."""
    _noticed_at: float = -_NOTICES_S

    def add(self, connection: BoundedProtocol) -> None:
        """Count a new connection. Close an older one if this is one too many."""
        self.follow(connection)
        own = self._strangers[connection.address]
        if len(own) > self.most_strangers:
            for one in list(own):
                self.follow(one)
            if len(own) > self.most_strangers:
                self._close(min(own, key=lambda one: one.rank))
        if len(self._ranks) >= self.most:
            self.make_room()

    def follow(self, connection: BoundedProtocol) -> None:
        """Note what a connection does now."""
        rank, noted = connection.rank, self._ranks.get(connection)
        if rank == noted:
            return
        if noted is not None:
            del self._queues[noted][connection]
        self._ranks[connection] = rank
        self._queues[rank][connection] = None
        if rank in (_IDLE_STRANGER, _BUSY_STRANGER):
            self._strangers.setdefault(connection.address, OrderedDict()).setdefault(connection)
        else:
            self._forget_stranger(connection)

    def remove(self, connection: BoundedProtocol) -> None:
        """Forget a connection that is closed."""
        if (noted := self._ranks.pop(connection, None)) is not None:
            del self._queues[noted][connection]
            self._forget_stranger(connection)

    def make_room(self) -> None:
        """Close the connection that is missed least, if there is one that may be closed."""
        for rank in (_IDLE_STRANGER, _BUSY_STRANGER, _IDLE_KNOWN):
            for one in list(self._queues[rank]):
                self.follow(one)
                if self._ranks[one] == rank:
                    self._close(one)
                    return

    def handle_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Make room when the process has no file for one more connection; log every other error."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _FULL:
            loop.default_exception_handler(context)
            return
        self.make_room()
        if time.monotonic() - self._noticed_at >= _NOTICES_S:
            self._noticed_at = time.monotonic()
            self.on_notice(f"A connection has to wait: {error.strerror}.")

    def _close(self, connection: BoundedProtocol) -> None:
        self.remove(connection)
        connection.abort()

    def _forget_stranger(self, connection: BoundedProtocol) -> None:
        own = self._strangers.get(connection.address, OrderedDict())
        own.pop(connection, None)
        if not own:
            self._strangers.pop(connection.address, None)


class BoundedConfig(Config):
    """The configuration of uvicorn, and the bounds of its connections."""

    def __init__(self, app: Any, connections: Connections, **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.connections = connections


class BoundedProtocol(H11Protocol):
    """A connection that is closed when a request takes too long to arrive."""

    _bounds: Connections
    _awaited: Literal["header", "body"] | None = None
    """What the client still has to send; None: the server works, or the next request may come late."""
    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    _received = 0
    _was_known = False
    """Whether the last answered request had a valid token."""

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def rank(self) -> _Rank:
        is_busy = self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY)
        if self._was_known or (is_busy and _has_caller(self)):
            return _BUSY_KNOWN if is_busy else _IDLE_KNOWN
        return _BUSY_STRANGER if is_busy else _IDLE_STRANGER

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        assert isinstance(self.config, BoundedConfig)
        self._bounds = self.config.connections
        self._bounds.add(self)
        self._await_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._received += len(data)
        self._await_request()

    def on_response_complete(self) -> None:
        self._was_known = _has_caller(self)
        super().on_response_complete()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._bounds.remove(self)
        super().connection_lost(exc)
        self._stop_timer()

    def abort(self) -> None:
        """Close the connection now; its request ends as if the client had left."""
        self.connections.discard(self)
        self.transport.abort()

    def _await_request(self) -> None:
        """Start the time limit of what comes next, unless it runs already."""
        if self.transport.is_closing():
            self._stop_timer()
            return
        self._bounds.follow(self)
        awaited = self._find_awaited()
        if awaited == self._awaited:
            return
        self._stop_timer()
        self._awaited = awaited
        if awaited is not None:
            self._since, self._received = self.loop.time(), 0
            self._timer = self.loop.call_later(self._bounds.request_s, self._end_late_request)

    def _find_awaited(self) -> Literal["header", "body"] | None:
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return "body"
        # Between two requests a timer of uvicorn runs, until the first byte.
        is_begun = self.timeout_keep_alive_task is None or bool(self.conn.trailing_data[0])
        return "header" if state is h11.IDLE and is_begun else None

    def _end_late_request(self) -> None:
        self._timer = None
        left_s = self._find_time_left()
        if left_s > 0:
            self._timer = self.loop.call_later(left_s, self._end_late_request)
            return
        is_begun = self._awaited == "body" or bool(self.conn.trailing_data[0])
        if is_begun and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._answer_late()
        else:
            self.abort()

    def _find_time_left(self) -> float:
        if self._awaited == "header":
            return 0.0
        if self.flow.read_paused:
            # The server itself is behind.
            return self._bounds.request_s
        allowed_s = self._bounds.request_s + self._received / _LEAST_BYTES_A_SECOND
        return self._since + allowed_s - self.loop.time()

    def _answer_late(self) -> None:
        """Answer 408 and close."""
        answer = make_error(408, "timeout", "The request did not arrive in time.", "Send it again.")
        security = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
        headers = [*answer.raw_headers, *security, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=408, headers=headers, reason=b"Request Timeout"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        if self._awaited == "body":
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _has_caller(connection: BoundedProtocol) -> bool:
    """Return whether the guard let the newest request of a connection through with a token."""
    return "caller" in connection.scope.get("state", {})
