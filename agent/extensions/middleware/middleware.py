"""The class `Middleware`: a program derives from it to wrap model and tool calls and to watch a session."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ....actions.ports import ModelRequest, Reply, RunInputs, Tool, ToolContext, ToolOutcome
from ....actions.ports.events import Event, RunFinished, ToolFinished
from ....actions.tools.functions.run_context import RunContext, context_of_run
from ....state.application import Usage
from ....state.calls import Effect, parent_call_id_of
from ....state.conversation.messages import Outcome, UserContent, assistant_message, parse_json_object
from ....state.lazy_dataclass import dataclass

SYSTEM, FEATURE, PERSON = 0, 100, 500
"""The lowest priority number of the system's, of features' and of a person's own middleware."""


class ToolCallRequest:
    """A tool call that was approved and whose start is on disk. Exactly the approved call runs."""

    __slots__ = ("_arguments", "_context", "_tool")

    def __init__(self, tool: Tool, arguments: Any, context: ToolContext) -> None:
        self._tool = tool
        self._arguments = arguments
        self._context = context

    @property
    def name(self) -> str:
        """Return the name of the tool."""
        return self._tool.spec.name

    @property
    def call_id(self) -> str:
        return self._context.call_id

    @property
    def parent_call_id(self) -> str:
        """Return the id of the call whose tool makes this call; empty if the model made it."""
        return parent_call_id_of(self.call_id)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return a copy of the approved arguments without secrets; changing it does not change the call."""
        return MappingProxyType(parse_json_object(self._context.written) or {})

    @property
    def effect(self) -> Effect:
        """Return the effect class of this call: what a second run of it would mean."""
        return self._tool.effect_of(self._arguments)

    @property
    def context(self) -> ToolContext:
        return self._context

    async def run(self) -> ToolOutcome:
        """Run the tool itself. Only the innermost layer calls this."""
        return await self._tool.run(self._arguments, self._context)


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that the model proposed, before the gate judges it."""

    name: str
    """The name of the tool."""
    call_id: str
    arguments: Mapping[str, Any]
    """The arguments with masked secrets. Change them with `dataclasses.replace`."""


NextModelCall = Callable[[ModelRequest], Awaitable[Reply]]
"""Calls the inner layers and finally the model, and displays the streamed text meanwhile. A middleware may
call it repeatedly."""
NextToolCall = Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
"""Passes the same call on to the inner layers. A second time is allowed only if the effect class of the call
is `read` or `idempotent`."""


def _discard(text: str) -> None:
    pass


