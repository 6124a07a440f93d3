"""Starts, watches and decides the sessions of a tenant, for the tools of the MCP server."""

from __future__ import annotations

import asyncio
import uuid
from contextvars import ContextVar
from typing import Any

from .....agent.sdk.stored_sessions import SessionQuery, list_sessions
from .....state.calls import CallDecision
from .....state.errors import UsageError
from .....state.store.access_tokens import Scope
from .....state.store.sessions.record_feed import RecordFeed
from ....headless.json_output import Object
from ...answers import RequestRefused
from ...routes.route import ApiRequest
from ...streams.event_ids import EVENTS_PER_ROW, decode_frame, make_stored_frames
from ..session_turn import SessionTurn, read_status

CURRENT_REQUEST: ContextVar[ApiRequest] = ContextVar("CURRENT_REQUEST")
"""The HTTP request whose tool call runs."""
_LONGEST_WAIT_S, _LOOK_S = 50.0, 0.2
_MOST_ANSWERED = 100


class SessionRuns:
    """The tools, with the rights of the current request's token. A run is a session."""

    async def start(self, prompt: str, plans_only: bool) -> dict[str, Any]:
        """Begin a session with a message. Raises `UsageError` for `plans_only`: agents have their mode."""
        request = _require("run")
        if plans_only:
            raise UsageError("Runs of this server have the mode of their agent.", "Leave `plan_only` out.")
        if not prompt.strip():
            raise UsageError("The prompt is empty.")
        session_id, runner = str(uuid.uuid4()), request.service.runner
        labels = {"app": "", "user": "", "tags": ()}
        name = next(iter(request.service.agents))
        await runner.create(request.store, name, session_id, labels)
        await runner.send(request.store, session_id, prompt)
        return {"run": session_id, "status": "running"}

    async def watch(self, run: str, after: int, wait_s: float) -> dict[str, Any]:
        """Return the stored events from number `after` on; if there are none, wait up to `wait_s` seconds."""
        request = _require("read")
        loop = asyncio.get_running_loop()
        end = loop.time() + min(max(wait_s, 0), _LONGEST_WAIT_S)
        while True:
            status = await read_status(request, run)
            lines = await request.store.database.offload(lambda: _read_events(request, run, after))
            if lines or not status.is_active or loop.time() >= end:
                break
            await asyncio.sleep(_LOOK_S)
        is_all = len(lines) < _MOST_ANSWERED and not status.is_active
        result = lines[-1] if lines and lines[-1]["type"] == "result" else None
        if is_all and result is None:
            result = {"status": status.status, "pending": status.pending}
        return {
            "run": run,
            "status": status.status if is_all else "running",
            "lines": lines,
            "next": lines[-1]["seq"] + 1 if lines else after,
            "result": result if is_all else None,
        }

    async def list_runs(self, most: int) -> dict[str, Any]:
        """Return the newest sessions of the tenant."""
        request = _require("read")
        names = ("title", "status", "model")
        found = [one async for one in list_sessions(request.store, SessionQuery(limit=most))]
        return {"runs": [{"run": one.id, **{name: getattr(one, name) for name in names}} for one in found]}

    async def resume(self, run: str, message: str) -> dict[str, Any]:
        """Let a session go on, with a message or without."""
        turn = await _open(_require("run"), run)
        try:
            if message:
                await turn.send(message)
            else:
                await turn.go_on()
        finally:
            await turn.close()
        return {"run": run, "status": "running"}

    async def decide(self, run: str, decision: CallDecision) -> dict[str, Any]:
        """Record a decision about a call; the run goes on if no other one waits."""
        turn = await _open(_require("approve"), run)
        try:
            is_going_on = await turn.decide([decision])
        finally:
            await turn.close()
        return {"run": run, "status": "running" if is_going_on else "needs_approval"}


def _require(scope: Scope) -> ApiRequest:
    """Return the current request; raises `UsageError` if its token does not have the scope."""
    request = CURRENT_REQUEST.get()
    if not request.who.may(scope):
        raise UsageError(f"This needs a token with the scope {scope!r}.")
    return request


async def _open(request: ApiRequest, run: str) -> SessionTurn:
    """Take a session that exists for a call of a tool; raises `SandburError`."""
    await request.store.database.offload(lambda: request.store.index.summary(run))
    turn = SessionTurn(request, run)
    try:
        await turn.open("")
    except RequestRefused as refused:
        await turn.close()
        raise UsageError(refused.message, refused.hint) from None
    except BaseException:
        await turn.close()
        raise
    return turn


def _read_events(request: ApiRequest, run: str, after: int) -> list[Object]:
    """Return the stored events of a session from SEQ `after` on, the oldest first."""
    reader = RecordFeed(request.store.database, run, max(after // EVENTS_PER_ROW - 1, -1))
    lines: list[Object] = []
    while len(lines) < _MOST_ANSWERED and (items := reader.read(_MOST_ANSWERED)):
        frames = [frame for item in items for frame in make_stored_frames(run, item)]
        events = [decode_frame(frame.data) for frame in frames if frame.seq or frame.follows >= after]
        lines += [one for one in events if one is not None and one.get("seq", -1) >= after]
    return lines[:_MOST_ANSWERED]
