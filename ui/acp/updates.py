"""Converts the events of a run, and the history of a stored session, to updates of the protocol."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import (
    image_block,
    plan_entry,
    text_block,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    PlanEntryStatus,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)

from ...actions.ports.events import (
    Event,
    FlowMatched,
    MessageAdded,
    Notice,
    PlanChanged,
    PlanResumed,
    RunFinished,
    StepChanged,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolsChanged,
    ToolStarted,
)
from ...state.application import ApplicationState, StepStatus, VibeStep
from ...state.conversation.attachments import Image
from ...state.conversation.messages import Message, Text, Thinking, ToolResult, ToolUse
from ...state.store.call_moves import MadeCall
from ..terminal.lines import flow_line, tools_line
from ..terminal.text.sanitize import one_line, plain
from .tool_calls import FindTool, ToolCalls

Update = (
    UserMessageChunk | AgentMessageChunk | AgentThoughtChunk | ToolCallStart | ToolCallProgress
    | AgentPlanUpdate | AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate | SessionInfoUpdate
)  # fmt: skip

_PLAN_STATUS: dict[StepStatus, PlanEntryStatus] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "completed",
    "skipped": "completed",
    "abandoned": "completed",
}


class Updates:
    """Converts the events of one session to updates; remembers what the editor received."""

    def __init__(self, find: FindTool, cwd: str) -> None:
        self.calls = ToolCalls(find, Path(cwd))
        self.is_command = False
        """Whether a command is running, whose answer is a notice."""
        self._plan: tuple[VibeStep, ...] = ()
        self._streamed = False
        self._last_words = ""
        self._shows: dict[type, Callable[[Any], Iterable[Update]]] = {
            TextDelta: self._text,
            ThinkingDelta: self._thinking,
            MessageAdded: self._message,
            FlowMatched: lambda event: [_send_thought(plain(flow_line(event)))],
            ToolRequested: lambda event: [self.calls.of_request(event)],
            ToolStarted: lambda event: [self.calls.note_start(event.call_id)],
            ToolOutput: self._output,
            ToolFinished: lambda event: [self.calls.note_result(event)],
            ToolsChanged: lambda event: [_send_thought(tools_line(event))],
            PlanChanged: lambda event: self._send_plan(event.steps),
            PlanResumed: lambda event: self._send_plan(event.steps),
            StepChanged: self._step,
            Notice: self._notice,
            RunFinished: self._send_answer,
        }

    def of(self, event: Event) -> Iterable[Update]:
        shows = self._shows.get(type(event))
        return () if shows is None else shows(event)

    def notices(self, words: Iterable[str]) -> Iterator[Update]:
        """Yield the notices of the session's opening, which belong to no answer."""
        yield from (_send_thought(plain(text)) for text in words)

    def _text(self, event: TextDelta) -> Iterator[Update]:
        self._streamed = True
        yield update_agent_message_text(event.delta)

    def _thinking(self, event: ThinkingDelta) -> Iterator[Update]:
        yield update_agent_thought_text(event.delta)

    def _message(self, event: MessageAdded) -> Iterator[Update]:
        """Yield a blank line after a streamed message of a plan step; other messages are sent by other
        handlers.
        """
        if event.role == "assistant" and self._streamed:
            self._last_words, self._streamed = event.content, False
            if event.step_id is not None:
                yield update_agent_message_text("\n\n")

    def _output(self, event: ToolOutput) -> Iterator[Update]:
        if (update := self.calls.wrote(event.call_id, event.chunk)) is not None:
            yield update

    def _send_plan(self, steps: tuple[VibeStep, ...]) -> Iterator[Update]:
        self._plan = steps
        yield plan_update(steps)

    def _step(self, event: StepChanged) -> Iterator[Update]:
        self._plan = tuple(
            step.model_copy(update={"status": event.status}) if step.step_id == event.step_id else step
            for step in self._plan
        )
        yield plan_update(self._plan)

    def _notice(self, event: Notice) -> Iterator[Update]:
        words = plain(event.message)
        yield update_agent_message_text(words) if self.is_command else _send_thought(words)

    def _send_answer(self, event: RunFinished) -> Iterator[Update]:
        """Send an answer that was not streamed by a model, such as a tool's."""
        if event.status == "done" and event.result and event.result != self._last_words:
            yield update_agent_message_text(plain(event.result))
        self._last_words, self._streamed = "", False


def _send_thought(words: str) -> AgentThoughtChunk:
    return update_agent_thought_text(f"{words}\n")


def plan_update(steps: Iterable[VibeStep]) -> AgentPlanUpdate:
    def words(step: VibeStep) -> str:
        return f"{one_line(step.description)}{' (failed)' if step.status == 'failed' else ''}"

    return update_plan([plan_entry(words(step), status=_PLAN_STATUS[step.status]) for step in steps])


Nested = Mapping[str, Sequence[MadeCall]]
"""The calls that tools made while they ran, by the id of the call of the tool."""


def history_updates(state: ApplicationState, nested: Nested, calls: ToolCalls) -> Iterator[Update]:
    """Yield the whole history and the plan, with the steps' messages only for the open step."""
    history = list(state.chat_history)
    if history and not state.turn_open and history[-1].role == "assistant":
        # The final answer, from a model or a tool.
        history[-1] = history[-1].model_copy(update={"origin": "model"})
    yield from message_updates(history, nested, calls)
    if state.vibe_plan:
        yield plan_update(state.vibe_plan)
    if (step := state.active_step) is not None:
        yield from message_updates(list(step.chat_history), nested, calls)
    yield from calls.announce_earlier(state.pending_tool_calls)
    for call in state.pending_tool_calls:
        yield update_tool_call(call.call_id, status="pending")


def message_updates(messages: Sequence[Message], nested: Nested, calls: ToolCalls) -> Iterator[Update]:
    """Yield the messages that a person or an editor saw; the runtime's messages to the model are left out."""
    for message in messages:
        if message.role == "user":
            if message.origin == "person":
                yield from _send_text(message)
        else:
            for block in message.blocks:
                yield from _block(block, message, nested, calls)


def _send_text(message: Message) -> Iterator[Update]:
    for block in message.blocks:
        if isinstance(block, Image) and (content := block.read()) is not None:
            picture = image_block(base64.b64encode(content).decode(), block.media_type)
            yield update_user_message(picture)
        else:
            text = block.text if isinstance(block, Text) else getattr(block, "label", "")
            yield update_user_message(text_block(text))


def _block(block: object, message: Message, nested: Nested, calls: ToolCalls) -> Iterator[Update]:
    match block:
        case Text() if block.text and (message.role, message.origin) == ("assistant", "model"):
            yield update_agent_message_text(block.text)
        case Thinking() if block.text:
            yield update_agent_thought_text(block.text)
        case ToolUse():
            yield calls.note_request(block.call_id, block.tool, block.arguments)
            yield from calls.announce_made(nested.get(block.call_id, ()))
        case ToolResult():
            yield from calls.announce_made(nested.get(block.call_id, ()))
            yield calls.note_end(block.call_id, block.outcome, block.display_text)
        case _:
            return
