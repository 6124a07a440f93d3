"""Starts and resumes runs for another agent; the settings of the person who serves decide about each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any

from ....actions.ports.events import Event, RunFinished, TextDelta, ThinkingDelta
from ....actions.turn.commands import is_command
from ....agent.runtime.runtime import Runtime
from ....agent.session.recovery import recover
from ....agent.session.session import Session
from ....state.calls import CallDecision
from ....state.errors import SandburError, UsageError
from ....state.lazy_dataclass import dataclass
from ....state.store.sessions.listing import FolderFilter
from ...headless.json_output import make_failure, pending_objects, result_object, stream_object

MOST_RUNNING = 8
MOST_LINES = 1000
"""The most output lines of one run that are kept; the oldest lines are dropped."""
_MOST_LINE_CHARS = 4000
_MOST_ANSWERED = 100
LONGEST_WAIT_S = 50.0
_STRICTEST_FIRST = ("plan", "interactive", "auto-edit", "yolo")
_STOPPING_S = 10.0


@dataclass(slots=True)
class ServedRun:
    """One run with its output lines; its result stays available after the end."""

    session: Session
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    dropped: int = 0
    """The number of lines that were dropped from the beginning."""
    result: dict[str, Any] | None = None
    """The result, or None while the run is active."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def tell(self, line: dict[str, Any]) -> None:
        self.lines.append(_shorten(line))
        if len(self.lines) > MOST_LINES:
            self.dropped += len(self.lines) - MOST_LINES
            del self.lines[:-MOST_LINES]
        self.news.set()


class ServedRuns:
    """Starts and resumes runs in this folder."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._runs: dict[str, ServedRun] = {}

    async def start(self, prompt: str, plans_only: bool) -> dict[str, Any]:
        """Start a run. Raises `SandburError` if it cannot be started."""
        self._make_room()
        _require_message(prompt)
        session = await self._runtime.create()
        if plans_only:
            session.change_mode("plan")
        return self._begin(session, session.send(prompt))

    async def resume(self, run: str, message: str) -> dict[str, Any]:
        """Resume a stopped run, with or without a message. Raises `SandburError` if that is impossible."""
        if message:
            _require_message(message)
        session = await self._open(run)
        return self._begin(session, session.send(message) if message else recover(session))

    async def decide(self, run: str, decision: CallDecision) -> dict[str, Any]:
        """Decide about a pending call and resume the run. Raises `SandburError` if that is impossible."""
        session = await self._open(run)
        return self._begin(session, session.decide([decision], way="through MCP"))

    async def watch(self, run: str, after: int, wait_s: float) -> dict[str, Any]:
        """Return the lines of a run after number `after`, and its result.

        If there are no new lines, wait up to `wait_s` seconds for some.
        """
        # A run that was just started may not be in the store yet.
        session_id = run if run in self._runs else self._runtime.store.find(run)
        served = self._runs.get(session_id)
        if served is None:
            return self._read_status(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(wait_s, 0), LONGEST_WAIT_S)):
                while served.result is None and served.dropped + len(served.lines) <= after:
                    served.news.clear()
                    await served.news.wait()
        begin = max(after - served.dropped, 0)
        lines = served.lines[begin : begin + _MOST_ANSWERED]
        reached = max(after, served.dropped) + len(lines)
        is_all = reached >= served.dropped + len(served.lines)
        result = served.result if is_all else None
        status = "running" if result is None else result["status"]
        return {"run": session_id, "status": status, "lines": lines, "next": reached, "result": result}

    async def list_runs(self, most: int) -> dict[str, Any]:
        """Return the newest runs of this folder."""
        found = islice(self._runtime.store.roots(FolderFilter(str(Path.cwd()))), max(0, most))
        names = ("title", "status", "model", "created_at", "updated_at", "steps")
        return {"runs": [{"run": one.id, **{name: getattr(one, name) for name in names}} for one in found]}

    async def aclose(self) -> None:
        """Interrupt all active runs; they can be resumed later."""
        tasks = [served.task for served in self._runs.values() if served.task is not None]
        for served in self._runs.values():
            if served.result is None:
                await served.session.interrupt("the end of the server")
        if tasks:
            await asyncio.wait(tasks, timeout=_STOPPING_S)

    def _make_room(self) -> None:
        running = [run for run in self._runs.values() if run.result is None]
        if len(running) >= MOST_RUNNING:
            raise UsageError(
                f"{len(running)} runs are active; the limit is {MOST_RUNNING}.", "Wait until a run ends."
            )

    async def _open(self, run: str) -> Session:
        session_id = self._runtime.store.find(run)
        known = self._runs.get(session_id)
        if known is not None and known.result is None:
            raise UsageError(f"Run {session_id} is active.", "Watch it until it stops.")
        self._make_room()
        if self._runtime.store.index.summary(session_id).cwd != str(Path.cwd()):
            raise UsageError(f"Run {session_id} belongs to another folder.", "Start the server there.")
        session = await self._runtime.resume(session_id)
        allowed = self._runtime.settings.mode
        if _STRICTEST_FIRST.index(session.state.execution_mode) > _STRICTEST_FIRST.index(allowed):
            # The person chose the mode of the session for the chat, not for another agent.
            session.change_mode(allowed)
        return session

    def _begin(self, session: Session, events: AsyncIterator[Event]) -> dict[str, Any]:
        served = ServedRun(session)
        for notice in session.notices:
            served.tell({"type": "notice", "message": notice})
        self._runs[session.id] = served
        served.task = asyncio.create_task(self._drive(served, events))
        return {"run": session.id, "status": "running"}

    async def _drive(self, served: ServedRun, events: AsyncIterator[Event]) -> None:
        """Store the events of a run as lines until the run ends."""
        try:
            async for event in events:
                if isinstance(event, RunFinished):
                    served.result = result_object(event)
                elif not isinstance(event, TextDelta | ThinkingDelta) and (line := stream_object(event)):
                    served.tell(line)
        except SandburError as error:
            served.result = result_object(make_failure(error)) | {"session_id": served.session.id}
        finally:
            served.result = served.result or {"status": "interrupted", "session_id": served.session.id}
            served.news.set()
            await self._runtime.let_go(served.session)

    def _read_status(self, session_id: str) -> dict[str, Any]:
        """Return the stored status of a run that this server does not run."""
        view = self._runtime.store.show(session_id)
        status = {"status": view.summary.status, "pending": pending_objects(view.state.calls_to_decide)}
        return {"run": session_id, "status": view.summary.status, "lines": [], "next": 0, "result": status}


def _require_message(text: str) -> None:
    """Raise `UsageError` if a message is empty, or a slash command, which could change mode or rules."""
    if not text.strip():
        raise UsageError("The prompt is empty.")
    if is_command(text):
        raise UsageError(f"`{text.strip()[:40]}` is a command of the chat, not a message.")


def _shorten(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line with its long texts cut; the result of the run has the whole answer."""
    if len(json.dumps(line)) <= _MOST_LINE_CHARS:
        return line
    return {
        key: f"{value[:_MOST_LINE_CHARS]}..."
        if isinstance(value, str) and len(value) > _MOST_LINE_CHARS
        else value
        for key, value in line.items()
    }
