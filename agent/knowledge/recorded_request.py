"""Asks a model in a session of its own, which is recorded, has no tools, and goes on after a kill."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

from ...actions.ports.events import Event, RunFinished
from ...state.conversation.attachments import AttachedFile
from ...state.errors import SandburError
from ...state.session import SessionSettings, SpawnedBy, ToolChoice
from ..session.run_result import make_run_finished
from ..session.session import Session

_NO_TOOL = ToolChoice(only=("no_tool",))


class RequestFailed(SandburError):
    """A model did not answer because its run failed."""


def make_settings(model: str, cwd: str, instructions: str, by: SpawnedBy, **more: Any) -> SessionSettings:
    """Return the settings of a session for one request. `more` are further fields."""
    return SessionSettings(
        model=model,
        cwd=cwd,
        ask=(),
        network_tools=(),
        sandbox="off",
        allow_net=(),
        effort=None,
        system_prompt=instructions,
        has_shipped_tools=False,
        has_planning=False,
        tool_choice=_NO_TOOL,
        spawned_by=by,
        **more,
    )


async def ask_once(session: Session, request: str | Sequence[str | AttachedFile], what: str) -> RunFinished:
    """Return the end of the run that answers a request.

    The request is sent unless it was sent before. A run that was interrupted goes on, and an answer that is
    recorded is read. Raises `SandburError`; `what` is a clause for it, such as "found no facts".
    """
    if not len(session.state.chat_history):
        end = await _follow(cast("AsyncGenerator[Event]", session.send(request)))
    elif session.state.turn_open or session.next_action != "prompt":
        end = await _follow(cast("AsyncGenerator[Event]", session.carry_on()))
    else:
        end = make_run_finished(session.id, session.state, session.next_action, output=session.output)
    if end.status != "done":
        why = f"it ended as {end.status}." if end.error is None else end.error.message
        raise session.error or RequestFailed(f"The model {what}: {why}")
    return end


async def _follow(events: AsyncGenerator[Event]) -> RunFinished:
    """Run to the end and return the result."""
    finished: RunFinished | None = None
    async with aclosing(events):
        async for event in events:
            finished = event if isinstance(event, RunFinished) else finished
    assert finished is not None, "a run ends with its result"
    return finished
