"""The steps of a recorded run: the states before and after each step, and the external inputs of its
action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ....actions.turn.calls.user_command import OwnCall
from ....actions.turn.commands import MODES, parse_shell_command
from ....state.application import GRAPH_VERSION, ApplicationState, ExecutionMode, InboxTaken
from ....state.calls import HOOK_DECIDES, CallDecision, PendingCall, restore_arguments
from ....state.conversation.messages import Message, ToolResult
from ....state.conversation.transcript import Log, Transcript, TranscriptRange
from ....state.databases.database import Database
from ....state.errors import StoreError
from ....state.lazy_dataclass import dataclass
from ....state.session import InboxKind, SessionSettings, WaitingMessage
from ....state.store.delta_persister import take_back_approval
from ....state.store.deltas import decode_fields
from ....state.store.journal import find_undone_calls
from ....state.store.recording import (
    CallMove,
    RecordedStep,
    StepFold,
    Traced,
    list_call_moves,
    list_damage,
    list_messages,
    list_traces,
    select_rows_between,
)
from ....state.store.store import Store
from ....state.trace import FlowStarted, ModelCalled, RunBegan, RunEnded
from ...session.run_options import apply_changes

Values = Mapping[str, Any]
"""Field -> value, for fields of `ApplicationState`."""


class RecordedLogs:
    """All logs of a session and its ancestors, completely loaded and read-only."""

    def __init__(self, owners: Iterable[Owner]) -> None:
        self._logs: dict[tuple[str, int], Log] = {}
        for owner in owners:
            for number, message, _ in owner.messages:
                log = self.log(owner.session_id, number)
                log.append(message)
                log.saved += 1

    def log(self, session_id: str, number: int) -> Log:
        name = session_id, number
        if name not in self._logs:
            log = self._logs[name] = Log(session_id, number)
            # The log is sealed: a walk appends its messages to new logs.
            log.sealed = True
        return self._logs[name]

    def name_log(self, span: TranscriptRange) -> tuple[str, int]:
        raise LookupError("a recording is only read")

    def load_history(self, history: Transcript) -> Transcript:
        """Return the history with loaded messages in place of references to the store."""
        spans = [
            span if span.is_loaded else span._replace(log=self.log(span.log.session_id, span.log.number))
            for span in history.spans
            if span.log.session_id is not None and span.log.number is not None
        ]
        return Transcript(spans) if len(spans) == len(history.spans) else history


class StateReader:
    """Computes the state after each step of a recording. An unchanged field stays the same object."""

    def __init__(self, logs: RecordedLogs, mode: ExecutionMode, graph_version: int) -> None:
        """Begin with the state of a new session in this mode, with the recorded version of the graph."""
        self._logs = logs
        self._before: Values | None = None
        self.values: Values = dict(ApplicationState(execution_mode=mode, graph_version=graph_version))

    def take(self, step: RecordedStep) -> Values:
        """Return all fields after the next step."""
        # The state before may differ from the previous step's: an import revokes approvals between two steps.
        before = step.before if self._before is None else self._before
        self._before = step.after
        changed = {
            name: value
            for name, value in step.after.items()
            if value is not before.get(name) and (name not in before or value != before[name])
        }
        decoded = decode_fields(ApplicationState, changed, self._logs)
        values = {**self.values, **{name: decoded[name] for name in changed if name in decoded}}
        if "pending_tool_calls" in changed and values["pending_tool_calls"]:
            asked = ApplicationState.model_construct(**values).active_history.requesting_message
            values["pending_tool_calls"] = restore_arguments(values["pending_tool_calls"], asked)
        self.values = values
        return values


class MessageRow(NamedTuple):
    log: int
    message: Message
    row: int
    """The number of the message's row in the session's hash chain."""


class Owner(NamedTuple):
    """One session of a lineage, with its own records."""

    session_id: str
    settings: SessionSettings
    steps: Sequence[RecordedStep]
    """The steps up to the fork, or all steps of the session itself."""
    messages: Sequence[MessageRow]
    """The messages, sorted by their log and their place in it."""
    moves: Sequence[CallMove]
    traces: Sequence[Traced]
    ancestors: tuple[Owner, ...]
    """The sessions that this one was forked from, oldest first."""
    undone: frozenset[str]
    """The ids of ancestors' calls whose whole effect was reverted when this session was forked."""


