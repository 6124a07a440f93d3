"""Reads all records of a session once, and builds the content of its report, an `Account`."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ....actions.turn.plan.decision_tools import RESERVED_NAMES
from ....state.application import Usage
from ....state.conversation.content import Attachment
from ....state.conversation.messages import (
    Message,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    parse_json_or_text,
)
from ....state.databases.database import Database
from ....state.maintenance.verify import audit
from ....state.process.clock import count_milliseconds
from ....state.store.recording import (
    Fields,
    MessagePages,
    RecordedStep,
    Traced,
    list_all_traces,
    list_objects,
    list_steps,
)
from ....state.store.store import Store
from ....state.trace import ModelCalled, RunBegan, RunEnded
from ...graph import traits_of
from ..sub_agents import MOST_LISTED, SubAgentRecord, read_sub_agents
from ..timeline import list_decided_calls
from .content_checks import find_cited_files
from .recorded_calls import CallBook
from .run_report import (
    MESSAGE_CHARS,
    Account,
    CallAccount,
    Compressed,
    Decided,
    EndPosition,
    Forked,
    Happened,
    Lost,
    ModelUsed,
    PlanApproved,
    PlanMade,
    PlanStep,
    PlanStepBegan,
    PlanStepEnded,
    RecordedVerdict,
    RunBoundary,
    StepCost,
    Utterance,
    What,
    cut,
)


class Runs:
    """The trace of one session, read from step to step."""

    def __init__(self, database: Database, session_id: str, last_seq: int | None, is_held: bool) -> None:
        """Read the records of the steps up to `last_seq`; None means all records."""
        self._end = None if last_seq is not None else "running" if is_held else "died"
        """The status of a run whose end is not recorded. None: the run may have ended after `last_seq`."""
        self._number = 0
        self._is_open = False
        self._traces: dict[int, list[Traced]] = {}
        for traced in list_all_traces(database, session_id):
            if last_seq is None or traced.seq < last_seq:
                self._traces.setdefault(traced.seq, []).append(traced)
        self._last = max(self._traces, default=None)

    def after(self, seq: int) -> Iterator[Happened]:
        """Yield the records between step `seq` and the next one. Call this with ascending numbers."""
        found = self._traces.pop(seq, [])
        for traced in found:
            for what in self._list_run_events(traced):
                yield Happened(seq, traced.at, None, what)
        if found and seq == self._last and self._is_open and self._end is not None:
            yield Happened(seq, found[-1].at, None, RunBoundary(self._number, True, status=self._end))

    def _list_run_events(self, traced: Traced) -> Iterator[RunBoundary | ModelUsed | Lost]:
        record = traced.record
        if isinstance(record, RunBegan):
            if self._is_open:
                yield RunBoundary(self._number, True, status="died")
            self._number += 1
            self._is_open = True
            yield RunBoundary(self._number, False, record.by, record.model, record.mode, record.version)
        elif isinstance(record, RunEnded):
            self._is_open = False
            error = record.error.message if record.error is not None else ""
            yield RunBoundary(
                self._number, True, status=record.status, duration_ms=record.duration_ms, error=error
            )
        elif isinstance(record, ModelCalled):
            yield ModelUsed(record)
        elif record is None:
            yield Lost(f"The trace record {traced.n} is damaged.")


class StepCosts:
    """Adds up the costs of each step. Records have to be added in order; pauses between runs belong to no
    step."""

    def __init__(self) -> None:
        self.steps: list[StepCost] = []
        self._since = ""
        """The earliest time at which the next step may have begun."""
        self._model_ms = 0

    def trace(self, happened: Happened) -> None:
        if isinstance(happened.what, RunBoundary) and not happened.what.is_end:
            self._since = happened.at
        elif isinstance(happened.what, ModelUsed):
            self._model_ms += happened.what.call.duration_ms

    def add(self, step: RecordedStep, tool_ms: int) -> None:
        used = _usage(step.after) - _usage(step.before)
        took_ms = count_milliseconds(self._since, step.at)
        # Reading calls run concurrently, so together they took at most as long as the step.
        tool_ms = min(tool_ms, took_ms) if self._since else tool_ms
        self.steps.append(
            StepCost(
                seq=step.seq,
                action=step.action,
                at=step.at,
                model_ms=self._model_ms,
                tool_ms=tool_ms,
                other_ms=max(took_ms - self._model_ms - tool_ms, 0),
                tokens_in=max(used.input_tokens or 0, 0),
                tokens_out=max(used.output_tokens or 0, 0),
                cost_usd=None if used.cost_usd is None else max(used.cost_usd, 0.0),
            )
        )
        self._model_ms = 0
        self._since = step.at


def _usage(fields: Fields) -> Usage:
    return Usage.model_validate(fields.get("usage") or {})


class StepReader:
    def __init__(self, pages: MessagePages, book: CallBook) -> None:
        self._pages = pages
        self._book = book
        self._newest: Fields = {}
        self._goal = ""
        self.tool_ms = 0
        """The duration of the calls whose results the step added, in milliseconds."""

    @property
    def end_position(self) -> EndPosition:
        """Return the position after the last added step."""
        newest, mask = self._newest, self._book.masker.text
        return EndPosition(
            mode=str(newest.get("execution_mode") or ""),
            goal=mask(self._goal),
            page=mask(str(newest.get("page") or "")),
            plan=tuple(_plan(newest, mask).values()),
            waiting=frozenset(
                str(call.get("call_id"))
                for call in list_objects(newest, "pending_tool_calls")
                if call.get("decision") == "undecided"
            ),
            usage=_usage(newest),
        )

    def read_events(self, step: RecordedStep) -> Iterator[Happened]:
        """Yield the events of a step in the order in which people read them."""
        self._newest = step.after
        self._goal = str(step.after.get("current_goal") or self._goal)
        self.tool_ms = 0
        for plan_step, what in self._list_step_events(step):
            yield Happened(step.seq, step.at, plan_step, what)

    def _list_step_events(self, step: RecordedStep) -> Iterator[tuple[str | None, What]]:
        moves = list(_plan_moves(step, self._book.masker.text))
        yield from (move for move in moves if not isinstance(move[1], PlanStepEnded))
        yield from ((step.after.get("active_step_id"), what) for what in self._decisions(step))
        for place, reference in enumerate(step.added, 1):
            message = self._pages.load(reference)
            is_last = place == len(step.added)
            whats = (
                [Lost("A message is damaged.")]
                if message is None
                else self._read_message(message, step, is_last)
            )
            yield from ((reference.step_id, what) for what in whats)
        if traits_of(step.action).step_kind == "message" and not step.added:
            yield None, Utterance("command", cut(str(step.after.get("user_input") or ""), MESSAGE_CHARS))
        yield from (move for move in moves if isinstance(move[1], PlanStepEnded))

    def _read_message(self, message: Message, step: RecordedStep, is_last: bool) -> Iterator[What]:
        if any(result.put_away for result in message.tool_results):
            return
        if traits_of(step.action).step_kind == "compression":
            yield Compressed(cut(self._book.masker.text(message.text), MESSAGE_CHARS))
            return
        if message.origin == "runtime" and _is_step_line(message, step, is_last):
            return
        name = self._book.masker.text(message.name or "")
        for block in message.blocks:
            if isinstance(block, Text) and block.text.strip():
                text = cut(self._book.masker.text(block.text), MESSAGE_CHARS)
                yield Utterance(_speaker(message, step, is_last), text, name)
            elif isinstance(block, Attachment):
                yield Utterance(_speaker(message, step, is_last), cut(block.label, MESSAGE_CHARS))
            elif isinstance(block, Thinking) and block.text.strip():
                yield Utterance("thinking", cut(self._book.masker.text(block.text), MESSAGE_CHARS))
            elif isinstance(block, ToolUse) and block.tool not in RESERVED_NAMES:
                # The graph's own event is reported in place of the call that caused it.
                yield self._book.add_request(block)
            elif isinstance(block, ToolResult) and self._book.note_result(block):
                self.tool_ms += block.duration_ms or 0
                yield from self._find_approved_plan(block, step)

    def _find_approved_plan(self, result: ToolResult, step: RecordedStep) -> Iterator[PlanApproved]:
        """Yield the plan that begins with this result; a result without a plan yields nothing."""
        plan, call = result.plan, self._book.find(result.call_id)
        begun = step.after.get("approved_plan")
        if plan is None or call is None or not begun or begun == step.before.get("approved_plan"):
            return
        signed = [verdict for verdict in call.verdicts if verdict.who and verdict.decision == "approved"]
        by = signed[-1] if signed else None
        pending = list_objects(step.before, "pending_tool_calls")
        changes = next((one for one in pending if one.get("call_id") == result.call_id), dict[str, Any]())
        yield PlanApproved(
            digest=plan.digest,
            text=cut(self._book.masker.text(plan.text), MESSAGE_CHARS),
            at="" if by is None else by.at,
            who="" if by is None else by.who,
            changes=self._book.masker.text(str(changes.get("plan_changes") or "")),
        )

    def _decisions(self, step: RecordedStep) -> Iterator[What]:
        """Yield the person's decisions in this step, and note changed arguments."""
        for pending in list_objects(step.after, "pending_tool_calls"):
            if pending.get("edited"):
                self._book.note_edit(str(pending["call_id"]), str(pending.get("arguments", "")))
        if traits_of(step.action).waits_for != "decision":
            return
        decided: list[tuple[CallAccount, RecordedVerdict]] = []
        for pending in list_decided_calls(step):
            call = self._book.find(str(pending["call_id"]))
            if call is not None:
                signed = [verdict for verdict in call.verdicts if verdict.who and verdict.at <= step.at]
                decided += [(call, signed[-1])] if signed else []
        if decided:
            yield Decided(tuple(decided))


