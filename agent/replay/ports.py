"""The ports of a recorded run: a model that says again what it said, tools that give back what they gave."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from actions.model_port import FinishReason, Model, ModelEvent, ModelRequest, Reply, ToolSpec
from actions.ports import Tool, ToolContext, ToolOutcome
from agent.replay.departure import Departed
from agent.replay.recording import Moment
from state.calls import Effect, PendingCall
from state.errors import ContextFull
from state.messages import ToolResult
from state.trace import ModelCalled, RequestShape, TraceRecord


@dataclass(slots=True)
class Stage:
    """What is played now: every port of a walk looks here."""

    moment: Moment | None = None
    asked: RequestShape | None = None
    """What today's program asked the model."""

    def enter(self, moment: Moment) -> None:
        self.moment, self.asked = moment, None

    def add(self, record: TraceRecord) -> None:
        """Be the trace of the walk: keep the request, write nothing."""
        if isinstance(record, ModelCalled):
            self.asked = record.request


class RecordedModel:
    """Answers each request with the reply that was recorded in this step, or passes it on to a real model."""

    def __init__(self, stage: Stage, name: str, context_window: int, real: Model | None = None) -> None:
        self.name = name
        self.context_window = context_window
        self._stage = stage
        self._real = real

    async def aclose(self) -> None: ...

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        moment = self._stage.moment
        called = moment.called if moment is not None else None
        if moment is None or called is None or self._stage.asked is not None:
            raise Departed("request", "today's program asks the model where the recorded run did not")
        if called.error is not None:
            raise ContextFull(called.error.message)
        if self._real is not None and called.reply is None:
            async for event in self._real.stream(request):
                yield event
            return
        message = called.reply or moment.reply
        if message is None or called.finish is None:
            raise Departed("request", "what the model answered is not in the recording")
        yield Reply(message, cast(FinishReason, called.finish), called.usage)


class RecordedTool:
    """Is what today's tool says it is; a call of it comes to what was recorded."""

    def __init__(self, tool: Tool, stage: Stage) -> None:
        self._tool = tool
        self._stage = stage

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

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

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        moment = self._stage.moment
        result = moment.results.get(context.call_id) if moment is not None else None
        if moment is None or result is None:
            return ToolOutcome("error", "(what this call came to is not in the recording)")
        return ToolOutcome(result.outcome, _given(result, moment.before["pending_tool_calls"]))


def _given(result: ToolResult, pending: Sequence[PendingCall]) -> str:
    """Return what the tool gave back, without what the runtime puts in front of it."""
    call = next((call for call in pending if call.call_id == result.call_id), None)
    if call is None or not call.edited:
        return result.content
    return result.content.removeprefix(f"(the user edited this call: {call.arguments})\n")
