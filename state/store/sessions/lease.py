"""The lease on a session: claims and renews it, and creates the errors for other processes."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from ...databases.chain import Chain
from ...databases.database import GuardedUpdate, Statement, exists, update
from ...errors import DamagedRecords, SessionHeld, SessionMoved
from ...lazy_dataclass import dataclass
from ...process.clock import format_time
from .listing import read_lease_s


def make_lease_end(now: datetime) -> str:
    """Return the end of a lease that begins `now`, by the clock of the database: UTC, ISO 8601."""
    return format_time(now + timedelta(seconds=read_lease_s()))


def make_held_error(session_id: str, owner: str, was_taken: bool = False) -> SessionHeld:
    """Return the error for a process that may not write, because `owner` runs the session."""
    host, pid, *_ = [*owner.split(":"), "?"]
    if was_taken:
        who = f"process {pid} on {host} took it over" if owner else "another process took it over"
        return SessionHeld(
            f"This process does not run session {session_id} any more: {who}. Nothing more was done here.",
            f"See what it did: sandbur sessions show {session_id}",
        )
    return SessionHeld(
        f"Session {session_id} is running in process {pid} on {host}.",
        "Wait for it, stop it, send it a message with `sandbur steer`, or continue in a copy: sandbur fork",
    )


def make_moved_error(session_id: str, last_seq: int | None = None) -> SessionMoved:
    """Return the error for a process that knows an older state of the session than the store has."""
    until = "" if last_seq is None else f", up to step {last_seq}"
    return SessionMoved(
        f"Session {session_id} was continued by another process{until}.",
        f"See what it did: sandbur -r {session_id}",
    )


def make_claim_error(session_id: str) -> DamagedRecords:
    """Return the error for a session whose number of claims is damaged, so that no process may write it."""
    return DamagedRecords(
        f"The row of session {session_id} in the table heads is damaged, so it cannot go on.",
        f"Continue in a copy: sandbur fork {session_id}. `sandbur doctor` names the damage.",
    )


Beat = Callable[[], Coroutine[Any, Any, None]]


class Heartbeat:
    """Runs all heartbeats in one thread with its own event loop.

    If the system allows no more threads, they run in the event loop of the caller.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_thread = False
        self._beating: dict[object, asyncio.Task[None]] = {}
        self._owners: set[object] = set()

    def begin(self, owner: object, beat: Beat) -> None:
        """Run `beat` in the background until it ends or `end` is called."""
        with self._lock:
            if owner in self._owners:
                return
            if self._loop is None:
                self._open_loop()
            assert self._loop is not None
            self._owners.add(owner)
            asyncio.run_coroutine_threadsafe(self._beat(owner, beat), self._loop)

    async def end(self, owner: object) -> None:
        """Stop the heartbeat of `owner`. It has stopped when this returns."""
        with self._lock:
            loop = self._loop
            if loop is None or owner not in self._owners:
                return
            stopped = asyncio.run_coroutine_threadsafe(self._stop(owner), loop)
        await asyncio.wrap_future(stopped)
        with self._lock:
            self._owners.discard(owner)
            if not self._owners and self._loop is loop:
                self._loop = None
                if self._has_thread:
                    loop.call_soon_threadsafe(loop.stop)

    def _open_loop(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            threading.Thread(target=_run, args=(loop,), name="lease", daemon=True).start()
        except RuntimeError:
            loop.close()
            self._loop, self._has_thread = asyncio.get_running_loop(), False
        else:
            self._loop, self._has_thread = loop, True

    async def _beat(self, owner: object, beat: Beat) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._beating[owner] = task
        try:
            await beat()
        finally:
            del self._beating[owner]

    async def _stop(self, owner: object) -> None:
        if task := self._beating.get(owner):
            task.cancel()
            await asyncio.wait([task])


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def make_head_update(
    session_id: str, was: Mapping[str, Any], columns: Mapping[str, Any], now: Mapping[str, Any]
) -> GuardedUpdate:
    """Return a guarded update of a session's head. It needs the values `was`, and has happened if the head
    has the values `now`.
    """
    mine = {"session_id": session_id}
    return GuardedUpdate(update("heads", columns, {**mine, **was}), exists("heads", {**mine, **now}))


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim on a session. It takes effect with the first commit of a run, and changes nothing before."""

    session_id: str
    runner: str
    """The name of the process that will run the session."""
    was_epoch: int | None
    """The epoch of the last claim; None if this claim creates the session."""
    statements: list[Statement] = field(default_factory=list[Statement])
    """The changes that are committed with the claim."""
    title: str = ""
    """The title of a new session."""
    place: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tenant, folder and labels, as columns of the head."""
    settings: str = ""
    """The settings that the claim stores, as JSON."""

    @property
    def epoch(self) -> int:
        """Return the epoch that every later write must name."""
        return (self.was_epoch or 0) + 1

    def make_guard(self, changed: Mapping[str, Any], end: Chain) -> GuardedUpdate:
        """Return the guarded update that takes the claim and sets the columns `changed`.

        It fails if the session's chain does not end with `end` any more, or if another process claimed the
        session.
        """
        columns = {"owner": self.runner, "epoch": self.epoch, "status": "running", "wake_at": ""}
        columns |= {**self.place, **changed}
        now = {name: columns[name] for name in ("epoch", "owner", "records", "chain")}
        if self.was_epoch is not None:
            was = {"epoch": self.was_epoch, "records": end.records, "chain": end.digest}
            return make_head_update(self.session_id, was, columns, now)
        mine = {"session_id": self.session_id}
        return GuardedUpdate(
            self._insertion({**mine, "title": self.title, "updated_at": columns["committed_at"], **columns}),
            exists("heads", {**mine, **now}),
        )

    def _insertion(self, columns: Mapping[str, Any]) -> Statement:
        """Return the statement that creates the session's head if there is none."""
        return (
            f"INSERT INTO heads ({', '.join(columns)}) SELECT {', '.join('?' * len(columns))} FROM meta"
            " WHERE name = 'schema' AND NOT EXISTS (SELECT 1 FROM heads WHERE session_id = ?)",
            (*columns.values(), self.session_id),
        )