def _is_step_line(message: Message, step: RecordedStep, is_last: bool) -> bool:
    """Return whether a message is the summary of a plan step, which is a separate event."""
    traits = traits_of(step.action)
    is_ended_by_tool = traits.runs_calls and message.role == "assistant" and not is_last
    return traits.step_kind == "summary" or is_ended_by_tool


def _speaker(message: Message, step: RecordedStep, is_last: bool) -> Any:
    """Return the author of a message, as a value of `Utterance.by`."""
    traits = traits_of(step.action)
    is_end = is_last and message.role == "assistant" and not step.after.get("turn_open", True)
    if is_end and (traits.asks_model or traits.runs_calls):
        is_data = isinstance(parse_json_or_text(message.text), dict | list)
        if is_data or message.origin == "runtime":
            return "answer"
    return message.origin if message.origin != "tool" else "runtime"


def _plan_moves(step: RecordedStep, mask: Callable[[str], str]) -> Iterator[tuple[str | None, What]]:
    """Yield the changes of the plan in a step. A plan step that ends with its first answer also begins in
    this step."""
    before, after = _plan(step.before, mask), _plan(step.after, mask)
    steps = tuple((step_id, one.description) for step_id, one in after.items())
    if steps and steps != tuple((step_id, one.description) for step_id, one in before.items()):
        is_same_goal = step.before.get("current_goal") == step.after.get("current_goal")
        yield None, PlanMade(steps, is_revision=is_same_goal and any(step_id in after for step_id in before))
    for step_id, one in after.items():
        was = before[step_id].status if step_id in before else "pending"
        if was == "pending" and one.status not in ("pending", "abandoned"):
            yield step_id, PlanStepBegan(step_id, one.description)
        # Abandoned steps that had not begun have no part of their own in the report.
        has_ended = one.status in ("completed", "failed", "skipped")
        has_ended = has_ended or (one.status == "abandoned" and was != "pending")
        if one.status != was and has_ended:
            yield step_id, PlanStepEnded(step_id, one.status, one.summary)


