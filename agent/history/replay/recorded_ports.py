"""The ports of a replay: the model returns its recorded replies, and tools return their recorded results."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import field
from itertools import dropwhile, islice, takewhile
from pathlib import Path
from typing import Any, Literal, cast

from ....actions.ports import (
    FinishReason,
    Model,
    ModelEvent,
    ModelRequest,
    Reply,
    Tool,
    ToolContext,
    ToolOutcome,
    ToolSpec,
    ToolTraits,
)
from ....actions.ports.advice import CallAdvice, PromptAdvice
from ....actions.ports.message_router import RoutedMessage
from ....actions.ports.run_inputs import ValidateAnswer
from ....actions.turn.calls.tool_results import edit_note
from ....actions.turn.output.answer_check import parse_problem
from ....state.application import FlowMatch, InboxTaken
from ....state.calls import (
    ApprovalFingerprint,
    Effect,
    HookVerdict,
    PendingCall,
)
from ....state.conversation.approved_plan import ApprovedPlan
from ....state.conversation.messages import Message, ToolResult, ToolUse, UserContent
from ....state.conversation.transcript import Transcript
from ....state.errors import ContextFull, SandburError
from ....state.lazy_dataclass import dataclass
from ....state.session import WaitingMessage
from ....state.trace import ModelCalled, RequestShape, TraceRecord
from .replay_steps import Moment

DivergenceKind = Literal["state", "request", "route"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between a recorded run and today's program."""

    seq: int
    action: str
    kind: DivergenceKind
    """`state`: the state after the step differs. `request`: the model request does. `route`: the next action
    does."""
    summary: str
    """One sentence about the difference; untrusted text."""
    lines: tuple[str, ...] = ()
    """The differing values: a line with `-` is recorded, a line with `+` is of today's program; untrusted
    text."""


class DivergenceError(SandburError):
    """An action of today's program does something that the recorded run did not do."""

    code = "divergence"

    def __init__(self, kind: DivergenceKind, message: str) -> None:
        super().__init__(message)
        self.kind: DivergenceKind = kind


TEXT_KINDS = ("instructions", "skill")
"""The kinds of flows whose text the model reads with the message."""


@dataclass(slots=True)
class Stage:
    """The recorded step that is being replayed. Every port of a walk reads from it."""

    moment: Moment = field(init=False)
    asked: RequestShape | None = None
    """The shape of the requests that today's program sent to the model in this step; None if it sent none."""

    ran_concurrently: bool = False
    """Whether a call started in this step although the sub-agent of an earlier call waited."""

    def enter(self, moment: Moment) -> None:
        self.moment, self.asked = moment, None
        self.ran_concurrently = _has_run_concurrently(moment)

    def add(self, record: TraceRecord) -> None:
        """Handle a record of the walk's trace: keep the shape of a request, write nothing."""
        if isinstance(record, ModelCalled):
            self.asked = record.request

    async def flush(self) -> None: ...


def _has_run_concurrently(moment: Moment) -> bool:
    waiting = {call.parent_call_id for call in moment.after["pending_tool_calls"] if call.sub_agent}
    calls: Sequence[PendingCall] = moment.before["pending_tool_calls"] if waiting else ()
    after = dropwhile(lambda call: call.call_id not in waiting, calls)
    return any(call.call_id in moment.started for call in islice(after, 1, None))


class RecordedModel:
    """Answers a request with the reply that this step recorded, or passes the request on to a real model."""

    def __init__(self, stage: Stage, name: str, context_window: int, real: Model | None = None) -> None:
        self.name = name
        self.context_window = context_window
        self._stage = stage
        self._real = real

    async def aclose(self) -> None: ...

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        moment = self._stage.moment
        called = moment.called
        if called is None or self._stage.asked is not None:
            raise DivergenceError("request", "today's program asks the model where the recorded run did not")
        if called.error is not None:
            raise ContextFull(called.error.message)
        is_aside = called.reply is not None and moment.reply is None
        if self._real is not None and not is_aside:
            async for event in self._real.stream(request):
                yield event
            return
        message = called.reply or moment.reply
        if message is None or called.finish is None:
            raise DivergenceError("request", "the model's answer is not in the recording")
        yield Reply(message, cast(FinishReason, called.finish), called.usage, called.discarded)


