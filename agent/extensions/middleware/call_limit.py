"""Middleware that limits how often one run asks the model or uses a tool."""

from collections import Counter
from collections.abc import Mapping

from ....actions.ports import ModelRequest, Reply, ToolOutcome
from ....actions.workspace.paths import format_count
from ....state.errors import TurnLimit
from .middleware import FEATURE, Middleware, MiddlewareSession, NextModelCall, NextToolCall, ToolCallRequest

_MODEL = ""
"""The key of a `Counter` for model calls. Tool calls are counted under the names of their tools."""


class CallLimit(Middleware):
    """Limits the number of model calls and tool calls in each run of a session."""

    priority = FEATURE

    def __init__(
        self,
        model_calls: int | None = None,
        tool_calls: int | None = None,
        per_tool: Mapping[str, int] | None = None,
    ) -> None:
        """Set the limits of one run; None sets no limit of that kind. `per_tool` maps the name of a tool to
        its limit.

        Too many model calls end the run (exit code 53); a resume continues it with a new count. Too many tool
        calls are reported to the model, which can go on without them.
        """
        self._model_calls = model_calls
        self._tool_calls = tool_calls
        self._per_tool = dict(per_tool or {})
        self._counts: dict[str, Counter[str]] = {}
        """Session id -> the number of calls in the current run, by the name of the tool."""

    def on_stop(self, session: MiddlewareSession) -> None:
        self._counts.pop(session.id, None)

    def before_reply(self, text: str | None) -> None:
        self._counts[self.session.id] = Counter()

    async def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Reply:
        if self._model_calls is not None and self._count_call(_MODEL) > self._model_calls:
            raise TurnLimit(
                f"The limit of {self._model_calls} model calls in one run is reached.",
                "Resume to go on; the count starts again at 0.",
            )
        return await next(request)

    async def wrap_tool_call(self, call: ToolCallRequest, next: NextToolCall) -> ToolOutcome:
        used = self._count_call(call.name)
        every = sum(count for name, count in self._counts[self.session.id].items() if name != _MODEL)
        if self._tool_calls is not None and every > self._tool_calls:
            return self._make_refusal(f"{format_count(self._tool_calls, 'tool call')}")
        if (most := self._per_tool.get(call.name)) is not None and used > most:
            return self._make_refusal(f"{format_count(most, 'call')} of {call.name}")
        return await next(call)

    def _count_call(self, name: str) -> int:
        counts = self._counts.setdefault(self.session.id, Counter())
        counts[name] += 1
        return counts[name]

    def _make_refusal(self, limit: str) -> ToolOutcome:
        return self.outcome(f"Not run: the limit of {limit} in one run is reached. Do without.", "error")
