"""The sub-agents of a stored session: the task, the state and the usage of each."""

from collections.abc import Sequence

from pydantic import ValidationError

from ...state.application import Usage
from ...state.errors import SandburError
from ...state.lazy_dataclass import dataclass
from ...state.session import SessionSummary
from ...state.store.recording import load_state
from ...state.store.store import Store

MOST_LISTED = 1000
"""Of more sub-agents than this, the oldest are listed."""
_RANKS = {"running": 0, "needs_approval": 1, "needs_decision": 1}


@dataclass(frozen=True, slots=True)
class SubAgentRecord:
    summary: SessionSummary
    name: str
    description: str
    """What it was started for. A model wrote this text."""
    usage: Usage
    """The usage of all its runs, with those of its own sub-agents."""

    @property
    def id(self) -> str:
        return self.summary.id


def list_children(store: Store, session_id: str) -> list[SessionSummary]:
    """Return the sub-agents of a session: those that run, then those that wait, then the others, each the
    newest first.
    """
    found = store.index.children_of(session_id, limit=MOST_LISTED)
    return sorted(found[::-1], key=lambda one: _RANKS.get(one.status, 2))


def read_sub_agents(store: Store, children: Sequence[SessionSummary]) -> list[SubAgentRecord]:
    """Return the sub-agents with what their sessions hold. One whose session is damaged has its title."""
    return [_read(store, summary) for summary in children]


def _read(store: Store, summary: SessionSummary) -> SubAgentRecord:
    try:
        by = store.index.settings(summary.id).spawned_by
        state = load_state(store.database, summary.id)
        usage = Usage() if state is None else Usage.model_validate(state.fields.get("usage", {}))
    except (SandburError, ValidationError):
        return SubAgentRecord(summary, "", summary.title, Usage())
    if by is None:
        return SubAgentRecord(summary, "", summary.title, usage)
    return SubAgentRecord(summary, by.agents[-1], by.description or summary.title, usage)