@dataclass(frozen=True, slots=True)
class Moment:
    owner: Owner
    seq: int
    action: str
    came_from: str | None
    """The previous action, or None if the run entered the graph at this step."""
    run: Traced | None
    """The record of the start of the step's run, or None if there is none."""
    acts: bool
    """False if no action ran: the run stopped at once, and only stored changes from before it."""
    since: int
    """The first row number that was not on disk when the action began."""
    before: Values
    after: Values
    goes_to: str | None
    """The next action, or the action that was about to run; None if unknown."""
    called: ModelCalled | None = None
    """The model call of the step, or None."""
    reply: Message | None = None
    """The reply of the model in the form that the history recorded, or None."""
    cut: tuple[Message, ...] = ()
    """The partial reply of an interrupted model call, and the mark after it."""
    results: Mapping[str, ToolResult] = field(default_factory=dict[str, ToolResult])
    """Call id -> the result that the step added to a history."""
    started: frozenset[str] = frozenset()
    """The ids of the calls that the action started."""
    message: Message | None = None
    """The person's message if it began a turn in this step."""
    steering: Sequence[WaitingMessage] = ()
    """Steering messages from while the model worked, which the step added to the history."""
    flow: FlowStarted | None = None
    """The flow or skill that the message of the step started."""

    @property
    def began(self) -> RunBegan | None:
        return self.run.record if self.run is not None and isinstance(self.run.record, RunBegan) else None


@dataclass(frozen=True, slots=True)
class Recording:
    session_id: str
    logs: RecordedLogs
    owners: Sequence[Owner]
    """The sessions that recorded the steps, oldest first."""

    @property
    def last_seq(self) -> int:
        return max((owner.steps[-1].seq for owner in self.owners if owner.steps), default=-1)

    def moments(self) -> Iterator[Moment]:
        """Yield all steps, oldest first."""
        first = self.owners[0]
        version = first.steps[0].after.get("graph_version", 1) if first.steps else GRAPH_VERSION
        reader = StateReader(self.logs, _first_mode(first), version)
        action: str | None = None
        for owner in self.owners:
            for moment in _moments(owner, reader, action):
                action = moment.action
                yield moment


def read_recording(store: Store, session_id: str) -> Recording:
    """Read a session and the sessions that it was forked from; raises `StoreError`."""
    fold = StepFold(store.database)
    owners: list[Owner] = []
    for name, last in store.index.lineage(session_id):
        _refuse_damaged(store.database, name)
        steps = fold.steps(name, last=last)
        owners.append(_owner(store, name, list(steps), tuple(owners)))
    return Recording(session_id, RecordedLogs(owners), owners)


def _owner(
    store: Store, session_id: str, steps: Sequence[RecordedStep], ancestors: tuple[Owner, ...]
) -> Owner:
    for number, step in enumerate(steps, steps[0].seq if steps else 0):
        if step.seq != number or not step.action:
            raise _damage_error(session_id, f"step {number} is missing or cannot be read")
    undone = find_undone_calls(store.database, session_id, tuple(one.session_id for one in ancestors))
    return Owner(
        session_id=session_id,
        settings=store.index.settings(session_id),
        steps=steps,
        messages=list(_messages(store.database, session_id)),
        moves=list(list_call_moves(store.database, session_id)),
        traces=list(list_traces(store.database, session_id)),
        ancestors=ancestors,
        undone=frozenset(undone),
    )


def _messages(database: Database, session_id: str) -> Iterator[MessageRow]:
    ends: dict[int, int] = {}
    for log, position, row, message in list_messages(database, session_id):
        expected = ends.get(log, 0)
        if position != expected or message is None:
            raise _damage_error(session_id, f"message {log}/{expected} is missing or cannot be read")
        ends[log] = position + 1
        yield MessageRow(log, message, row)


def _refuse_damaged(database: Database, session_id: str) -> None:
    for kind, place in list_damage(database, session_id):
        raise _damage_error(session_id, f"{kind} {place} was set aside")


def _damage_error(session_id: str, what: str) -> StoreError:
    return StoreError(
        f"The records of session {session_id} are damaged: {what}.",
        f"See what is wrong: sandbur sessions verify {session_id}",
    )


def _moments(owner: Owner, reader: StateReader, action: str | None) -> Iterator[Moment]:
    parts = _Parts(owner)
    before, since, run = reader.values, 0, None
    if owner.ancestors:
        before = {
            **before,
            "pending_tool_calls": tuple(map(take_back_approval, before["pending_tool_calls"])),
        }
    for place, step in enumerate(owner.steps):
        first = since
        began = parts.beginning(since, step.row)
        if began is not None:
            run, since = began, began.row
            before = _apply_run_settings(before, began)
        after = reader.take(step)
        new_taken = _list_new_numbers(before, after)
        flow = parts.flow(since, step.row)
        yield Moment(
            owner=owner,
            seq=step.seq,
            action=step.action,
            came_from=None if began is not None and _enters(began) else action,
            run=run,
            acts=began is None or not _only_began(began, step.action, before, after),
            since=since,
            before=before,
            after=after,
            goes_to=parts.next_action(step, owner.steps[place + 1 : place + 2]),
            steering=parts.take_steering(
                since,
                step.row,
                flow is not None or _opens_turn(step.action, after),
                new_taken,
                after["run_options"].instructions,
            )
            if new_taken
            else (),
            flow=flow,
            **parts.of(since, step.row, first),
        )
        action, before, since = step.action, after, step.row + 1


