"""Reads the calls that wait for a decision in all sessions of a store, and records decisions about them."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ...agent.config.settings import Overrides
from ...agent.history.tracking.entries import AppName, app_id, project_id
from ...agent.runtime.runtime import Runtime
from ...agent.session.decisions import find_waiting_call
from ...agent.session.session import Session
from ...state.calls import CallDecision, PendingCall
from ...state.errors import SandburError, StoreError, UsageError
from ...state.lazy_dataclass import dataclass
from ...state.session import SessionSummary
from ...state.store.recording import find_last_moves
from ...state.store.sessions.deaths import PARKED
from ...state.store.sessions.inbox import list_sessions_with_messages
from ...state.store.store import Store
from ..terminal.lines import Line, format_unknown, question_lines, title

_WAITS = ("needs_approval", "needs_decision")
_STOPPED = ("interrupted", "timeout", "rate_limited", "error")
MOST_SESSIONS = 50
"""The most sessions on one page."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    call: PendingCall
    lines: tuple[Line, ...]
    """The whole call as displayed, because a decision may depend on every part of it."""
    digest: str
    """The digest of the call and its lines. A decision must repeat it, so it is about what was displayed."""


@dataclass(frozen=True, slots=True)
class WaitingSession:
    summary: SessionSummary
    mode: str
    calls: tuple[WaitingCall, ...]


@dataclass(frozen=True, slots=True)
class StoppedSession:
    summary: SessionSummary
    inside: tuple[str, ...] = ()
    """The calls that ran when the process of the session died. A resume may ask for their outcome."""


@dataclass(frozen=True, slots=True)
class ParkedSession:
    summary: SessionSummary
    reason: str
    """What ran, how often, and where."""


@dataclass(frozen=True, slots=True)
class LeftMessages:
    summary: SessionSummary
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The sessions that need a person."""

    waiting: tuple[WaitingSession, ...]
    stopped: tuple[StoppedSession, ...]
    """The sessions that stopped before their end and need no decision yet."""
    due: int
    """The number of sessions that `sandbur resume --due` carries on."""
    left_out: int
    """The number of waiting sessions that are not in `waiting`."""
    messages: tuple[LeftMessages, ...] = ()
    """The messages of people that no run has read yet."""
    parked: tuple[ParkedSession, ...] = ()
    """The sessions whose process died too often."""


def run_page(summary: SessionSummary) -> str:
    """Return the path of a session's page in the tracking UI."""
    return f"/project/{project_id(summary.cwd)}/null/{app_id(AppName(summary.id))}"


def overview(store: Store) -> Overview:
    """Return the sessions of the store that need a person, the oldest first."""
    sessions = store.sessions()
    asking = _leave_out_children([one for one in sessions if one.status in _WAITS])[::-1]
    found_sessions = [found for one in asking[:MOST_SESSIONS] if (found := _read(store, one)) is not None]
    stopped = _leave_out_children([one for one in sessions if one.status in _STOPPED and not one.wake_at])
    parked = _leave_out_children([one for one in sessions if one.status == PARKED])[:MOST_SESSIONS]
    return Overview(
        tuple(one for one in found_sessions if one.calls),
        tuple(StoppedSession(one, _list_started_calls(store, one)) for one in stopped[:MOST_SESSIONS]),
        sum(bool(one.wake_at) for one in sessions),
        max(0, len(asking) - MOST_SESSIONS),
        tuple(_read_left_messages(store, sessions)),
        tuple(ParkedSession(one, store.index.load_deaths(one.id).reason) for one in parked),
    )


def _leave_out_children(sessions: Sequence[SessionSummary]) -> list[SessionSummary]:
    """Return the sessions without sub-agents whose parent is among them: what they need is decided there."""
    ids = {one.id for one in sessions}
    return [one for one in sessions if one.spawned_by is None or one.spawned_by.session_id not in ids]


