"""A worker: claims waiting sessions of a store, runs them with its agents, and hands them back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ...actions.ports.events import Event, RunFinished
from ...state.conversation.messages import UserContent
from ...state.databases.database import ignore_notice
from ...state.errors import SandburError, SettingsChanged, StoreError, UsageError
from ...state.process.cancellation import run_to_end
from ...state.process.clock import format_time
from ...state.process.crashpoints import reach
from ...state.process.identity import make_runner_name
from ...state.store.sessions.claims import Claimed, WorkerClaims, WorkerProfile
from ...state.store.sessions.deaths import PARKED
from ...state.store.sessions.lanes import CHANNEL, check_labels, make_agent_key
from ...state.store.sessions.listing import read_beat_s
from ...state.store.sessions.record_feed import load_newest_run
from ...state.store.sessions.sealed_limits import make_limit_error
from ...state.store.store import Store
from ..sdk.session import AgentSession, opened_session
from ..session.recovery import park
from .isolation import SessionIsolation
from .worker_sessions import WorkerSessions

if TYPE_CHECKING:
    from ..sdk.agent import Agent
    from ..session.session import Session

_ASKED, _SHUTDOWN = "a request to stop", "the shutdown of its worker"
_LOOK_S = 0.001
POLL_S = 0.5
"""The seconds between two looks for waiting sessions; a hint shortens them."""
MOST_ATTEMPTS = 5
"""After so many failures in a row a session gets the status `failed` and waits for a person."""
MOST_LOOKING = 20
"""How many workers look for sessions of dead ones within `POLL_S`."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0

Observe = Callable[[str, Event], None]