class RecordedCounter:
    """Reports that a request fits into the context if the recorded run sent it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def count_tokens(self, request: ModelRequest) -> int:
        return sys.maxsize if self._stage.moment.called is None else 0


class RecordedTool:
    """A tool with the current declaration whose calls return their recorded results."""

    def __init__(self, tool: Tool, stage: Stage) -> None:
        self._tool = tool
        self._stage = stage

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    @property
    def traits(self) -> ToolTraits:
        return self._tool.traits

    @property
    def effect(self) -> Effect:
        return self._tool.effect

    def parse(self, arguments: str) -> Any:
        return self._tool.parse(arguments)

    def effect_of(self, arguments: Any) -> Effect:
        return self._tool.effect_of(arguments)

    def subject(self, arguments: Any) -> str:
        return self._tool.subject(arguments)

    def paths(self, arguments: Any) -> Sequence[str]:
        return self._tool.paths(arguments)

    def describe_changes(self, arguments: Any, earlier: ApprovedPlan) -> str:
        """Return what the recording says about the plan of this call; empty for a call without a plan."""
        return next((call.plan_changes for call in self._list_recorded(arguments) if call.plan_changes), "")

    def show_changes(self, arguments: Any) -> str:
        """Return what the recording says about the files of this call; empty for a call that shows them."""
        return next((call.changes for call in self._list_recorded(arguments) if call.changes), "")

    def _list_recorded(self, arguments: Any) -> Iterator[PendingCall]:
        """Yield the recorded calls of this tool with these arguments."""
        moment = self._stage.moment
        for call in (*moment.after["pending_tool_calls"], *moment.before["pending_tool_calls"]):
            if call.tool == self.spec.name and self.parse(call.arguments) == arguments:
                yield call

    def describe_stop(self, session_id: str, call_id: str) -> str:
        """Return the recorded text about an open call that was ended; empty for a call that was not."""
        moment = self._stage.moment
        result = moment.results.get(call_id)
        if result is None or result.outcome != "interrupted":
            return ""
        return _find_settled_text(result, moment.before["pending_tool_calls"])

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        moment = self._stage.moment
        result = moment.results.get(context.call_id)
        waiting = _list_waiting(context.call_id, moment.after["pending_tool_calls"])
        if result is None and waiting:
            return ToolOutcome("error", "", waits_for=waiting)
        if result is None:
            return ToolOutcome("error", "(the result of this call is not in the recording)")
        content = _find_settled_text(result, moment.before["pending_tool_calls"])
        return ToolOutcome(
            result.outcome,
            content,
            equips=result.equips,
            blocks=result.blocks,
            ends_run=result.ends_run,
            usage=result.usage,
            hand_off=result.hand_off,
            plan=result.plan,
            plan_change=result.plan_change,
            page=result.page,
        )


def _list_waiting(call_id: str, pending: Sequence[PendingCall]) -> tuple[PendingCall, ...]:
    """Return the nested calls for whose decision this call waits."""
    return tuple(call for call in pending if call.parent_call_id == call_id)


def _find_settled_text(result: ToolResult, pending: Sequence[PendingCall]) -> str:
    """Return the text that the tool returned, without the prefix that the runtime adds."""
    call = next((call for call in pending if call.call_id == result.call_id), None)
    return result.content if call is None else result.content.removeprefix(edit_note(call))


def make_recorded_check(stage: Stage) -> Callable[[Any], str]:
    """Return an output check that repeats the recorded verdict, regardless of the check that gave it."""

    def check(value: Any) -> str:
        before, after = stage.moment.before, stage.moment.after
        if after["rejected_answers"] <= before["rejected_answers"]:
            return ""
        return parse_problem(after["chat_history"].last)

    return check


def make_recorded_validation(moment: Moment) -> ValidateAnswer | None:
    """Return a validator that repeats a program's recorded verdict on an answer, or None if none was
    refused."""
    refused, before = moment.after["rejected_answers"], moment.before["rejected_answers"]
    if not before and refused <= before:
        return None
    problem = parse_problem(moment.after["chat_history"].last) if refused > before else ""

    async def validate(text: str, value: Any) -> str:
        return problem

    return validate


class RecordedWitness:
    """Returns the recorded fingerprints of approvals. The present content of the disk does not matter."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def fingerprint(
        self, call: PendingCall, tool: Tool, arguments: Any, cwd: Path
    ) -> ApprovalFingerprint | None:
        moment = self._stage.moment
        for values in (moment.after, moment.before):
            for recorded in values["pending_tool_calls"]:
                if recorded.call_id == call.call_id and recorded.binding is not None:
                    return recorded.binding
        return None


