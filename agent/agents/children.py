"""Runs sub-agents: each is a session of its own in the process of the session whose call started it.

The id of such a session follows from that call, so a call that starts again finds the session that it had
started, and goes on with it where it stopped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

from ...actions.ports import CallSuspended, ToolContext, ToolOutcome
from ...actions.ports.events import Event, RunFinished, SubAgent, SubAgentEvent
from ...state.application import ApplicationState, RunOptions
from ...state.calls import CallDecision, PendingCall, SubAgentCall, relayed_call_id
from ...state.errors import SandburError, StoreError, UsageError
from ...state.session import SessionSettings, SpawnedBy
from ..extensions.extension import load
from ..runtime.agent_definition import Definition, SessionPlace, SubAgentDefinition
from ..runtime.extension_runtime import ProcessContext
from ..runtime.prompts import session_prompt
from ..session.run import Limits
from ..session.run_result import make_run_finished
from ..session.session import Session
from .agent_spec import AgentSpec
from .child_settings import make_child_settings, make_program_settings, narrow_mode, renew_child_settings

_NAMESPACE = uuid.UUID("6f2d3f5e-5b0c-4d57-9b0b-0b6a5c1f7a11")
"""Of the ids of sub-agents' sessions; stored sessions depend on it."""
_FIND_SKILLS = ".agent.extensions.skills.catalogue:find_skills"
"""Loaded only for an agent that names skills: they are an extension of their own."""
_MOST_UNREAD = 64
"""Events of one sub-agent that are passed on before it waits for the reader."""
GENERAL = AgentSpec(name="general", description="", instructions="")
"""The agent without a description of its own: it is like the one that starts it."""


