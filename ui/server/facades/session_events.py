"""The events of a session for one request of a facade, while the token of the request is valid."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...headless.json_output import Object
from ..routes.route import ApiRequest
from ..streams.event_ids import decode_frame

LAST_EVENTS = ("result", "drain", "deleted", "refused")
"""The types of the events after which a run has nothing more to show."""


class SessionEvents:
    """A client that follows a session. It has to be closed at its end; the run goes on without it."""

    def __init__(self, request: ApiRequest, session_id: str, after: int) -> None:
        """`after` is the SEQ of the last stored event that the client does not get."""
        self._request = request
        self._session_id = session_id
        self._stream = request.service.feeds.join(session_id, after)

    @property
    def is_ended(self) -> bool:
        """Whether `end` was called."""
        return self._stream.is_ended

    def end(self) -> None:
        """End the events, because the client is gone or nothing more will come."""
        self._stream.end()

    async def close(self) -> None:
        await self._request.service.feeds.leave(self._session_id, self._stream)

    async def read(self) -> AsyncGenerator[Object | None]:
        """Yield the events until `end` is called or the server ends the stream. None: a pause."""
        async with aclosing(self._stream.frames(self._may_go_on)) as frames:
            async for data in frames:
                yield decode_frame(data)

    async def _may_go_on(self) -> bool:
        """Return whether the token of the request still allows what the facades need."""
        caller = self._request.who
        found = await self._request.service.tokens.find(caller.text)
        return found is not None and found.may("run") and found.tenant == caller.tenant