class RecordedInbox:
    """Returns each steering message in the step that recorded it."""

    last_number = sys.maxsize
    """The largest number, so that the inbox is read in every step."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def load_new_messages(self, taken: InboxTaken) -> Sequence[WaitingMessage]:
        return self._stage.moment.steering


class RecordedRouter:
    """Routes each message as it was routed then, whatever the flows of today are."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def route(self, text: str) -> RoutedMessage | None:
        moment = self._stage.moment
        match: FlowMatch | None = moment.after["flow"]
        if moment.flow is None or match is None:
            return None
        calls: Sequence[PendingCall] = moment.after["pending_tool_calls"]
        history: Transcript = moment.after["chat_history"]
        is_text = match.kind in TEXT_KINDS
        return RoutedMessage(
            match,
            arguments=calls[0].arguments if calls else "{}",
            text=history.last.text if is_text and history.last is not None else "",
            steps=tuple(step.description for step in moment.after["vibe_plan"]),
            goal=moment.after["current_goal"] or "",
        )


class RecordedSubAgents:
    """Starts sub-agents for steps of a plan where the recorded run started some. None of them runs."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def can_start(self, agent: str) -> bool:
        calls: Sequence[PendingCall] = self._stage.moment.after["pending_tool_calls"]
        return any(call.origin == "plan" for call in calls)

    async def run(self, task: object, context: ToolContext) -> ToolOutcome:
        raise AssertionError("a replay starts no sub-agent: calls have their recorded results")


class RecordedAdvice:
    """Returns the recorded answers of hooks. No hook runs."""

    stop_reason = ""
    comments_results = False

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def judges(self, reply: Message) -> bool:
        return False

    def give_up(self) -> None: ...

    async def rewrite_message(self, message: UserContent) -> UserContent:
        return message

    async def rewrite_answer(self, text: str) -> str:
        return text if self._stage.moment.reply is None else self._stage.moment.reply.text

    async def rewrite_observed(self, text: str) -> str:
        return text

    async def after_observed(self, text: str) -> None: ...

    async def on_prompt(self, text: str) -> PromptAdvice:
        moment = self._stage.moment
        if len(moment.after["chat_history"]) == len(moment.before["chat_history"]):
            return PromptAdvice(refusal="refused by a hook")
        return PromptAdvice(context=self._find_context(moment))

    async def before_call(self, use: ToolUse) -> CallAdvice:
        calls: Sequence[PendingCall] = self._stage.moment.after["pending_tool_calls"]
        call = next((call for call in calls if call.call_id == use.call_id), None)
        if call is None or call.hook is None:
            return CallAdvice()
        return CallAdvice(call.hook, call.arguments if call.hook.edited else None)

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        """Do nothing: the recorded call already has the answer."""

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        # The recorded result contains the comment already.
        return ""

    async def on_answer(self, text: str, is_second: bool) -> str:
        return self._next_comment().partition("\n")[2] if self._stage.moment.after["turn_open"] else ""

    async def before_compression(self) -> None: ...

    async def after_compression(self, summary: str) -> None: ...

    def _find_context(self, moment: Moment) -> str:
        """Return what a hook added to the message of the step; empty if it added nothing."""
        added = list(moment.after["chat_history"].part(len(moment.before["chat_history"])))
        behind = takewhile(lambda message: message.origin != "person", reversed(added))
        notes = [message.text for message in behind if message.origin == "runtime" and message.text][::-1]
        match: FlowMatch | None = moment.after["flow"]
        own = 1 if moment.flow is not None and match is not None and match.kind in TEXT_KINDS else 0
        return notes[0] if len(notes) > own else ""

    def _next_comment(self) -> str:
        """Return the runtime's next comment that the step recorded."""
        last: Message | None = self._stage.moment.after["chat_history"].last
        return last.text if last is not None and last.origin == "runtime" else ""