def _list_new_numbers(before: Values, after: Values) -> list[tuple[int, InboxKind]]:
    """Return number and kind of the newest messages that a step took from the inbox, in their order."""
    old: InboxTaken = before["inbox_taken"]
    new: InboxTaken = after["inbox_taken"]
    kinds: tuple[InboxKind, ...] = ("steer", "observe")
    return sorted((getattr(new, kind), kind) for kind in kinds if getattr(new, kind) != getattr(old, kind))


def _opens_turn(action: str, after: Values) -> bool:
    """Return whether a step begins a turn with a message, and does not only add observed messages."""
    return action == "prompt" and after["turn_open"]


def _enters(run: Traced) -> bool:
    """Return whether a run entered the graph with a message, so that the previous action does not matter."""
    return isinstance(run.record, RunBegan) and run.record.action == "prompt"


def _only_began(run: Traced, action: str, before: Values, after: Values) -> bool:
    """Return whether the first step of a run only stored changes that were made before the run."""
    if isinstance(run.record, RunBegan) and run.record.action != action:
        return True
    return all(after[name] is before[name] or after[name] == before[name] for name in after)


def _first_mode(owner: Owner) -> ExecutionMode:
    """Return the mode in which a session began. An imported session may have another mode now."""
    began = (one.record.mode for one in owner.traces if isinstance(one.record, RunBegan))
    known: dict[str, ExecutionMode] = {mode: mode for mode in MODES}
    return known.get(next(began, ""), owner.settings.mode)


def _apply_run_settings(values: Values, run: Traced) -> Values:
    """Return the fields with the settings that were changed before the run began, between two actions."""
    changes = run.record.changes if isinstance(run.record, RunBegan) else {}
    return apply_changes(values, changes) if changes else values


class _Parts:
    """The records of a session other than its steps."""

    def __init__(self, owner: Owner) -> None:
        self._traces = owner.traces
        self._moves = owner.moves
        self._messages = sorted(owner.messages, key=lambda message: message.row)

    def beginning(self, first: int, last: int) -> Traced | None:
        """Return the newest start of a run among the rows from `first` to before `last`, or None."""
        began = reversed(select_rows_between(self._traces, first, last))
        return next((one for one in began if isinstance(one.record, RunBegan)), None)

    def flow(self, first: int, last: int) -> FlowStarted | None:
        """Return the flow that a message started in the rows from `first` to before `last`."""
        traces = (one.record for one in select_rows_between(self._traces, first, last))
        return next((one for one in traces if isinstance(one, FlowStarted)), None)

    def next_action(self, step: RecordedStep, following: Sequence[RecordedStep]) -> str | None:
        """Return the action after a step, or the action that the run was about to start when it ended."""
        for one in select_rows_between(self._traces, step.row, following[0].row if following else 2**62):
            if one.seq != step.seq or isinstance(one.record, RunBegan):
                # The process died between two steps, or the following steps belong to a part that a fork left
                # out.
                return None
            if isinstance(one.record, RunEnded):
                return one.record.action
        return following[0].action if following else None

    def of(self, first: int, last: int, earliest: int) -> dict[str, Any]:
        """Return the external inputs of the action that wrote the rows from `first` to before `last`.

        If a run died while hooks checked the reply, a later run uses that reply. It is in a row from
        `earliest` on.
        """
        called = self._model_call(first, last) or self._model_call(earliest, first, is_kept=True)
        messages = [one.message for one in select_rows_between(self._messages, first, last)]
        moves = select_rows_between(self._moves, first, last)
        cut = tuple(messages[-2:]) if messages and messages[-1].is_cut_mark else ()
        return {
            # An interrupted call has no reply. The step has its partial reply in place of one.
            "called": None if cut else called,
            "cut": cut,
            # A partial reply comes before the person's message.
            "message": next((one for one in reversed(messages) if _is_persons_message(one)), None),
            "reply": next((one for one in messages if one.origin == "model"), None),
            "results": {result.call_id: result for one in messages for result in one.tool_results},
            "started": frozenset(move.call_id for move in moves if move.move == "started"),
        }

    def _model_call(self, first: int, last: int, is_kept: bool = False) -> ModelCalled | None:
        """Return the newest model call in these rows, or None. With `is_kept`, a call without a kept reply is
        None, too."""
        traces = (one.record for one in reversed(select_rows_between(self._traces, first, last)))
        called = next((one for one in traces if isinstance(one, ModelCalled)), None)
        return None if called is not None and is_kept and called.reply is None else called

    def take_steering(
        self,
        first: int,
        last: int,
        opens_turn: bool,
        newest: Sequence[tuple[int, InboxKind]],
        instructions: str = "",
    ) -> list[WaitingMessage]:
        """Return the inbox messages in these rows. `newest` are the number and kind of the last of each kind.

        The rows hold only texts; the kinds of earlier messages make no difference in a step. `instructions`
        are those of the run, which are not an inbox message.
        """
        rows = select_rows_between(self._messages, first, last)
        if instructions and opens_turn:
            rows = [row for row in rows if row.message.text != instructions]
        log = next((row.log for row in reversed(rows) if _is_persons_message(row.message)), None)
        found: list[tuple[str, str]] = []
        for row in rows:
            if row.log == log and _is_persons_message(row.message):
                found.append((row.message.text, ""))
            elif row.log == log and row.message.origin == "runtime" and row.message.role == "user" and found:
                found[-1] = found[-1][0], row.message.text
            elif found:
                break
        # The message that begins a turn comes after the waiting steering messages.
        found = found[:-1] if opens_turn else found
        number, kind = newest[0]
        earlier: list[tuple[int, InboxKind]] = [
            (number - n, kind) for n in range(len(found) - len(newest), 0, -1)
        ]
        places = (*earlier, *newest)
        return [WaitingMessage(n, kind, *one) for (n, kind), one in zip(places, found, strict=False)]


