"""One conversation: accepts messages and decisions, and passes on every event of its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

from ...actions.ports import Ports, RunInputs, ToolListing
from ...actions.ports.events import Event, Notice, RunStarted
from ...actions.turn.calls.recovery import triage
from ...actions.turn.calls.tool_results import sweep
from ...actions.turn.calls.user_command import OwnCall, find_shell_tool, without_secrets
from ...actions.turn.commands import answer_command
from ...actions.turn.output.answer_check import allow_another_try, find_run_output
from ...actions.turn.output.format import OutputFormat
from ...actions.turn.plan.notebook import apply_change, mask_change, refuse
from ...actions.turn.plan.plan_budget import renew_spent_budgets
from ...actions.turn.session_page import change_page, check_page
from ...state.application import NO_OPTIONS, ApplicationState, ExecutionMode, RunOptions
from ...state.calls import CallDecision, Origin
from ...state.conversation.messages import Equipment, Message, UserContent, encodable, person_message
from ...state.conversation.plan_notebook import PlanChange
from ...state.conversation.transcript import Transcript
from ...state.errors import SandburError, SessionHeld, SessionMoved, StoreError, UsageError
from ...state.session import SessionSettings, clean_title
from ...state.store.delta_persister import take_back_approval
from ...state.store.store import Store
from ..runtime.version import VERSION
from ..runtime.wiring import conditions_of
from .decisions import check_and_sign, whoami
from .inbox import SessionInbox
from .observers import Observers
from .open_request import OpenRequest, find_open_request
from .position import Position
from .run import Run, RunInput
from .run_limits import Limits
from .run_options import (
    ConnectModel,
    keep_task,
    mask_instructions,
    merge_options,
    require_deps,
    require_tool,
)
from .run_result import make_run_finished
from .secrets import mask_content
from .waiting_calls import SessionRules, WaitingCalls

_PLAN_IS_HELD, _LET_IT_END = "The plan cannot be changed during a run.", "Let the run end, or interrupt it."


class Session:
    """One session in memory. Only one run at a time; its iterator of events ends with one `RunFinished`."""

    def __init__(
        self,
        position: Position,
        ports: Ports,
        inbox: SessionInbox,
        rules: SessionRules,
        limits: Limits,
        observers: Observers | None = None,
        by: str = "",
        connect: ConnectModel | None = None,
    ) -> None:
        """`inbox` is the inbox of `ports`. `by` is the name of the person who decides; empty: `whoami`.

        `connect` returns the model that a run names in place of the session's model.
        """
        self._connect = connect
        self.own_model = ports.model
        """The model of the session, which a run may replace by another one."""
        self.id = position.session_id
        self.ports = ports
        self.inbox = inbox
        self.rules = rules
        self.limits = limits
        self.observers = observers or Observers()
        self.waiting = WaitingCalls(position, ports, rules)
        self.notices: tuple[str, ...] = ()
        """Notices for the person before the first run."""
        self.parent: Session | None = None
        """The session whose call started this one, if this is the session of a sub-agent in this process."""
        self._by = by or whoami()
        self._position = position
        self._run: Run | None = None
        self._holder: Run | None = None
        """The run that last acquired the lease."""
        self._adding = asyncio.Lock()
        """Held while a run claims the session, and while an observed message is added to the history."""
        self._is_examined = False
        self._open_request = OpenRequest()
        self._decided_elsewhere: tuple[CallDecision, ...] = ()
        """Decisions about calls of sub-agents that people made in the sub-agents' own sessions."""

    @property
    def state(self) -> ApplicationState:
        return self._position.state

    @property
    def settings(self) -> SessionSettings:
        return self.rules.settings

    @property
    def store(self) -> Store:
        return self._position.store

    @property
    def next_action(self) -> str:
        """Return the action that the graph runs next."""
        return self._position.next_action

    @property
    def last_sequence(self) -> int:
        """The number of the newest stored step; -1 before the first one."""
        return self._position.last_sequence

    @property
    def offered(self) -> ToolListing:
        """Return the present tool declarations and the system prompt, without the conversation."""
        return self.ports.requests.offer(self.state.equipment)

    @property
    def inputs(self) -> RunInputs:
        """Return the inputs that the program passes to the next run. The caller sets their fields before the
        run."""
        return self.ports.inputs

    @property
    def output(self) -> OutputFormat | None:
        """Return the format of the answer in the current or last run; None for a text."""
        return find_run_output(self.state, self.ports)

    def send(
        self, message: UserContent, options: RunOptions = NO_OPTIONS, hub_messages: Sequence[Message] = ()
    ) -> AsyncIterator[Event]:
        """Send a message or a command, and run until the turn is done or the run stops.

        A message is a text, or a list of texts, pictures and documents. A list is never a command. `options`
        are for this run alone. `hub_messages` are messages of a hub, which are stored with the message.
        Raises `UsageError` for an empty message, and for a file that the model does not accept.
        """
        says_more = bool(hub_messages) or self.settings.spawned_by is not None
        content = mask_content(self.ports, message, may_be_empty=says_more)
        answer = None
        if isinstance(content, str) and content.lstrip().startswith("/"):
            answer = answer_command(content.strip(), self.state, self.ports.router is not None)
        if answer is not None and self.next_action != "prompt":
            # The turn is not finished, and a command does not end it.
            if self._position.is_held and "vibe_plan" in answer.changes:
                return self._answer(f"{_PLAN_IS_HELD} {_LET_IT_END}")
            self._position.change(**answer.changes)
            return self._answer(answer.notice)
        inputs = {"user_input": content, **({"hub_messages": tuple(hub_messages)} if hub_messages else {})}
        given = RunInput("prompt", inputs, is_command=answer is not None)
        return self._start(given, options)

    def run_command(self, command: str, origin: Origin = "person") -> AsyncIterator[Event]:
        """Run a shell command of the person through the gate. The model reads it with its next call.

        Typing the command approves it. A `command` from a file is judged like a call of the model. The
        command ends an open turn, as a message does. Raises `UsageError` if it is empty or there is no shell
        tool.
        """
        tool = find_shell_tool(self.ports.toolbox)
        if not command.strip():
            raise UsageError("There is no command behind the `!`.", "Type one: !git status")
        if tool is None:
            raise UsageError("This session has no tool that runs commands.")
        masked = without_secrets(encodable(command.strip()), tool, self.ports.masker)
        return self._start(RunInput("prompt", {"user_input": f"!{masked}", "runs": origin}))

    def change_plan(
        self, change: PlanChange, message: str, options: RunOptions = NO_OPTIONS
    ) -> AsyncIterator[Event]:
        """End the plan, or send `message` and begin with another plan; that of an open turn is closed.

        Raises `UsageError` if the change is not possible.
        """
        # The turn is closed before the change, so that no plan is open.
        idle = self.state.model_copy(update={"turn_open": False, "phase": "idle"})
        if why := refuse(idle, change):
            raise UsageError(why)
        masked = mask_change(change, self._mask_text)
        inputs = {"user_input": mask_content(self.ports, message), "plan_change": masked}
        ends = change.command in ("finish", "abandon")
        return self._start(RunInput("prompt", inputs, is_command=ends), options)

    def revise_plan(self, change: PlanChange) -> None:
        """Change the steps of a plan whose turn is open. The next step records the change.

        Raises `UsageError` during a run, or if the change is not possible.
        """
        if self._position.is_held:
            raise UsageError(_PLAN_IS_HELD, _LET_IT_END)
        if not self.state.turn_open:
            raise UsageError("No plan is open.", "An earlier plan can be reopened.")
        masked = mask_change(change, self._mask_text)
        if why := refuse(self.state, masked):
            raise UsageError(why)
        self._position.change(**apply_change(self.state, masked))

    def run_tool(self, tool: str, arguments: str, command: str) -> AsyncIterator[Event]:
        """Make a call of a tool for a command of the person, as `run_command` does for a shell command.

        `arguments` is a JSON object without secrets, `command` the text that the person typed. Raises
        `UsageError` if the session has no such tool.
        """
        if tool not in self.ports.toolbox:
            raise UsageError(f"This session has no tool {tool}.", "Use a session of the command `sandbur`.")
        masked = self._mask_text(command.strip())
        inputs = {"user_input": masked, "runs": "person", "own_call": OwnCall(tool, arguments)}
        return self._start(RunInput("prompt", inputs))

    def note(self, command: str, notice: str) -> AsyncIterator[Event]:
        """Record a command that was carried out by changing this object or its settings."""
        masked = self._mask_text(command)
        if self.next_action != "prompt":
            return self._keep_notice(notice)
        return self._start(RunInput("prompt", {"user_input": masked, "noted": notice}, is_command=True))

    async def _keep_notice(self, notice: str) -> AsyncIterator[Event]:
        """Store the settings in the middle of a turn, whose position stays the same."""
        summary = self._position.store.index.summary(self.id)
        async for waiting in self._position.claim_lease(self.settings, ""):
            yield waiting
        self.ports.trace.add(self._position.describe_claimed())
        try:
            await self._position.take()
        finally:
            await self._position.release(summary.status, summary.wake_at)
        async for event in self._answer(notice):
            yield event

    def _mask_text(self, text: str) -> str:
        return self.ports.masker.text(encodable(text))

    async def observe(self, *texts: str) -> None:
        """Add messages to the history without a reply. All of them are on disk when this returns, or none.

        If no turn is open in this process, the history contains them at once. Otherwise they wait in the
        inbox: the next model call contains them, or they come before the next message.
        """
        if not texts:
            return
        await self.inbox.observe(*texts)
        async with self._adding:
            is_running = self._holder is not None and not self._holder.is_over
            if is_running or self.state.turn_open or self.next_action != "prompt":
                return
            given = RunInput("prompt", {"user_input": texts[0], "observes": True}, is_command=True)
            # The process that runs the session reads the messages from the inbox.
            with suppress(SessionHeld, SessionMoved):
                async for _ in self._events_of(given, self.state.run_options):
                    pass

    async def observe_hub(self, hub_messages: Sequence[Message]) -> None:
        """Store messages of a hub without a reply.

        Raises `UsageError` while a turn is open, and `SandburError` if they cannot be stored.
        """
        async with self._adding:
            if self.state.turn_open or self.next_action != "prompt":
                raise UsageError(f"A turn of session {self.id} is open.", "Let it end first.")
            title = hub_messages[0].text if hub_messages else ""
            inputs = {"user_input": title, "observes": True, "hub_messages": tuple(hub_messages)}
            async for _ in self._events_of(
                RunInput("prompt", inputs, is_command=True), self.state.run_options
            ):
                pass
            if self.error is not None:
                raise self.error

    def carry_on(self, options: RunOptions = NO_OPTIONS) -> AsyncIterator[Event]:
        """Continue from the exact action where the session stopped. `options` change those of the run.

        Raises `UsageError` if the session has no messages.
        """
        if not len(self.state.chat_history) and not self.state.pending_tool_calls:
            raise UsageError(
                f"Session {self.id} has no message yet, so there is nothing to go on with.",
                f"Send one: sandbur -p -r {self.id} MESSAGE",
            )
        if self.next_action == "human_confirm" and self._decided_elsewhere:
            decided, self._decided_elsewhere = self._decided_elsewhere, ()
            return self._start(RunInput("human_confirm", {"decisions": decided}), options)
        return self._start(RunInput(), options)

    def decide(
        self,
        decisions: Sequence[CallDecision],
        record_only: bool = False,
        way: str = "",
        options: RunOptions = NO_OPTIONS,
    ) -> AsyncIterator[Event]:
        """Record decisions about pending calls, and continue unless `record_only` is true.

        `way` is the place of the decision, such as `in a browser`; it is recorded with the person's name.
        `options` change those of the run. Raises `UsageError` if a call does not wait, or waits for another
        kind of decision.
        """
        if self.next_action != "human_confirm":
            raise UsageError(f"No call of session {self.id} waits for a decision.")
        signed = check_and_sign(self.state, decisions, f"{self._by} ({way})" if way else self._by)
        self.waiting.judge_again(but={each.call_id for each in signed})
        return self._start(RunInput("human_confirm", {"decisions": signed}, record_only), options)

    async def elsewhere(self) -> StoreError | None:
        """Return why this process cannot continue now: `SessionHeld` or `SessionMoved`; None if it can."""
        return await self._position.elsewhere()

    async def examine(self) -> None:
        """Find the outcomes of calls and requests that were open when the process of the last run died."""
        if self.state.pending_tool_calls and (not self._is_examined or self._may_have_open_calls()):
            self.waiting.change(await triage(self.state, self.ports))
        if not self._is_examined:
            self._is_examined = True
            self._decided_elsewhere = await self.waiting.find_decided_elsewhere()
            self._open_request = await find_open_request(self._position, self.ports)
            self.notices += (self._open_request.notice,) if self._open_request.notice else ()

    def _may_have_open_calls(self) -> bool:
        """Return whether a call may be open that an interrupted run of this process left so."""
        tools = (self.ports.toolbox.get(call.tool) for call in self.state.pending_tool_calls)
        return any(tool is not None and tool.traits.is_resumable for tool in tools)

    def check_limits(self) -> None:
        """Raise if the present run and its sub-agents may make no further model call."""
        if self._run is not None:
            self._run.check_limits()

    def count_sub_agent(self) -> int:
        """Count a new sub-agent for the present run of this session and for those that started it.

        Return how many sub-agents the outermost of these runs has started, including this one.
        """
        count = 0
        if self._run is not None:
            self._run.sub_agents = count = self._run.sub_agents + 1
        return count if self.parent is None else self.parent.count_sub_agent()

    @property
    def error(self) -> SandburError | None:
        """The error that ended the last run; None if it did not fail."""
        return None if self._run is None else self._run.error

    def take_unrecorded_changes(self, earlier: Session) -> None:
        """Take over the unrecorded changes of another object for this session."""
        self._position.change(**earlier._position.unrecorded)

    async def rename(self, title: str) -> str:
        """Rename the session durably; return the stored title. Raises `UsageError` for an empty title."""
        kept = clean_title(self.ports.masker.text(encodable(title)))
        if not kept:
            raise UsageError("A title needs at least one letter.", "Write the new title of the session.")
        await self._position.rename(kept)
        return kept

    def change_mode(self, mode: ExecutionMode) -> None:
        """Change the mode: which calls run without a question. The next step records the change."""
        self._position.change(execution_mode=mode)

    def change_equipment(self, change: Equipment) -> None:
        """Activate or deactivate groups of tools. The next step records the change.

        Raises `UsageError` during a run.
        """
        if self._position.is_held:
            raise UsageError("Groups of tools cannot change during a run.", "Let the run end first.")
        self._position.change(equipment=self.state.equipment.merge(change))

    def change_page(self, text: str) -> None:
        """Replace the page that the model keeps in view. The next step records the change.

        Raises `UsageError` during a run, or if `check_page` refuses the text.
        """
        if self._position.is_held:
            raise UsageError("The page cannot be changed during a run.", "Let the run end first.")
        self._position.change(**change_page(self.state, check_page(text, self.ports.masker.text)))

    def change_history(self, history: Transcript) -> None:
        """Replace the main history. The next step records the change. Raises `UsageError` in an open turn."""
        if self.state.turn_open:
            raise UsageError("The history cannot be changed in the middle of a turn.", "Let it end first.")
        self._position.change(chat_history=history)

    def revoke_permissions(self, are_loaded: bool = False) -> None:
        """Record that permissions of another machine are not valid here; `are_loaded`: the state has them."""
        mode, calls = self.state.execution_mode, self.state.pending_tool_calls
        if are_loaded:
            mode, calls = "interactive", tuple(map(take_back_approval, calls))
        self._position.change(execution_mode=mode, pending_tool_calls=calls)

    async def interrupt(self, by: str = "") -> None:
        """Cancel the current action. The iterator of the run then ends with the status `interrupted`.

        `by` names who or what asked for it, as far as that is known."""
        if self._run is not None:
            await self._run.interrupt(by)

    def _start(self, given: RunInput, options: RunOptions = NO_OPTIONS) -> AsyncIterator[Event]:
        if given.record_only or given.is_command or given.inputs.get("runs"):
            options = self.state.run_options
        else:
            require_deps(self.ports)
            options = self._choose_options(given.first, options)
        events = self._events_of(given, options)
        if not self.observers or given.is_command:
            return events
        message = None if given.message is None else person_message(given.message).display_text
        return self.observers.follow(events, message)

    def _events_of(self, given: RunInput, options: RunOptions) -> AsyncIterator[Event]:
        """Return the events of a new run; an observed message is added while `_adding` is held already."""
        check_parent = None if self.parent is None else self.parent.check_limits
        run = Run(self._position, self.ports, self.limits, self.observers, given, check_parent)
        self._run = run
        claiming = nullcontext() if "observes" in given.inputs else self._adding
        prepare = partial(self._prepare, run, given, options)
        return run.events(self.settings, prepare, self._rewrite_message, claiming)

    async def _rewrite_message(self, given: RunInput) -> RunInput:
        """Return the input of a run with the person's message as hooks rewrote it."""
        hooks, message = self.ports.hooks, given.message
        if hooks is None or message is None:
            return given
        rewritten = mask_content(self.ports, await hooks.rewrite_message(message))
        return replace(given, inputs={**given.inputs, "user_input": rewritten})

    def _choose_options(self, first: str | None, given: RunOptions) -> RunOptions:
        """Return the options of the next run. A run that continues keeps those that it began with.

        Raises `UsageError` for options that no run of this session can have.
        """
        require_tool(given.tool_choice, self.ports)
        options = mask_instructions(given, self.ports.masker)
        if first != "prompt":
            options = merge_options(self.state.run_options, options)
        elif not options.task:
            options = keep_task(self.state.run_options, options)
        self._use_model(options.model)
        return options

    def _use_model(self, name: str) -> None:
        """Use the model of this name for the next run; an empty name means the session's own model."""
        model = self.own_model
        if (name and self._connect is not None) and (name != model.name or self.inputs.model is not None):
            model = self._connect(name, self.inputs.model)
        if model is not self.ports.model:
            self.ports = replace(self.ports, model=model)

    async def _prepare(self, run: Run, given: RunInput, options: RunOptions) -> RunStarted:
        """Bring the session to the position where the run begins, and record the beginning."""
        position, self._holder = self._position, run
        await self.examine()
        if given.first == "prompt" and position.next_action != "prompt":
            position.back_to_prompt()
        if given.first is None:
            self.waiting.judge_again()
            tries = allow_another_try(self.state, self.ports) if self.state.rejected_answers else {}
            used_by_agents = await position.count_open_agents()
            position.change(bad_rounds=0, **tries, **renew_spent_budgets(self.state, used_by_agents))
            run.continue_request(self._open_request)
        elif given.first == "prompt" and not given.is_command:
            self.inbox.include_next()
        if options != self.state.run_options:
            position.change(run_options=options)
        if not given.is_command:
            self._open_request = OpenRequest()
        conditions = conditions_of(self.settings, self.ports)
        self.ports.trace.add(
            position.describe_beginning(given.first, self._by, self.ports.model.name, conditions)
        )
        if self.ports.places.scratch is not None and self.ports.places.scratch.is_dir():
            await sweep(self.state, self.ports)
        return self._make_run_started()

    async def _answer(self, notice: str) -> AsyncIterator[Event]:
        """Answer a command without moving the graph."""
        yield self._make_run_started()
        yield Notice(notice)
        yield make_run_finished(self.id, self.state, self.next_action, is_command=True, output=self.output)

    def _make_run_started(self) -> RunStarted:
        model, mode, sandbox = self.ports.model.name, self.state.execution_mode, self.ports.calls.sandbox
        return RunStarted(self.id, model, mode, self.settings.cwd, VERSION, sandbox)
