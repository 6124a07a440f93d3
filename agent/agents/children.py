"""Runs sub-agents: each is a session of its own in the process of the session whose call started it.

The id of such a session follows from that call. A call that starts again finds the session that it had
started, and goes on with it where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from typing import Any, cast

from ...actions.ports import CallSuspended, StartsAgents, ToolContext, ToolOutcome, implements
from ...actions.ports.events import Event, RunFinished, SubAgentEvent
from ...actions.ports.sub_agents import TASK_TOOL, describe_reference
from ...state.application import ApplicationState
from ...state.calls import CallDecision, PendingCall, SubAgentCall
from ...state.errors import SandburError, StoreError, UsageError
from ...state.session import SessionSettings, SpawnedBy
from ...state.store.store import Store
from ..extensions.extension import load
from ..runtime.agent_definition import Definition, SubAgentDefinition, make_like
from ..runtime.extension_runtime import ProcessContext
from ..session.run_limits import Limits
from ..session.run_result import make_run_finished
from ..session.session import Session
from .child_settings import make_child_settings, narrow_mode, renew_child_settings
from .slots import Slots
from .task import ChildTask, Seat, Startable, child_session_id, count_usage, describe_sub_agent

Conclude = Callable[[Session, Session, RunFinished, str], ToolOutcome]
"""Returns the outcome of a call from its session, that of the sub-agent, the end of the sub-agent's run, and
the id of the call.
Raises `CallSuspended`."""
DESCRIBE_CHANGES = ".agent.review.trials.isolation:describe_changes"
HOLD_COPY = ".agent.review.trials.isolation:hold"
_AT_PARENT = "at the agent that started it"
"""The recorded place of a decision about a call of a sub-agent."""
_MOST_UNREAD = 64
"""The most events of one sub-agent that are passed on before it waits for the reader."""
_WAITING = ("needs_approval", "needs_decision")


class Children:
    """The sub-agents of one process."""

    def __init__(self, process: ProcessContext) -> None:
        self._process = process
        self._slots = Slots(process.settings.of("agents_at_once"))
        self._open: set[str] = set()
        """The sessions of the sub-agents that run now."""

    async def run(
        self,
        parent: Session,
        definition: Definition,
        task: ChildTask,
        context: ToolContext,
        conclude: Conclude | None = None,
    ) -> ToolOutcome:
        """Run the sub-agent of a call to its end, or until a person has to decide.

        `definition` is that of the parent. `conclude` returns the outcome of the call; None: that of a task.
        Raises `CallSuspended` if the run of the parent cannot go on.
        """
        child_id = task.resume or child_session_id(parent.id, task.key or context.call_id)
        if child_id in self._open:
            return ToolOutcome(
                "error", f"The sub-agent {child_id[:60]} is already running. Ask it again later."
            )
        self._open.add(child_id)
        try:
            async with self._slots.hold(parent.id, child_id):
                ending = conclude or _find_ending(parent, context)
                return await self._run(parent, definition, task, child_id, context, ending)
        except StoreError as error:
            raise CallSuspended(error) from None
        except SandburError as error:
            return ToolOutcome("error", f"The sub-agent could not start: {error.message} {error.hint}")
        finally:
            self._open.discard(child_id)

    async def _run(
        self,
        parent: Session,
        definition: Definition,
        task: ChildTask,
        child_id: str,
        context: ToolContext,
        conclude: Conclude,
    ) -> ToolOutcome:
        by, child = await self._open_child(parent, definition, task, child_id, context)
        try:
            with self._hold_copy(child):
                events = _begin(parent, child, task, context)
                while True:
                    end = await self._drive(parent, child, by, task, context, events)
                    if end.status not in _WAITING:
                        _require_parent_may_go_on(parent, child, end)
                        if task.branch is not None:
                            return await task.branch.report(child, end)
                        ended = conclude(parent, child, end, context.call_id)
                        return await self._add_changes(parent, child, ended)
                    waiting = _relay_waiting_calls(child, task, by.agents[-1], context.call_id)
                    decisions = await self._ask_beside_others(parent, child, end, waiting)
                    if not decisions:
                        return ToolOutcome("error", "It waits for a decision.", waits_for=waiting)
                    events = cast("AsyncGenerator[Event]", child.decide(decisions, way=_AT_PARENT))
        finally:
            await self._process.close_session(child)

    async def _open_child(
        self, parent: Session, definition: Definition, task: ChildTask, child_id: str, context: ToolContext
    ) -> tuple[SpawnedBy, Session]:
        """Open the session of the sub-agent. A new one is stored with its first message."""
        stored = await _load_settings(parent, child_id, task, context.call_id)
        if stored is None and task.resume:
            raise UsageError(f"There is no sub-agent {child_id[:60]!r}.", "Start a new one.")
        name = task.agent if stored is None else _require_own(stored, parent, child_id).agents[-1]
        agent = task.agents.get(name)
        if agent is None:
            raise UsageError(f"The agent {name} no longer exists here.", "Start another one.")
        if stored is None:
            if not parent.settings.is_workflow:
                self._count(parent)
            settings = await make_child_settings(
                parent, agent, task, context.call_id, child_id, self._process
            )
        else:
            settings = renew_child_settings(stored, parent, agent, self._process)
        mode = narrow_mode(settings.mode, parent.state.mode_of_sub_agents)
        child = await self._process.open_session(
            child_id,
            settings,
            ApplicationState(execution_mode=mode),
            _find_definition(definition, agent),
            deps=parent.inputs.deps,
        )
        by = cast("SpawnedBy", settings.spawned_by)
        child.parent, child.limits = parent, _find_own_limits(by, agent)
        child.inputs.decide = parent.inputs.decide
        # The terms of the plan are not stored: they do not apply to a run that starts in the child's own
        # session.
        child.inputs.plan_terms = parent.state.find_terms_of_call(context.call_id)
        if child.state.execution_mode != mode:
            child.change_mode(mode)
        return by, child

    def _hold_copy(self, child: Session) -> AbstractContextManager[None]:
        """Lock the copy of the folder in which a sub-agent works, if it has one, against other processes."""
        if child.settings.trial != child.id:
            return nullcontext()
        held: AbstractContextManager[None] = load(HOLD_COPY)(self._process.settings, child.id)
        return held

    async def _add_changes(self, parent: Session, child: Session, outcome: ToolOutcome) -> ToolOutcome:
        """Add the changes in the sub-agent's copy of the folder, if it has one, to the outcome."""
        if child.settings.trial != child.id:
            return outcome
        changes = await asyncio.to_thread(
            load(DESCRIBE_CHANGES), self._process.settings, child.store, child.id
        )
        return replace(outcome, content=f"{outcome.content}\n{changes}")

    def _count(self, parent: Session) -> None:
        most = self._process.settings.of("agents_per_run")
        if parent.count_sub_agent() > most:
            raise UsageError(
                f"This run has started {most} sub-agents already, which is the most (`agents_per_run`).",
                "Do the rest without new ones.",
            )

    async def _ask_beside_others(
        self, parent: Session, child: Session, end: RunFinished, calls: Sequence[PendingCall]
    ) -> list[CallDecision]:
        """Ask a person about the waiting calls of a sub-agent while other sub-agents run.

        Without an answer before these have ended, the session of the parent asks at the end of its run.
        """
        decide = parent.inputs.decide
        if decide is None or end.status != "needs_approval":
            return []
        async with self._slots.pause(parent.id, child.id) as alone:
            if alone.is_set():
                return []
            asking = asyncio.ensure_future(decide(calls))
            ending = asyncio.ensure_future(alone.wait())
            try:
                await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
                made = asking.result() if asking.done() else ()
            finally:
                asking.cancel()
                ending.cancel()
                await asyncio.wait((asking, ending))
        asked = {call.call_id: call.sub_agent.call_id for call in calls if call.sub_agent is not None}
        return [one.model_copy(update={"call_id": asked[one.call_id]}) for one in made]

    async def _drive(
        self,
        parent: Session,
        child: Session,
        by: SpawnedBy,
        task: ChildTask,
        context: ToolContext,
        events: AsyncGenerator[Event] | None,
    ) -> RunFinished:
        """Run the sub-agent and pass its events on. One that has ended, or that waits, has none."""
        if events is None:
            return make_run_finished(child.id, child.state, child.next_action, output=child.output)
        if task.branch is not None:
            task.branch.follow(child)
        agent = describe_sub_agent(child.id, by, context.call_id, task)
        end, unread = None, 0
        async with aclosing(events):
            async for event in events:
                end = event if isinstance(event, RunFinished) else end
                parent.ports.emit(event if isinstance(event, SubAgentEvent) else SubAgentEvent(agent, event))
                unread += 1
                if unread == _MOST_UNREAD:
                    unread = 0
                    await parent.ports.events.wait_for_reader()
        assert end is not None, "a run ends with its result"
        return end