def child_session_id(parent_id: str, call_id: str) -> str:
    """Return the id of the session that a call starts: the same whenever that call runs."""
    return str(uuid.uuid5(_NAMESPACE, f"{parent_id}:{call_id}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a call asks of a sub-agent."""

    prompt: str
    description: str = ""
    """In a few words, for people."""
    agent: AgentSpec | SubAgentDefinition = GENERAL
    model: str = ""
    """In place of the agent's; empty: the agent's."""
    models: frozenset[str] = frozenset()
    """Models that it may name, beside those of the session that starts it."""
    resume: str = ""
    """The session of an earlier sub-agent that is to go on; empty: a new one."""
    index: int | None = None
    iteration: int | None = None


class Children:
    """The sub-agents of one process."""

    def __init__(self, process: ProcessContext) -> None:
        self._process = process
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._with_slot: set[str] = set()
        """The sessions of sub-agents that hold a slot."""
        self._running: Counter[str] = Counter()
        """How many sub-agents run, by the session that started them."""

    async def run(
        self, parent: Session, definition: Definition, task: Task, context: ToolContext
    ) -> ToolOutcome:
        """Run the sub-agent of a call to its end, or until a person has to decide.

        `definition` is that of the parent. Raises `CallSuspended` if the run of the parent cannot go on.
        """
        child_id = task.resume or child_session_id(parent.id, context.call_id)
        await self._enter(parent, child_id)
        try:
            try:
                child = await self._open(parent, definition, task, child_id, context)
            except StoreError as error:
                raise CallSuspended(error) from None
            except SandburError as error:
                return ToolOutcome("error", f"The sub-agent could not start: {error.message} {error.hint}")
            try:
                end = await self._drive(parent, child, task, context)
                return self._outcome_of(parent, child, end, context)
            finally:
                await self._process.close_session(child)
        finally:
            await self._leave(parent, child_id)

    async def _enter(self, parent: Session, child_id: str) -> None:
        """Take a slot; a sub-agent that waits for its own sub-agents gives up its slot meanwhile."""
        self._running[parent.id] += 1
        if parent.id in self._with_slot:
            self._with_slot.remove(parent.id)
            self._semaphore.release()
        try:
            await self._semaphore.acquire()
        except BaseException:
            self._running[parent.id] -= 1
            raise
        self._with_slot.add(child_id)

    async def _leave(self, parent: Session, child_id: str) -> None:
        if child_id in self._with_slot:
            self._with_slot.remove(child_id)
            self._semaphore.release()
        self._running[parent.id] -= 1
        if self._running[parent.id] == 0 and parent.parent is not None:
            del self._running[parent.id]
            await self._semaphore.acquire()
            self._with_slot.add(parent.id)

    @property
    def _semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._slots:
            self._slots[loop] = asyncio.Semaphore(self._process.settings.of("agents_at_once"))
        return self._slots[loop]

    async def _open(
        self, parent: Session, definition: Definition, task: Task, child_id: str, context: ToolContext
    ) -> Session:
        """Open the session of the sub-agent; a new one is stored with its first message."""
        database, index = parent.store.database, parent.store.index
        is_stored = await database.offload(lambda: index.exists(child_id))
        if is_stored:
            stored = await database.offload(lambda: index.settings(child_id))
            _require_own(stored, parent, child_id)
            settings = renew_child_settings(stored, parent)
        elif task.resume:
            raise UsageError(f"There is no sub-agent {child_id[:60]!r}.", "Start a new one.")
        else:
            self._require_room(parent)
            settings = await self._make_settings(parent, task, context)
        own = self._definition_of(parent, definition, task, settings)
        mode = narrow_mode(settings.mode, parent.state.execution_mode)
        new_state = ApplicationState(execution_mode=mode)
        child = await self._process.open_session(child_id, settings, new_state, own, deps=parent.inputs.deps)
        child.parent = parent
        child.limits = Limits(
            max_turns=None if settings.spawned_by is None else settings.spawned_by.max_turns
        )
        if child.state.execution_mode != mode:
            child.change_mode(mode)
        return child

    def _require_room(self, parent: Session) -> None:
        most = self._process.settings.of("agents_per_run")
        if parent.count_sub_agent() > most:
            raise UsageError(f"This run has started {most} sub-agents already, which is the most.")

    async def _make_settings(self, parent: Session, task: Task, context: ToolContext) -> SessionSettings:
        above = parent.settings.spawned_by
        spawned_by = SpawnedBy(
            session_id=parent.id,
            sequence=max(parent.last_sequence, 0),
            call_id=context.call_id,
            agents=(*(() if above is None else above.agents), task.agent.name),
            description=task.description,
        )
        if isinstance(task.agent, SubAgentDefinition):
            place = SessionPlace(child_session_id(parent.id, context.call_id), Path(parent.settings.cwd))
            own = task.agent.definition
            prompt, _ = await session_prompt(place, (), self._process.env, own)
            limits: dict[str, Any] = {"max_turns": own.overrides.get("max_turns")}
            return make_program_settings(parent, own, prompt, spawned_by.model_copy(update=limits))
        _require_known_model(task, parent.settings)
        limits = {"max_turns": task.agent.max_turns, "may_start": task.agent.may_start}
        if task.agent.isolation:
            raise UsageError(
                f"The agent {task.agent.name} is to work in a copy of the folder, which is not possible yet.",
                "Take `isolation` out of its file, or use another agent.",
            )
        skills = await asyncio.to_thread(_read_skills, task.agent, parent, self._process)
        own_limits = spawned_by.model_copy(update=limits)
        return make_child_settings(parent, task.agent, own_limits, task.model, skills)

    def _definition_of(
        self, parent: Session, definition: Definition, task: Task, settings: SessionSettings
    ) -> Definition:
        """Return the definition of the sub-agent; one that has the parent's model shares its connection."""
        if isinstance(task.agent, SubAgentDefinition):
            own = task.agent.definition
        else:
            own = replace(definition, instructions=None, output=None, done_tool="")
        if own.model is None and settings.model == parent.own_model.name:
            own = replace(own, model=parent.own_model)
        return own

    async def _drive(self, parent: Session, child: Session, task: Task, context: ToolContext) -> RunFinished:
        """Run the sub-agent and pass its events on; one that has ended, or that waits, is not run."""
        agent, end = _describe(parent, child, task, context), None
        async with aclosing(_begin(child, task, context, parent.id)) as events:
            unread = 0
            async for event in events:
                if isinstance(event, RunFinished):
                    end = event
                parent.ports.emit(event if isinstance(event, SubAgentEvent) else SubAgentEvent(agent, event))
                if (unread := unread + 1) >= _MOST_UNREAD:
                    unread = 0
                    await parent.ports.events.wait_for_reader()
        if end is None:
            end = make_run_finished(child.id, child.state, child.next_action, output=child.output)
        return end

    def _outcome_of(
        self, parent: Session, child: Session, end: RunFinished, context: ToolContext
    ) -> ToolOutcome:
        """Return what the end of a sub-agent's run means for the call that started it."""
        if end.status in ("needs_approval", "needs_decision"):
            waiting = tuple(_relay(call, child, context.call_id) for call in child.state.calls_to_decide)
            return ToolOutcome("error", "It waits for a decision.", waits_for=waiting)
        if end.status in ("turn_limit", "budget_limit"):
            try:
                parent.check_limits()
            except SandburError as error:
                raise CallSuspended(error) from None
        error = child.error
        if end.status in ("rate_limited", "interrupted") or isinstance(error, StoreError):
            why = error or UsageError("A sub-agent was interrupted.", "Resume to go on.")
            raise CallSuspended(why)
        text = end.result or ""
        used = child.state.turn_usage
        if end.status in ("done", "denied") and text:
            return ToolOutcome("ok", f"{text}\n{_name_session(child)}", usage=used)
        why = f"{end.error.message}" if end.error is not None else f"It ended as {end.status}."
        content = "\n".join(
            filter(None, (f"The sub-agent did not finish: {why}", text, _name_session(child)))
        )
        return ToolOutcome("error", content, usage=used)


class SubAgentsOfSession:
    """Implements `actions.ports.SubAgents` for one session."""

    def __init__(self, children: Children, definition: Definition) -> None:
        self._children = children
        self._definition = definition
        self.session: Session | None = None
        """Set once the session is open."""

    async def run(self, task: Task, context: ToolContext) -> ToolOutcome:
        if self.session is None:
            return ToolOutcome("error", "Sub-agents start only in a session that runs.")
        return await self._children.run(self.session, self._definition, task, context)


def describe_stopped_child(parent_id: str, call_id: str) -> str:
    """Return what the model reads about a sub-agent that stopped in its middle and will not go on."""
    return (
        "Interrupted: the user said something else. The sub-agent stopped in its middle, and what it did"
        f' stays done. It can go on: task(resume="{child_session_id(parent_id, call_id)}", ...).'
    )


def _name_session(child: Session) -> str:
    return f'[sub-agent {child.id}; to ask it again: task(resume="{child.id}", ...)]'


def _require_own(stored: SessionSettings, parent: Session, child_id: str) -> None:
    """Raise `UsageError` unless this session started the sub-agent."""
    by = stored.spawned_by
    if by is None or by.session_id != parent.id:
        raise UsageError(f"The session {child_id[:60]} is no sub-agent of this session.", "Start a new one.")


def _read_skills(agent: AgentSpec, parent: Session, process: ProcessContext) -> tuple[str, ...]:
    """Return the texts of the skills of an agent; raises `UsageError` for one that is not there."""
    if not agent.skills:
        return ()
    found = load(_FIND_SKILLS)(Path(parent.settings.cwd), process.env).skills
    for name in agent.skills:
        if name not in found:
            raise UsageError(f"The agent {agent.name} needs the skill {name}, which is not here.")
    return tuple(found[name].text() for name in agent.skills)


def _require_known_model(task: Task, settings: SessionSettings) -> None:
    """Raise `UsageError` for a model that nobody configured: a model must not choose what may cost more."""
    known = {settings.model, *settings.fallback_models, *task.models}
    if task.model and task.model not in known:
        names = ", ".join(sorted(known))
        raise UsageError(f"The model {task.model[:80]!r} is not configured here. There are: {names}.")


def _describe(parent: Session, child: Session, task: Task, context: ToolContext) -> SubAgent:
    by = child.settings.spawned_by
    names = () if by is None else by.agents
    return SubAgent(
        agent_id=child.id,
        parent_id=parent.id,
        call_id=context.call_id,
        name=names[-1] if names else task.agent.name,
        description=task.description or ("" if by is None else by.description),
        branch="/".join(names),
        index=task.index,
        iteration=task.iteration,
    )


async def _begin(child: Session, task: Task, context: ToolContext, parent_id: str) -> AsyncGenerator[Event]:
    """Run a sub-agent from where it is with this call; yield nothing if it has ended or waits."""
    options = RunOptions(task=f"{parent_id}:{context.call_id}")
    if child.state.run_options.task != options.task:
        events: AsyncIterator[Event] | None = child.send(task.prompt, options)
    elif decisions := _list_decisions(child, context.decided):
        events = child.decide(decisions, way="at the agent that started it")
    elif child.next_action == "prompt" or child.state.calls_to_decide:
        events = None
    else:
        events = child.carry_on()
    if events is None:
        return
    async with aclosing(cast("AsyncGenerator[Event]", events)) as running:
        async for event in running:
            yield event


def _list_decisions(child: Session, decided: Sequence[PendingCall]) -> list[CallDecision]:
    """Return the decisions about calls that still wait in the session of the sub-agent."""
    waiting = {call.call_id for call in child.state.calls_to_decide}
    return [
        _decision_of(call, call.sub_agent)
        for call in decided
        if call.sub_agent is not None and call.sub_agent.call_id in waiting
    ]


def _decision_of(call: PendingCall, own: SubAgentCall) -> CallDecision:
    if call.recovery.settled_as is not None:
        result = call.recovery.settled_result
        return CallDecision(call_id=own.call_id, settle=call.recovery.settled_as, result=result)
    return CallDecision(
        call_id=own.call_id,
        approved=call.decision == "approved",
        reason="" if call.decision == "approved" else call.reason,
        arguments=call.arguments if call.edited else None,
    )


def _relay(call: PendingCall, child: Session, task_call_id: str) -> PendingCall:
    """Return a waiting call of a sub-agent as its parent keeps it."""
    below = call.sub_agent
    by = child.settings.spawned_by
    name = by.agents[-1] if by is not None else ""
    own = SubAgentCall(
        session_id=child.id,
        call_id=call.call_id,
        agents=(name, *(() if below is None else below.agents)),
    )
    reason = call.reason if below is None else call.reason.partition(": ")[2]
    changes: dict[str, Any] = {
        "call_id": relayed_call_id(task_call_id, call.call_id),
        "reason": f"sub-agent {'/'.join(own.agents)}: {reason}",
        "sub_agent": own,
        "binding": None,
        "hook": None,
        "edited": False,
        "origin": "tool",
    }
    return call.model_copy(update=changes)