def _read_left_messages(store: Store, sessions: Sequence[SessionSummary]) -> Iterator[LeftMessages]:
    """Yield the unread messages of the sessions that were used last."""
    named = list_sessions_with_messages(store.database)
    for one in [one for one in sessions if one.id in named][:MOST_SESSIONS]:
        with suppress(StoreError, ValueError):
            inbox = store.inbox(one.id)
            if texts := tuple(message.text for message in inbox.load(inbox.load_taken())):
                yield LeftMessages(one, texts)


def _read(store: Store, summary: SessionSummary) -> WaitingSession | None:
    try:
        view = store.show(summary.id)
    except (StoreError, ValueError):
        return None  # The session was deleted meanwhile, or `sandbur sessions verify` reports its damage.
    calls = tuple(describe_waiting_call(call, view.settings.cwd) for call in view.state.calls_to_decide)
    return WaitingSession(summary, view.state.execution_mode, calls)


def _list_started_calls(store: Store, summary: SessionSummary) -> tuple[str, ...]:
    """Return the titles of the calls that started in an interrupted session and have no recorded outcome.

    Calls that may simply run again are left out.
    """
    if summary.status != "interrupted":
        return ()
    try:
        calls = store.show(summary.id).state.pending_tool_calls
        ids = [call.call_id for call in calls]
        moves = find_last_moves(store.database, summary.id, ids, ("started", "decided", "finished"))
    except (StoreError, ValueError):
        return ()
    return tuple(
        title(call.tool, call.arguments)
        for call in calls
        if moves.get(call.call_id) == "started" and call.effect not in ("read", "idempotent")
    )


def describe_waiting_call(call: PendingCall, cwd: str) -> WaitingCall:
    shows: Callable[[PendingCall, str], Sequence[Line] | Iterator[Line]] = (
        _unknown if call.kind == "outcome_unknown" else _approval
    )
    lines = tuple(shows(call, cwd))
    # The line with the start contains an age, which differs in each request.
    details = "\n".join(text for _, text in lines if not text.startswith("started: "))
    whole = "\0".join((call.call_id, call.tool, call.arguments, call.kind, call.reason, details))
    return WaitingCall(call, lines, hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest())


def _unknown(call: PendingCall, cwd: str) -> Iterator[Line]:
    return format_unknown(call, cwd, is_whole=True)


def _approval(call: PendingCall, cwd: str) -> Sequence[Line]:
    return question_lines(call, cwd)


async def record(overrides: Overrides, session_id: str, decision: CallDecision, digest: str) -> bool:
    """Record a decision as `sandbur approve --record-only` does; return whether other calls still wait.

    `digest` is the digest of the call as it was displayed. Raises `UsageError` if the call has changed since,
    and `SandburError` if the decision cannot be recorded.
    """
    runtime = Runtime.open(overrides, os.environ)
    try:
        session = await runtime.resume(session_id, needs_model=False)
        _require_same(session, decision, digest)
        error: SandburError | None = None
        async for event in session.decide([decision], record_only=True, way="in a browser"):
            failed = getattr(event, "error", None)
            if failed is not None:
                error = StoreError(failed.message)
        if error is not None:
            raise error
        waiting = session.state.calls_to_decide
        if any(call.call_id == decision.call_id for call in waiting):
            raise UsageError(
                "The decision does not fit the call.", f"See: sandbur sessions show {session_id}"
            )
        return bool(waiting)
    finally:
        await runtime.aclose()


async def lift(store: Store, session_id: str) -> None:
    """Let a parked session try again with the next `sandbur resume --due`; raises `SandburError`."""
    head = await store.database.offload(lambda: store.index.head(session_id))
    if head.status != PARKED:
        raise UsageError("This session is not parked any more.")
    await store.index.make_due(session_id)


def _require_same(session: Session, decision: CallDecision, digest: str) -> None:
    """Refuse a decision about a call that is gone, decided, or different from the one displayed."""
    call = find_waiting_call(session.state, decision.call_id)
    if call is None or session.next_action != "human_confirm":
        raise UsageError("This call no longer waits: it was decided, or the run continued.")
    if describe_waiting_call(call, session.settings.cwd).digest != digest:
        raise UsageError("This call has changed since the page displayed it.", "Read it again, then decide.")