@dataclass(slots=True)
class MiddlewareSession:
    """The session in which a middleware works at the moment."""

    id: str
    model: str
    cwd: Path
    notify: Callable[[str], None] = field(default=_discard)
    """Displays a notice to the person."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    """The environment variables that the session uses in place of those of the process."""
    inputs: RunInputs = field(default_factory=RunInputs, repr=False)
    """The inputs that the program passed to the current run."""

    @property
    def run(self) -> RunContext[Any]:
        """Return the current run, with the `deps` that the program passed to it."""
        return context_of_run(self.id, self.cwd, self.inputs.deps)


current_session: ContextVar[MiddlewareSession] = ContextVar("sandbur_middleware_session")


class Middleware:
    """Wraps the model calls and tool calls of sessions; override the methods that you need, sync or async.

    One object may serve many sessions concurrently: keep data about one of them under `self.session.id`.
    Journal, gate and masking are outside of middleware: a call is approved and recorded before middleware
    sees it, and its result is masked and recorded afterwards. Middleware does not run in a replay, because
    its effects are part of the record.
    """

    priority: int = PERSON
    """Middleware with a lower number is further out: 0 to 99 is for the system, 100 to 499 for features, 500
    and above for a person's own middleware."""
    name: str = ""
    """The name in messages. If it is empty, the name of the class is used."""
    tools: Sequence[Tool] = ()
    """The tools that the middleware adds for the model."""

    @property
    def is_enabled(self) -> bool:
        """Return whether the middleware is active now. This is called before each call that it may wrap or
        rewrite."""
        return True

    @property
    def session(self) -> MiddlewareSession:
        """Return the current session; raises `LookupError` outside of a session."""
        return current_session.get()

    def wrap_model_call(self, request: ModelRequest, next: NextModelCall) -> Awaitable[Reply] | Reply:
        """Wrap a model call and return the reply to use.

        `await next(request)` returns the reply after its whole text was displayed. The request may be changed
        (`dataclasses.replace`), including its `model`. If `next` is not called, no model is called;
        `Middleware.reply` creates an answer. A reply that is not returned still counts in usage and cost.
        """
        return next(request)

    def wrap_tool_call(
        self, call: ToolCallRequest, next: NextToolCall
    ) -> Awaitable[ToolOutcome] | ToolOutcome:
        """Wrap a tool call and return the outcome to use.

        If `next` is not called, the tool does not run; `Middleware.outcome` creates an outcome
        for the model to read. File changes of a call are recorded in every case.
        """
        return next(call)

    def rewrite_message(self, message: UserContent) -> Awaitable[UserContent] | UserContent:
        """Return the person's message in the form that begins the run and is recorded.

        This method and the other `rewrite_` methods run once for each value: the changed value is recorded,
        and a resume or a replay reads the record. If such a method fails, the run fails; a resume continues
        it.
        """
        return message

    def add_context(self, message: str) -> Awaitable[str] | str:
        """Return background for the model about the person's message, or an empty text.

        It follows the message in the history, and front ends do not display it. Like the `rewrite_` methods,
        this runs once for each message, and the result is recorded.
        """
        return ""

    def rewrite_call(self, call: ProposedCall) -> Awaitable[ProposedCall] | ProposedCall:
        """Return the call that the model proposed, with the arguments to run it with.

        The gate judges these arguments in place of the model's, a person approves them, and the call runs
        with exactly them. If this method fails, the call is denied with the error as the reason.
        """
        return call

    def rewrite_answer(self, text: str) -> Awaitable[str] | str:
        """Return the text of an answer in the form that is recorded, before its format is checked.

        The answer of a tool that ends the run is the tool's result: see `wrap_tool_call`.
        """
        return text

    def rewrite_observed(self, text: str) -> Awaitable[str] | str:
        """Return an observed message in the form that is stored."""
        return text

    def after_observed(self, text: str) -> Awaitable[None] | None:
        """Handle an observed message after it was stored. The return value is ignored."""

    def rewrite_event(self, event: Event) -> Awaitable[Event] | Event:
        """Return an event of the same type to display in place of this one. The record keeps this one.

        The result of a run cannot be changed. If this fails, the person is notified and this event displayed.
        """
        return event

    def on_start(self, session: MiddlewareSession) -> Awaitable[None] | None:
        """Handle the opening of a session. An exception keeps the session from opening."""

    def on_stop(self, session: MiddlewareSession) -> Awaitable[None] | None:
        """Handle the closing of a session. This is called once for every `on_start` that returned."""

    def before_reply(self, text: str | None) -> Awaitable[None] | None:
        """Handle the beginning of a run. `text` is the person's message, or None if the run continues without
        one.

        This method and those below only observe: their return value is ignored. If one fails, the person is
        notified and the run goes on.
        """

    def after_reply(self, result: RunFinished) -> Awaitable[None] | None:
        """Handle the end of a run."""

    def before_reasoning(self, request: ModelRequest) -> Awaitable[None] | None:
        """Handle a request that is about to be sent, in its form before every `wrap_model_call`."""

    def after_reasoning(self, reply: Reply) -> Awaitable[None] | None:
        """Handle a reply of the model, in its form after every `wrap_model_call`."""

    def before_acting(self, call: ToolCallRequest) -> Awaitable[None] | None:
        """Handle a tool call that is about to run. Its start is on disk."""

    def after_acting(self, call: ToolCallRequest, outcome: ToolOutcome) -> Awaitable[None] | None:
        """Handle an outcome, in its form after every `wrap_tool_call`. This is not called if the tool raised
        an exception."""

    def before_observing(self, call: ToolCallRequest, outcome: ToolOutcome) -> Awaitable[None] | None:
        """Handle an outcome that is about to be masked, and recorded for the model to read."""

    def after_observing(self, result: ToolFinished) -> Awaitable[None] | None:
        """Handle a result that was added to the history, of a call that ran or was refused, as the model
        reads it."""

    def before_printing(self, event: Event) -> Awaitable[None] | None:
        """Handle an event that is about to be displayed."""

    def after_printing(self, event: Event) -> Awaitable[None] | None:
        """Handle an event after it was displayed."""

    @staticmethod
    def reply(text: str) -> Reply:
        """Create a reply that comes from no model and costs nothing."""
        return Reply(assistant_message(text), "stop", Usage(cost_usd=0.0))

    @staticmethod
    def outcome(text: str, outcome: Outcome = "ok") -> ToolOutcome:
        """Create the outcome of a call for the model to read."""
        return ToolOutcome(outcome, text)