class Worker:
    """Runs the waiting sessions of one store, together with any number of other workers.

    It claims sessions of all tenants whose agent and labels it has. A session waits if a message was sent to
    it by `send_message`, if its time came, or if its worker died.
    """

    def __init__(
        self,
        store: Store,
        agents: Mapping[str, Agent[Any]],
        concurrency: int = 4,
        labels: Iterable[str] = (),
        on_event: Observe | None = None,
        on_notice: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`agents` are by the name that sessions store, such as `support.bot:agent`.

        `concurrency` is how many sessions run at once. `on_event` gets the id of a session and each event of
        its runs, `on_notice` sentences for the person who operates the worker. Raises `UsageError` without an
        agent, and for a bad label.
        """
        if not agents:
            raise UsageError("A worker needs an agent.", "Name one: --agent support.bot:agent")
        if concurrency < 1:
            raise UsageError("A worker runs at least one session at once.")
        labels = (*check_labels(labels), f"host:{os.uname().nodename}")
        self.profile = WorkerProfile(
            make_runner_name(),
            os.uname().nodename,
            frozenset(map(make_agent_key, agents)),
            frozenset(labels),
            concurrency,
        )
        self._store = store
        self._claims = WorkerClaims(store.database, self.profile)
        env = os.environ if env is None else env
        self._sessions = WorkerSessions(store, agents, self._claims, env)
        self._on_event: Observe = on_event or (lambda session_id, event: None)
        self._on_notice: Callable[[str], None] = on_notice or ignore_notice
        self._running: dict[str, AgentSession[Any] | None] = {}
        """The claimed sessions; None while one is being opened."""
        self._isolation = SessionIsolation(store.database)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_draining = False
        self._takes_over_at, self._worker_count = 0.0, 1
        self._noticed_quotas: set[str] = set()
        """The tenants with a changed quota that the operator knows of."""
        self._interrupted: set[str] = set()
        """The sessions whose runs `interrupt` ended, and those whose run was to be stopped when its worker
        died.
        """

    @property
    def running(self) -> tuple[str, ...]:
        """Return the ids of the sessions that this worker runs."""
        return tuple(self._running)

    async def run(self, once: bool = False) -> None:
        """Claim and run sessions until `drain` is called; with `once`, until none waits any more.

        Raises `StoreError` if the store cannot be used at the start.
        """
        self._wake, self._loop = asyncio.Event(), asyncio.get_running_loop()
        await _run_in_thread(self._claims.register)
        stop_listening = self._store.database.listen(CHANNEL, self.hint)
        self._store.heartbeat.begin(self, self._beat)
        try:
            await self._claim_until_drained(once)
        finally:
            self._is_draining = True
            await run_to_end(self._end(stop_listening))

    async def create_session(
        self, tenant: str, name: str, session_id: str, labels: Mapping[str, Any], instructions: str = ""
    ) -> None:
        """Store a new session of an agent of this worker, for a message that comes at once.

        It stays open for its first run, if this worker claims it soon. Raises `UsageError` for an id that
        exists.
        """
        await self._sessions.create(tenant, name, session_id, labels, instructions)

    async def drain(self) -> None:
        """Claim nothing more, interrupt the runs and hand all sessions back; `run` then returns.

        Other workers go on with the sessions at the action where they were interrupted.
        """
        self._is_draining = True
        self.hint()
        for session in list(self._running.values()):
            if session is not None:
                await session.interrupt(_SHUTDOWN)

    def hint(self) -> None:
        """Look for waiting sessions at once. Any thread may call this."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(wake.set)

    async def interrupt(self, session_id: str) -> bool:
        """End the run of a session here; return False if this worker does not run it.

        The session then waits for a message or a person.
        """
        session = self._running.get(session_id)
        if session is None:
            return False
        self._interrupted.add(session_id)
        await session.interrupt(_ASKED)
        return True

    async def _claim_until_drained(self, once: bool) -> None:
        assert self._wake is not None
        while not self._is_draining:
            self._wake.clear()
            await self._stop_asked()
            found = await self._claim_free(once)
            if once and not found and not self._tasks and self._claims.left_over <= 0:
                await self._tell_of_held_back()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)

    async def _stop_asked(self) -> None:
        """Interrupt the runs that a person asked to stop through another process."""
        running = [one for one, session in self._running.items() if session is not None]
        if not running:
            return
        with suppress(StoreError):
            for session_id in await self._store.database.offload(partial(self._claims.find_stopped, running)):
                if session_id not in self._interrupted:
                    task = asyncio.ensure_future(self._interrupt_asked(session_id))
                    self._tasks.add(task)
                    task.add_done_callback(self._finish)

    async def _interrupt_asked(self, session_id: str) -> None:
        reach("stop_noticed")
        await self.interrupt(session_id)

    def _tell_of_changed_quotas(self) -> None:
        for tenant in self._claims.changed_quotas - self._noticed_quotas:
            error = make_limit_error("quota", tenant)
            self._on_notice(f"{error.message} None of its sessions is claimed. {error.hint}")
        self._noticed_quotas = set(self._claims.changed_quotas)

    async def _tell_of_held_back(self) -> None:
        for tenant, count in (await self._store.database.offload(self._claims.count_held_back)).items():
            many = "1 session" if count == 1 else f"{count} sessions"
            self._on_notice(f"The quota of tenant {tenant or 'default'} holds {many} back.")

    async def _claim_free(self, once: bool) -> bool:
        """Claim sessions for the free places and start them; return whether any was found.

        Nothing is claimed beside a session that may kill its process.
        """
        free = self.profile.concurrency - len(self._running)
        offload = self._store.database.offload
        if free < 1 or await offload(partial(self._isolation.is_needed, self._running)):
            return False
        claimed: list[Claimed] = []
        try:
            claimed = await self._take_over(free, is_needed=once)
            if len(claimed) < free:
                claimed += await _run_in_thread(partial(self._claims.claim, free - len(claimed)))
            if claimed:
                self._interrupted |= await _run_in_thread(partial(self._claims.find_stopped_before, claimed))
        except StoreError as error:
            self._on_notice(f"No session was claimed: {error.message}")
        self._tell_of_changed_quotas()
        for one in await self._sort_out(claimed) if claimed else ():
            others = tuple(self._tasks) if one.session_id == self._isolation.session_id else ()
            self._running[one.session_id] = None
            task = asyncio.ensure_future(self._work(one, others))
            self._tasks.add(task)
            task.add_done_callback(self._finish)
        return bool(claimed)

    async def _sort_out(self, claimed: list[Claimed]) -> list[Claimed]:
        """Return the sessions to run now. Those whose process died too often are parked. If one may kill its
        process, it is returned alone, and the others are handed back.
        """
        try:
            sorted_out = await self._store.database.offload(partial(self._isolation.sort_out, claimed))
        except StoreError as error:
            self._on_notice(f"Nothing is known about deaths: {error.message}")
            return claimed
        for notice in sorted_out.notices:
            self._on_notice(notice)
        now = format_time(self._store.database.now())
        for one in sorted_out.left:
            await self._return(one, "", now)
        for one, deaths in sorted_out.parked:
            store = Store(self._store.database, self._store.url, one.lane.tenant)
            if one.status != PARKED:  # otherwise a worker died before it handed the session back
                with suppress(SandburError):  # without the reason it is parked all the same
                    await run_to_end(park(store, deaths, self.profile.id, keeps_owner=True))
            await self._return(one, PARKED)
        return sorted_out.run

    async def _return(self, claimed: Claimed, status: str, wake_at: str = "") -> None:
        """Hand a session back that did not run."""
        self._interrupted.discard(claimed.session_id)
        hand_back = partial(self._claims.hand_back, claimed, status, wake_at, claimed.attempts)
        try:
            await _run_in_thread(hand_back)
        except StoreError as error:
            self._on_notice(f"Session {claimed.session_id} was not handed back: {error.message}")

    async def _take_over(self, free: int, is_needed: bool) -> list[Claimed]:
        """Claim sessions of dead workers. The more workers there are, the less often each of them looks."""
        now = time.monotonic()
        if now < self._takes_over_at and self._claims.left_over <= 0 and not is_needed:
            return []
        self._takes_over_at = now + POLL_S * max(1.0, self._worker_count / MOST_LOOKING)
        claimed: list[Claimed] = await _run_in_thread(partial(self._claims.take_over, free))
        for one in claimed:
            self._on_notice(f"Session {one.session_id} was taken over from a dead worker.")
        return claimed

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.hint()
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._on_notice(f"A session of this worker failed: {type(bug).__name__}: {bug}")

    async def _work(self, claimed: Claimed, others: tuple[asyncio.Task[None], ...] = ()) -> None:
        """Run a claimed session until it has no more to do, and hand it back. It begins after `others`."""
        if others:
            await asyncio.wait(others)
        answered = claimed.asked
        finished: RunFinished | None = None
        error: SandburError | None = SandburError("The worker failed; this is a bug.")
        try:
            async with self._sessions.open(claimed) as session:
                self._running[claimed.session_id] = session
                finished = await self._run_turns(session, claimed)
                answered = _find_answered(session, claimed, finished)
            error = None
        except SandburError as failed:
            error = failed
        finally:
            try:
                await run_to_end(self._hand_back(claimed, answered, finished, error))
            finally:
                self._running.pop(claimed.session_id, None)

    async def _run_turns(self, session: AgentSession[Any], claimed: Claimed) -> RunFinished | None:
        """Go on with the open turn, then answer the messages that wait; return the result of the last run."""
        finished: RunFinished | None = None
        while not self._is_draining:
            is_stopped = claimed.session_id in self._interrupted
            if is_stopped and finished is not None:
                break
            status = claimed.status if finished is None else ""
            message = None if is_stopped else await _next_message(session, status)
            lacks_end = finished is None and _lacks_end(session, claimed)
            if message is None and _is_idle(session) and not lacks_end:
                break
            finished = await self._follow(session, message, is_stopped)
            if finished.status in _STOPPING:
                break
        return finished

    async def _follow(
        self, session: AgentSession[Any], message: UserContent | None, is_stopped: bool
    ) -> RunFinished:
        """Run a turn. `is_stopped`: only its end is recorded, because a person has stopped it before."""
        finished: RunFinished | None = None
        stopping = asyncio.ensure_future(_keep_interrupting(session)) if is_stopped else None
        try:
            async with session.stream(message) as events:
                async for event in events:
                    self._on_event(session.id, event)
                    if isinstance(event, RunFinished):
                        finished = event
        finally:
            if stopping is not None:
                stopping.cancel()
        assert finished is not None, "a run ended without its result"
        return finished

    async def _hand_back(
        self, claimed: Claimed, answered: int, finished: RunFinished | None, error: SandburError | None
    ) -> None:
        """Give a session back, with the status and the time of its next run."""
        status, wake_at, attempts, notice = "", cast("str | None", ""), 0, ""
        now = self._store.database.now()
        if error is not None or (finished is not None and finished.status == "error"):
            attempts = claimed.attempts + 1
            # Settings that somebody changed do not change back by another try.
            is_last = attempts >= MOST_ATTEMPTS or isinstance(error, SettingsChanged)
            status = "failed" if is_last else "error"
            pause_s = min(_FIRST_PAUSE_S * 2 ** (attempts - 1), _LONGEST_PAUSE_S)
            wake_at = "" if is_last else format_time(now + timedelta(seconds=pause_s))
            why = error.message if error is not None else _describe_error(finished)
            after = "it waits for a person" if is_last else f"try {attempts + 1} in {pause_s:g} s"
            notice = f"Session {claimed.session_id} failed ({after}): {why}"
        elif finished is not None:
            status = finished.status
            wake_at = None if status == "rate_limited" else ""
        is_cut = finished is not None and finished.status == "interrupted"
        was_asked = claimed.session_id in self._interrupted
        if (is_cut and not was_asked) or (self._is_draining and finished is None):
            # The next worker that claims it continues the open turn.
            status, wake_at, attempts = "running", format_time(now), claimed.attempts
        try:
            is_ours = await _run_in_thread(
                partial(self._claims.hand_back, claimed, status, wake_at, attempts, answered)
            )
        finally:
            self._interrupted.discard(claimed.session_id)
        if not is_ours:
            # Another worker has the session, so this worker's status of it is outdated.
            notice = f"Session {claimed.session_id} was taken over by another worker."
        if notice:
            self._on_notice(notice)

    async def _end(self, stop_listening: Callable[[], None]) -> None:
        """Wait for the runs, and end the lease of the worker."""
        while self._tasks:
            for session in list(self._running.values()):
                if session is not None:
                    await session.interrupt(_SHUTDOWN)
            await asyncio.wait(self._tasks, timeout=1.0)
        await self._sessions.aclose()
        await self._store.heartbeat.end(self)
        await asyncio.to_thread(stop_listening)
        with suppress(StoreError):
            await _run_in_thread(self._claims.leave)

    async def _beat(self) -> None:
        """Renew the lease of the worker in a thread with a loop of its own, which no run blocks."""
        while True:
            await asyncio.sleep(read_beat_s())
            with suppress(StoreError):
                await self._claims.beat("draining" if self._is_draining else "running")
                self._worker_count = self._claims.count_workers()
                running = set(self._running)
                lost = running - self._claims.list_owned()
                if lost and self._loop is not None:
                    with suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._lose, lost)

    def _lose(self, session_ids: set[str]) -> None:
        """Interrupt runs whose sessions another worker has. What they would write is refused."""
        for session_id in session_ids:
            if (session := self._running.get(session_id)) is not None:
                task = asyncio.ensure_future(session.interrupt("another worker, which has the session"))
                self._tasks.add(task)
                task.add_done_callback(self._finish)


