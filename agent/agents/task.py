"""The task of a sub-agent, and the id of the sub-agent's session."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping
from typing import Protocol

from ...actions.ports import ToolOutcome
from ...actions.ports.events import RunFinished, SubAgent
from ...actions.ports.sub_agents import GENERAL_AGENT
from ...state.application import NO_OPTIONS, RunOptions, Usage
from ...state.calls import relayed_call_id
from ...state.conversation.messages import Message, UserContent
from ...state.lazy_dataclass import dataclass
from ...state.session import SpawnedBy
from ..runtime.agent_definition import SubAgentDefinition
from ..session.position import count_usage_since
from ..session.session import Session
from .markdown.agent_spec import AgentSpec

_NAMESPACE = uuid.UUID("6f2d3f5e-5b0c-4d57-9b0b-0b6a5c1f7a11")
"""The namespace of the ids of sub-agents' sessions. Stored sessions depend on it."""
GENERAL = AgentSpec(name=GENERAL_AGENT, description="", instructions="")
"""The agent that is like the one that starts it."""

Startable = AgentSpec | SubAgentDefinition
"""An agent of a Markdown file, or of a program."""


class BranchCall(Protocol):
    """A call of a workflow, which follows the sub-agent that it starts."""

    @property
    def index(self) -> int: ...

    @property
    def iteration(self) -> int | None: ...

    def follow(self, child: Session) -> None:
        """Take the open session, whose run is about to begin."""
        ...

    def report(self, child: Session, end: RunFinished) -> Awaitable[ToolOutcome]:
        """Return the result of the call. Raises `CallSuspended` if the sub-agent is to go on in a later
        run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The place of an agent in a conversation that was handed to it."""

    key: str
    """The text from which the id of the agent's session is derived, in place of the call id."""
    message: UserContent
    """The message that the agent answers."""
    history: tuple[Message, ...] = ()
    """The history with which a new session of the agent begins."""
    step: int | None = None
    """The newest step of the agent's session after its answer; None: it has not answered yet."""
    options: RunOptions = NO_OPTIONS
    """The options of the agent's run."""
    number: int = 0
    """How many agents had the conversation before during the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildTask:
    prompt: UserContent
    description: str = ""
    """The purpose of the task, in a few words for people."""
    agent: str
    """The name of the agent."""
    agents: Mapping[str, Startable]
    """The agents that the call may start, by name."""
    model: str = ""
    """The model in place of the agent's own; empty for the agent's own."""
    resume: str = ""
    """The session of an earlier sub-agent that is to go on; empty for a new sub-agent."""
    branch: BranchCall | None = None
    """The call if a workflow makes it; None: a model or a program makes it."""
    seat: Seat | None = None
    """The place of the agent in the conversation that is handed over; None: the agent only does a task."""

    @property
    def key(self) -> str:
        """The text from which the id of the sub-agent's session is derived; empty: the call id is used."""
        return "" if self.seat is None else self.seat.key

    def relay(self, task_call_id: str, call_id: str) -> str:
        """Return the id by which the parent knows a waiting call of the sub-agent."""
        # Two agents of one call may have calls of the same id.
        number = 0 if self.seat is None else self.seat.number
        return relayed_call_id(task_call_id, f"{number}.{call_id}" if number else call_id)


def child_session_id(parent_id: str, call_id: str) -> str:
    """Return the id of the session that a call starts: the same each time the call runs."""
    return str(uuid.uuid5(_NAMESPACE, f"{parent_id}:{call_id}"))


def describe_sub_agent(child_id: str, by: SpawnedBy, call_id: str, task: ChildTask) -> SubAgent:
    """Return the sub-agent as its events name it."""
    branch = task.branch
    return SubAgent(
        agent_id=child_id,
        parent_id=by.session_id,
        call_id=call_id,
        name=by.agents[-1],
        description=task.description or by.description,
        branch="/".join(by.agents),
        index=None if branch is None else branch.index,
        iteration=None if branch is None else branch.iteration,
    )


def count_usage(child: Session, call_id: str) -> Usage:
    """Return what a sub-agent used since a call asked for its work, with answers to a person meanwhile."""
    return count_usage_since(child.state, child.settings.spawned_by, call_id)


def describe_stopped_child(parent_id: str, call_id: str) -> str:
    """Return what the model reads about a sub-agent that was interrupted and does not go on by itself."""
    return (
        "Interrupted: the user sent another message. The sub-agent stopped in its middle, and what it did"
        f' stays done. It can go on: task(resume="{child_session_id(parent_id, call_id)}", ...).'
    )