async def _load_settings(
    parent: Session, child_id: str, task: ChildTask, call_id: str
) -> SessionSettings | None:
    """Return the stored settings of a sub-agent, or None if it has not begun.

    A forked parent goes on with a fork of the sub-agent that its ancestor had started, so that no work of
    that sub-agent is done again.
    """
    store = parent.store

    def load() -> SessionSettings | None:
        if store.index.exists(child_id):
            return store.open_settings(child_id).settings
        for ancestor in reversed(store.index.ancestors(parent.id)):
            before = child_session_id(ancestor, task.key or call_id)
            if store.index.exists(before):
                by = store.index.settings(before).spawned_by
                own = None if by is None else by.model_copy(update={"session_id": parent.id})
                store.fork(before, child_id, _find_fork_step(store, before, task, call_id), own)
                return store.open_settings(child_id).settings
        return None

    return await store.database.offload(load)


def _find_fork_step(store: Store, child_id: str, task: ChildTask, call_id: str) -> int | None:
    """Return the step after which a sub-agent of an ancestor goes on in a fork; None: its newest.

    An agent that had the conversation may have answered later messages there, which the fork does not have.
    """
    if task.seat is None or store.show(child_id).state.run_options.task == call_id:
        return None
    return task.seat.step


def _require_own(stored: SessionSettings, parent: Session, child_id: str) -> SpawnedBy:
    """Return the call that started a sub-agent. Raises `UsageError` unless it is a call of this session."""
    by = stored.spawned_by
    if by is None or by.session_id != parent.id:
        raise UsageError(
            f"The session {child_id[:60]} is not a sub-agent of this session.", "Start a new one."
        )
    return by