def _is_persons_message(message: Message) -> bool:
    """Return whether a person wrote this text, and not a command that generated it, or a hub."""
    return message.origin == "person" and not message.is_user_command and not message.hub_number


def inputs_of(moment: Moment) -> dict[str, Any]:
    """Return the inputs of the recorded action, computed from its results."""
    if moment.action == "prompt":
        hub_messages = _list_hub_messages(moment)
        more = {"hub_messages": hub_messages} if hub_messages else {}
        is_steered = moment.steering and not moment.after["turn_open"] and moment.flow is None
        if is_steered or (hub_messages and moment.message is None):
            return {"user_input": "", "observes": True, **more}
        change = moment.after["plan_change"]
        if change is not None and (moment.after["turn_open"] or change != moment.before["plan_change"]):
            return {"user_input": moment.after["user_input"], "plan_change": change}
        for call in moment.after["pending_tool_calls"]:
            if call.origin not in ("model", "flow"):
                text = moment.after["user_input"]
                is_shell_command = parse_shell_command(text) is not None
                own = {} if is_shell_command else {"own_call": OwnCall(call.tool, call.arguments)}
                return {"user_input": text, "runs": call.origin, **own}
        has_files = moment.message is not None and any(moment.message.files)
        return {
            "user_input": moment.message.user_content
            if moment.message and has_files
            else moment.after["user_input"],
            **more,
        }
    if moment.action == "human_confirm":
        return {"decisions": tuple(_decisions(moment))}
    if moment.cut:
        return {"cut": moment.cut}
    return {}


def _list_hub_messages(moment: Moment) -> tuple[Message, ...]:
    """Return the messages of a hub that a step added to the history."""
    before: int = moment.before["hub_position"]
    if moment.after["hub_position"] == before:
        return ()
    history: Transcript = moment.after["chat_history"]
    return tuple(message for message in history if message.hub_number > before)


def _decisions(moment: Moment) -> Iterator[CallDecision]:
    before: dict[str, PendingCall] = {call.call_id: call for call in moment.before["pending_tool_calls"]}
    for call in moment.after["pending_tool_calls"]:
        was = before.get(call.call_id)
        # A call that still waits was not decided, or its decision had no effect.
        if was is not None and was.decision == "undecided" and call.decision != "undecided":
            yield _decision(call)


def _decision(call: PendingCall) -> CallDecision:
    recovery = call.recovery
    if recovery.settled_as is not None:
        return CallDecision(call_id=call.call_id, settle=recovery.settled_as, result=recovery.settled_result)
    if call.decision == "denied" and call.decided_by in ("person", "hook"):
        by = HOOK_DECIDES if call.decided_by == "hook" else ""
        return CallDecision(call_id=call.call_id, reason=call.reason, by=by)
    arguments = call.arguments if call.edited else None
    return CallDecision(call_id=call.call_id, approved=True, arguments=arguments)