def _plan(fields: Fields, mask: Callable[[str], str]) -> dict[str, PlanStep]:
    return {
        str(one["step_id"]): PlanStep(
            str(one["step_id"]),
            mask(str(one.get("description", ""))),
            str(one.get("status", "pending")),
            mask(str(one.get("analysis", ""))),
        )
        for one in list_objects(fields, "vibe_plan")
        if "step_id" in one
    }


def read_account(store: Store, session_id: str) -> Account:
    """Return the account of a session, including the history of the sessions that it was forked from."""
    return _Reading(store, session_id).account()


class _Reading:
    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._id = session_id
        self._lineage = store.index.lineage(session_id)
        self._book = CallBook(store, self._lineage)
        self._reader = StepReader(MessagePages(store.database), self._book)
        self._runs = {
            owner: Runs(store.database, owner, limit, store.index.is_held(owner))
            for owner, limit in self._lineage
        }
        self._costs = StepCosts()

    def account(self) -> Account:
        happened = tuple(self._list_events())
        self._book.close()
        summary = self._store.index.summary(self._id)
        return Account(
            summary=replace(summary, title=self._book.masker.text(summary.title)),
            settings=self._store.index.settings(self._id),
            standing=self._reader.end_position,
            happened=happened,
            steps=tuple(self._costs.steps),
            audit=audit(self._store.database, [owner for owner, _ in self._lineage]),
            sub_agents=tuple(self._read_sub_agents()),
            cited_files=find_cited_files(self._store, [owner for owner, _ in self._lineage]),
        )

    def _read_sub_agents(self) -> Iterator[SubAgentRecord]:
        mask = self._book.masker.text
        for one in read_sub_agents(self._store, self._store.index.children_of(self._id, MOST_LISTED)):
            yield replace(one, name=mask(one.name), description=mask(one.description))

    def _list_events(self) -> Iterator[Happened]:
        owner = self._lineage[0][0]
        yield from self._between(owner, -1, "")
        for step in list_steps(self._store.database, self._id):
            if step.session_id != owner:
                yield Happened(step.seq, step.at, None, Forked(owner, step.session_id))
                owner = step.session_id
                yield from self._between(owner, step.seq - 1, step.at)
            yield from self._step(step)
            yield from self._between(owner, step.seq, step.at)
        if owner != self._id:
            yield Happened(-1, "", None, Forked(owner, self._id))
            yield from self._between(self._id, self._lineage[-2][1] or -1, "")

    def _step(self, step: RecordedStep) -> Iterator[Happened]:
        if not step.action:
            yield Happened(step.seq, step.at, None, Lost(f"The record of step {step.seq} is damaged."))
            return
        events = list(self._reader.read_events(step))
        self._costs.add(step, self._reader.tool_ms)
        yield from events

    def _between(self, owner: str, seq: int, at: str) -> Iterator[Happened]:
        """Yield the trace records after step `seq`: ends and starts of runs, and model calls."""
        for happened in self._runs[owner].after(seq):
            self._costs.trace(happened)
            yield happened