def _find_definition(parent: Definition, agent: Startable) -> Definition:
    """Return the definition of a sub-agent: its own, or that of its parent with answers in plain text."""
    if isinstance(agent, SubAgentDefinition):
        return agent.definition
    return make_like(parent)


def _begin(
    parent: Session, child: Session, task: ChildTask, context: ToolContext
) -> AsyncGenerator[Event] | None:
    """Return the events of a run of the sub-agent from where it is with this call.

    Return None if its work for this call has ended, or waits for a decision.
    """
    if child.state.run_options.task != context.call_id:
        given = task.seat or Seat(key="", message=task.prompt)
        if given.history and child.last_sequence < 0:
            child.change_history(child.state.chat_history.append(*given.history))
        # A list is never a command: a model must not change the mode of its sub-agent.
        message = [given.message] if isinstance(given.message, str) else given.message
        step = parent.state.find_step_of_call(context.call_id)
        of_task = {
            "task": context.call_id,
            "used_before": None if child.last_sequence < 0 else child.state.usage,
            **({} if step is None else {"step": step.description}),
        }
        events = child.send(message, given.options.model_copy(update=of_task))
    elif decisions := _list_decisions(child, task, context):
        events = child.decide(decisions, way=_AT_PARENT)
    elif child.next_action == "prompt" or child.state.calls_to_decide:
        return None
    else:
        events = child.carry_on()
    return cast("AsyncGenerator[Event]", events)


def _find_own_limits(by: SpawnedBy, agent: Startable) -> Limits:
    """Return the limits of a sub-agent's own; those of the sessions above it hold as well."""
    own: Mapping[str, Any] = agent.definition.overrides if isinstance(agent, SubAgentDefinition) else {}
    return Limits(by.max_turns, own.get("max_budget_usd"), own.get("timeout_s"))


def _require_parent_may_go_on(parent: Session, child: Session, end: RunFinished) -> None:
    """Raise `CallSuspended` if the run of the parent ends for the reason for which the sub-agent stopped."""
    if isinstance(child.error, StoreError):
        raise CallSuspended(child.error)
    if end.status in ("turn_limit", "budget_limit"):
        try:
            parent.check_limits()
        except SandburError as error:
            raise CallSuspended(error) from None


