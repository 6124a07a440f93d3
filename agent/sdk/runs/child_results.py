"""The results of the sub-agents of a turn, for programs: those that a run saw, and those of earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from ....actions.ports.events import RunFinished, RunStatus, SubAgent, SubAgentEvent
from ....actions.turn.output.format import output_format
from ....state.conversation.messages import ToolUse
from ....state.conversation.transcript import Transcript
from ....state.session import SpawnedBy
from ....state.store.store import Store
from ...extensions.extension import load
from ...graph import next_action
from ...session.run_result import make_run_finished
from ...session.session import Session
from .result import ChildResult
from .rules import RunRules

_CHILD_SESSION_ID = ".agent.agents.task:child_session_id"


class ChildResults:
    """The results of the sub-agents of the newest turn of one session."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, ChildResult]] = {}
        """Session -> the call that started it, and how it ended."""

    async def begin(self, session: Session, begins_turn: bool) -> None:
        """Forget the last turn if a run begins one; otherwise read what its sub-agents have done."""
        if begins_turn:
            self._found.clear()
        else:
            await self._read_stored(session)

    def keep(self, event: SubAgentEvent, session_id: str) -> None:
        """Keep the result in an event if a sub-agent of this session, and of no other, has ended."""
        agent, finished = event.agent, event.event
        if isinstance(finished, RunFinished) and agent.parent_id == session_id:
            self._found[agent.agent_id] = (agent.call_id, ChildResult.of(agent, finished))

    def list_in_order(self, history: Transcript, rules: RunRules[Any]) -> tuple[ChildResult, ...]:
        """Return the results in the order of the calls. `rules` are those of the session's agent."""
        known = rules.list_children(history)
        recorded = {one.session_id for one in known}
        uses = {use.call_id: (place, use) for place, use in enumerate(_find_calls(history))}
        rest = [(call_id, one) for key, (call_id, one) in self._found.items() if key not in recorded]
        rest.sort(key=lambda pair: uses[pair[0]][0] if pair[0] in uses else len(uses))
        return (
            *known,
            *(rules.place_child(one, uses[call][1]) if call in uses else one for call, one in rest),
        )

    async def _read_stored(self, session: Session) -> None:
        child_id_of = load(_CHILD_SESSION_ID)
        toolbox = session.ports.toolbox
        calls = [
            (use.call_id, str(child_id_of(session.id, use.call_id)))
            for use in _find_calls(session.state.chat_history)
            if (tool := toolbox.get(use.tool)) is not None and tool.traits.is_resumable
        ]
        if calls:
            found = await session.store.database.offload(lambda: _read_children(session.store, calls))
            self._found |= {one.session_id: (call_id, one) for call_id, one in found}


def _find_calls(history: Transcript) -> Sequence[ToolUse]:
    """Return the calls of the newest turn in their order, also of a turn that a person steered."""
    newest_first: list[ToolUse] = []
    has_message = False
    for one in reversed(history):
        if one.role == "assistant":
            if has_message and not one.tool_uses:
                break
            has_message = False
            newest_first += reversed(one.tool_uses)
        elif one.origin == "person" and not one.tool_uses:
            has_message = True
    return newest_first[::-1]


def _read_children(store: Store, calls: Iterable[tuple[str, str]]) -> list[tuple[str, ChildResult]]:
    """Return the results of the sub-agents that have begun, with the calls that started them."""
    return [
        (call_id, found)
        for call_id, child_id in calls
        if store.index.exists(child_id) and (found := _read_child(store, child_id)) is not None
    ]


def _read_child(store: Store, child_id: str) -> ChildResult | None:
    """Return how a sub-agent ended; None if it has not ended."""
    view = store.show(child_id)
    by, state = view.settings.spawned_by, view.state
    if by is None or view.summary.status == "running":
        return None
    schema = None if state.run_options.is_text else state.run_options.output or view.settings.output_schema
    form = None if schema is None else output_format(schema)
    finished = make_run_finished(child_id, state, next_action(view.position, state), output=form)
    result = ChildResult.of(_describe(child_id, by), finished)
    if not state.turn_open or state.calls_to_decide:
        return result
    return replace(result, status=cast("RunStatus", view.summary.status))


def _describe(child_id: str, by: SpawnedBy) -> SubAgent:
    return SubAgent(agent_id=child_id, parent_id=by.session_id, call_id=by.call_id, name=by.agents[-1])
