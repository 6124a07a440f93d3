"""The turns of a session of an evaluation: each message is sent once, whenever the process is killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....actions.ports.events import ToolStarted
from .....state.calls import CallDecision
from .....state.store.recording import list_steps
from .....state.store.store import Store
from ....sdk.runs.pending import PendingToolCall
from ....sdk.runs.result import RunResult
from ....sdk.session import AgentSession, opened_session
from ....session.decisions import make_decision

_NO_PERSON = "nobody is here to approve this call; solve the task without it"
UNFINISHED = ("error", "rate_limited", "interrupted", "needs_approval", "needs_decision")
"""The statuses of a run that must be continued, or whose end is not the fault of the agent."""
_MOST_DECISIONS = 100
_BEGIN = "prompt"
"""The action that takes a message."""


async def run_turns(
    session: AgentSession[Any], messages: Sequence[str], at_call: int = 0
) -> RunResult[Any] | None:
    """Go on with an open turn, then send the messages that were not sent yet. Return the result of the last
    turn; None if all turns had ended before.

    `at_call` interrupts the turn of the last message once, in the call of this number.
    """
    opened, result = opened_session(session), None
    sent = await opened.store.database.offload(lambda: _count_sent(opened.store, session.id))
    if session.pending:
        result = await decide_all(session, None)
    elif sent and opened.next_action != _BEGIN:
        result = await decide_all(session, await session.run())
    for number, message in enumerate(messages[sent:], sent + 1):
        if result is not None and result.status in UNFINISHED:
            break
        wanted = at_call if number == len(messages) else 0
        result = await decide_all(session, await _run_to_end(session, message, wanted))
    return result


def _count_sent(store: Store, session_id: str) -> int:
    """Return how many messages a session has taken."""
    if not store.index.exists(session_id):
        return 0
    return sum(step.action == _BEGIN for step in list_steps(store.database, session_id))


async def _run_to_end(session: AgentSession[Any], message: str, at_call: int) -> RunResult[Any] | None:
    """Run a session; with `at_call`, interrupt it once in the call of this number, and go on."""
    if not at_call:
        return await session.run(message)
    started = 0
    async with session.stream(message) as events:
        async for event in events:
            started += isinstance(event, ToolStarted)
            if isinstance(event, ToolStarted) and started == at_call:
                await session.interrupt()
    result = session.result
    return await session.run() if result is not None and result.status == "interrupted" else result


async def decide_all(session: AgentSession[Any], result: RunResult[Any] | None) -> RunResult[Any] | None:
    """Deny what asks a person, and let the model find out what an interrupted call did."""
    for _ in range(_MOST_DECISIONS):
        if not session.pending:
            break
        result = await session.decide([_decide(call) for call in session.pending])
    return result


def _decide(call: PendingToolCall) -> CallDecision:
    if call.kind == "approval":
        return make_decision(call.call_id, "deny", _NO_PERSON)
    return make_decision(call.call_id, "check")