def _find_ending(parent: Session, context: ToolContext) -> Conclude:
    """Return what makes the outcome of a call: that of a plan step, or that of a task."""
    step = parent.state.find_step_of_call(context.call_id)
    return _make_outcome if step is None else _make_step_outcome


def _make_step_outcome(parent: Session, child: Session, end: RunFinished, call_id: str) -> ToolOutcome:
    """Return the outcome of a call whose sub-agent worked on a step; raises as `_make_outcome` does."""
    if end.status != "goal_not_reached" or not end.result:
        return _make_outcome(parent, child, end, call_id)
    content = f"{end.result}\n{describe_reference(child.id)}"
    return ToolOutcome("error", content, usage=count_usage(child, call_id))


def _make_outcome(parent: Session, child: Session, end: RunFinished, call_id: str) -> ToolOutcome:
    """Return the outcome of a call whose sub-agent has stopped.

    Raises `CallSuspended` if the sub-agent can go on only in a later run of the parent.
    """
    if end.status in ("rate_limited", "interrupted"):
        raise CallSuspended(child.error or SandburError("A sub-agent was interrupted.", "Resume to go on."))
    is_answered = end.status in ("done", "denied") and bool(end.result)
    why = end.error.message if end.error is not None else f"it ended as {end.status}."
    problem = "" if is_answered else f"The sub-agent did not finish: {why}"
    reference = describe_reference(child.id) if _can_ask_again(parent, child) else ""
    content = "\n".join(filter(None, (problem, end.result, reference)))
    return ToolOutcome("ok" if is_answered else "error", content, usage=count_usage(child, call_id))


def _can_ask_again(parent: Session, child: Session) -> bool:
    """Return whether the model of the parent has the tool by which it asks this sub-agent again."""
    tool, by = parent.ports.toolbox.get(TASK_TOOL), child.settings.spawned_by
    return by is not None and implements(tool, StartsAgents) and tool.can_start(by.agents[-1])


def _relay_waiting_calls(
    child: Session, task: ChildTask, name: str, task_call_id: str
) -> tuple[PendingCall, ...]:
    """Return the calls of a sub-agent that wait for a decision, as its parent keeps them."""
    return tuple(_relay(call, child, task, name, task_call_id) for call in child.state.calls_to_decide)


def _relay(call: PendingCall, child: Session, task: ChildTask, name: str, task_call_id: str) -> PendingCall:
    below = call.sub_agent
    names_below = () if below is None else below.agents
    # A workflow that repeats an agent has the name of that agent.
    agents = names_below if names_below and child.settings.is_repetition else (name, *names_below)
    # The reason of a call from further below names the agents below this one already.
    reason = call.reason if below is None else call.reason.partition(": ")[2]
    changes: dict[str, Any] = {
        "call_id": task.relay(task_call_id, call.call_id),
        "reason": f"sub-agent {'/'.join(agents)}: {reason}",
        "sub_agent": SubAgentCall(session_id=child.id, call_id=call.call_id, agents=agents),
        # The session of the sub-agent checks what its own approval depends on.
        "binding": None,
        "hook": None,
        "edited": False,
        # No message of the parent holds the arguments, so that the store has to keep them.
        "origin": "tool",
    }
    return call.model_copy(update=changes)


def _list_decisions(child: Session, task: ChildTask, context: ToolContext) -> list[CallDecision]:
    """Return the decisions about calls that still wait in the session of a sub-agent."""
    waiting = {call.call_id for call in child.state.calls_to_decide}
    return [
        _make_decision(call, call.sub_agent.call_id)
        for call in context.decided
        if call.sub_agent is not None
        and call.sub_agent.call_id in waiting
        and call.call_id == task.relay(context.call_id, call.sub_agent.call_id)
    ]


def _make_decision(call: PendingCall, call_id: str) -> CallDecision:
    if call.recovery.settled_as is not None:
        known = call.recovery
        return CallDecision(call_id=call_id, settle=known.settled_as, result=known.settled_result)
    if call.decision != "approved":
        return CallDecision(call_id=call_id, reason=call.reason)
    return CallDecision(call_id=call_id, approved=True, arguments=call.arguments if call.edited else None)