_STOPPING = ("needs_approval", "needs_decision", "rate_limited", "error", "interrupted")
"""After a run with one of these statuses, the next message has to wait."""


def _is_idle(session: AgentSession[Any]) -> bool:
    opened = opened_session(session)
    return opened.next_action == "prompt" and not opened.state.turn_open


def _lacks_end(session: AgentSession[Any], claimed: Claimed) -> bool:
    """Return whether the worker before died after the last step of a run, and before the run's end was
    recorded.
    """
    return claimed.status == "running" and bool(len(opened_session(session).state.chat_history))


async def _next_message(session: AgentSession[Any], status: str) -> UserContent | None:
    """Return the message to send now; None if there is none, or if an open turn has to go on before.

    A turn that a person interrupted ends with the next message.
    """
    opened = opened_session(session)
    is_ended = status == "interrupted" and not await opened.store.database.offload(
        partial(_is_decided, opened)
    )
    return await session.next_queued() if _is_idle(session) or is_ended else None


def _is_decided(session: Session) -> bool:
    """Return whether the calls of the open turn wait to start after a person's decision.

    A run that was interrupted while its calls worked is at the same action, but it began elsewhere.
    """
    if session.next_action != "execute_tools":
        return session.next_action == "human_confirm"
    newest = load_newest_run(session.store.database, session.id)
    return newest is not None and newest.action == "human_confirm"


def _find_answered(session: AgentSession[Any], claimed: Claimed, finished: RunFinished | None) -> int:
    """Return the number up to which messages ask for no further run.

    After an interruption, those that this process knows and that wait still ask for one.
    """
    taken = opened_session(session).state.inbox_taken.queue
    is_cut = finished is not None and finished.status == "interrupted"
    waits = is_cut and any(one.kind == "queue" for one in session.waiting_messages)
    return taken if waits else max(claimed.asked, taken)


async def _keep_interrupting(session: AgentSession[Any]) -> None:
    """Interrupt a run as soon as there is one, so that its end is recorded and nothing else."""
    while True:
        await session.interrupt(_ASKED)
        await asyncio.sleep(_LOOK_S)


def _describe_error(finished: RunFinished | None) -> str:
    return finished.error.message if finished is not None and finished.error is not None else "unknown error"


async def _run_in_thread(work: Callable[[], Any]) -> Any:
    """Run `work`, which waits for the database. What it began, it ends, even if the caller is cancelled."""
    return await run_to_end(asyncio.to_thread(work))
