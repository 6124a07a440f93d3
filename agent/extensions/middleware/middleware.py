"""The class that a person derives from to go around model calls and tool calls, and to watch a session."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ....actions.ports import ModelRequest, Reply, Tool, ToolContext, ToolOutcome
from ....actions.ports.events import Event, RunFinished, ToolFinished
from ....state.application import Usage
from ....state.calls import Effect
from ....state.conversation.messages import Outcome, assistant_message, parse_json_object

SYSTEM, FEATURE, PERSON = 0, 100, 500
"""Where the priorities of the system, of features and of a person's own middleware begin."""


class ToolCallRequest:
    """A call of a tool that was judged, and whose start is on disk. What runs is what was approved."""

    __slots__ = ("_arguments", "_context", "_tool")

    def __init__(self, tool: Tool, arguments: Any, context: ToolContext) -> None:
        self._tool = tool
        self._arguments = arguments
        self._context = context

    @property
    def name(self) -> str:
        """The tool's."""
        return self._tool.spec.name

    @property
    def call_id(self) -> str:
        return self._context.call_id

    @property
    def arguments(self) -> Mapping[str, Any]:
        """A copy of what was approved, without its secrets; a change of it changes nothing of the call."""
        return MappingProxyType(parse_json_object(self._context.written) or {})

    @property
    def effect(self) -> Effect:
        """What running this very call twice would mean."""
        return self._tool.effect_of(self._arguments)

    @property
    def context(self) -> ToolContext:
        return self._context

    async def run(self) -> ToolOutcome:
        """Run the tool itself; only the innermost layer does."""
        return await self._tool.run(self._arguments, self._context)


NextModelCall = Callable[[ModelRequest], Awaitable[Reply]]
"""Asks whoever is further in, in the end the model; what streams in is shown meanwhile. May be repeated."""
NextToolCall = Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
"""Passes the very call on; a second time only where its effect is `read` or `idempotent`."""


def _unheard(text: str) -> None:
    pass


@dataclass(slots=True)
class MiddlewareSession:
    """The session that a middleware works in just now."""

    id: str
    model: str
    cwd: Path
    notify: Callable[[str], None] = field(default=_unheard)
    """Tells the person something, as a notice."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """What the session reads instead of the environment of the process."""


current_session: ContextVar[MiddlewareSession] = ContextVar("sandbur_middleware_session")


class Middleware:
    """Goes around the model calls and tool calls of sessions; override what you need, sync or async.

    One object may serve many sessions at once: what it remembers of one belongs under `self.session.id`.
    Journal, gate and masking are outside of it: a call that it sees has been judged and recorded, and what
    it gives back is masked and recorded. In a replay it does not run, since what came of it is in the record.
    """

    priority: int = PERSON
    """Lower is further out: 0 to 99 for the system, 100 to 499 for features, from 500 on the person's own."""
    name: str = ""
    """How people know it; empty: the name of its class."""
    tools: Sequence[Tool] = ()
    """What it brings along for the model to use."""

    @property
    def session(self) -> MiddlewareSession:
        """The session whose call, event, start or stop this is; `LookupError` outside of all of them."""
        return current_session.get()

    def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Awaitable[Reply] | Reply:
        """Go around a model call, and return the reply that counts.

        `await next(request)` gives the reply, after all of it was shown. The request may be another one
        (`dataclasses.replace`), also for another `model`. Without `next` no model is asked, and
        `Middleware.reply` makes an answer. What a reply cost that is not returned is counted all the same.
        """
        return next(request)

    def wrap_tool_call(
        self, call: ToolCallRequest, next: NextToolCall
    ) -> Awaitable[ToolOutcome] | ToolOutcome:
        """Go around a tool call, and return the outcome that counts.

        Without `next` the tool does not run: `Middleware.outcome` makes what the model reads instead. What a
        call did to files is recorded whatever is returned.
        """
        return next(call)

    def on_start(self, session: MiddlewareSession) -> Awaitable[None] | None:
        """A session opens; an exception keeps it from opening."""

    def on_stop(self, session: MiddlewareSession) -> Awaitable[None] | None:
        """A session closes; called once for every `on_start` that returned, whatever happened."""

    def before_reply(self, text: str | None) -> Awaitable[None] | None:
        """A run begins, with the person's message, or None where it goes on without one.

        This and what follows only watches: what it returns is ignored, and where it fails the person is told
        and the run goes on.
        """

    def after_reply(self, result: RunFinished) -> Awaitable[None] | None:
        """A run ended."""

    def before_reasoning(self, request: ModelRequest) -> Awaitable[None] | None:
        """The model is about to be asked; the request is as it is before every `wrap_model_call`."""

    def after_reasoning(self, reply: Reply) -> Awaitable[None] | None:
        """The model has answered; the reply is as it is after every `wrap_model_call`."""

    def before_acting(self, call: ToolCallRequest) -> Awaitable[None] | None:
        """A tool is about to run; its start is on disk."""

    def after_acting(self, call: ToolCallRequest, outcome: ToolOutcome) -> Awaitable[None] | None:
        """A tool has run; the outcome is as it is after every `wrap_tool_call`. Not called if it raised."""

    def before_observing(self, call: ToolCallRequest, outcome: ToolOutcome) -> Awaitable[None] | None:
        """An outcome is about to be masked, and recorded for the model to read."""

    def after_observing(self, result: ToolFinished) -> Awaitable[None] | None:
        """A result was taken in, of a call that ran or that was refused: what the model will read."""

    def before_printing(self, event: Event) -> Awaitable[None] | None:
        """An event is about to be given to whoever shows the run."""

    def after_printing(self, event: Event) -> Awaitable[None] | None:
        """An event was shown."""

    @staticmethod
    def reply(text: str) -> Reply:
        """Make an answer in words that no model gave, and that cost nothing."""
        return Reply(assistant_message(text), "stop", Usage(cost_usd=0.0))

    @staticmethod
    def outcome(text: str, outcome: Outcome = "ok") -> ToolOutcome:
        """Make what the model reads of a call."""
        return ToolOutcome(outcome, text)
