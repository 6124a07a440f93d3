"""Runs a tool call inside middleware: only the approved call runs, and its effects are always recorded."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....actions.ports import NO_FILE_CHANGES, FileChanges, Tool, ToolContext, ToolOutcome
from ....state.errors import MiddlewareError
from .layer import Layer, name_of
from .lifecycle import Lifecycle, LifecycleMoment
from .middleware import Middleware, ToolCallRequest

_SAFE_TWICE = ("read", "idempotent")


class LayeredTools:
    """Wraps every tool call in middleware. It implements `actions.ports.WrapToolCall`."""

    def __init__(self, layers: Sequence[Middleware], lifecycle: Lifecycle) -> None:
        """`layers` begin with the outermost one."""
        self._layers = layers
        self._lifecycle = lifecycle

    async def __call__(self, tool: Tool, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Return the outcome of the call; raises the exceptions of the tool."""
        call = ToolCallRequest(tool, arguments, context)
        with self._lifecycle.in_session():
            await self._tell("before_acting", call)
            layers = [each for each in self._layers if each.is_enabled]
            outcome = await _Passage(call, layers, self._lifecycle).outcome()
            await self._tell("after_acting", call, outcome)
            await self._tell("before_observing", call, outcome)
            return outcome

    async def _tell(self, moment: LifecycleMoment, *args: Any) -> None:
        for problem in await self._lifecycle.tell(moment, *args):
            self._lifecycle.session.notify(problem)


class _Passage:
    """One tool call on its way through the layers, to the tool and back."""

    def __init__(self, call: ToolCallRequest, layers: Sequence[Middleware], lifecycle: Lifecycle) -> None:
        self._call = call
        self._layers = layers
        self._lifecycle = lifecycle
        self._runs = 0
        self._last: ToolOutcome | None = None
        """The last outcome that the tool itself returned."""
        self._changed = NO_FILE_CHANGES
        """The file changes of all runs of the tool in this call."""
        self._repeating = ""
        """The name of the middleware that passed the call on a second time."""

    async def outcome(self) -> ToolOutcome:
        try:
            found = await self._call_layer(0, self._call)
        except MiddlewareError as error:
            found = self._make_error(error.message)
        if found is self._last and self._runs == 1:
            return found
        # File changes and file reads are facts. They are recorded even if the middleware returns another
        # outcome.
        seen = found.seen if found.seen is not None or self._last is None else self._last.seen
        return replace(found, changed=self._changed if self._runs else found.changed, seen=seen)

    async def _call_layer(self, index: int, call: ToolCallRequest) -> ToolOutcome:
        if index == len(self._layers):
            return await self._run()
        middleware = self._layers[index]

        async def inner(layer: Layer[ToolCallRequest, ToolOutcome], given: ToolCallRequest) -> ToolOutcome:
            if given is not call:
                raise MiddlewareError(
                    f"The middleware {name_of(middleware)} passed on another call than the one that it was"
                    " given: only the approved call may run."
                )
            if layer.times > 1:
                self._repeating = name_of(middleware)
            return await self._call_layer(index + 1, call)

        return await Layer(middleware, middleware.wrap_tool_call, inner, ToolOutcome).run(call)

    async def _run(self) -> ToolOutcome:
        if self._runs:
            self._refuse_repetition()
        self._runs += 1
        try:
            self._last = await self._call.run()
        except asyncio.CancelledError as cancelled:
            self._note(
                next(
                    (detail for detail in cancelled.args if isinstance(detail, FileChanges)), NO_FILE_CHANGES
                )
            )
            raise
        self._note(self._last.changed)
        return self._last

    def _refuse_repetition(self) -> None:
        call, who = self._call, self._repeating
        if call.effect not in _SAFE_TWICE:
            raise MiddlewareError(
                f"The middleware {who} would run {call.name} twice for one call, but a second run"
                " is not harmless."
            )
        self._lifecycle.session.notify(f"The middleware {who} runs {call.name} again ({call.call_id}).")

    def _note(self, changed: FileChanges) -> None:
        if changed is not NO_FILE_CHANGES:
            images = {**changed.pre_images, **self._changed.pre_images}
            self._changed = FileChanges((*self._changed.changes, *changed.changes), images)

    def _make_error(self, problem: str) -> ToolOutcome:
        """Return an error outcome that keeps the recorded effects of the tool."""
        if self._last is not None:
            return replace(self._last, content=f"{self._last.content}\n({problem})")
        if self._runs:
            return ToolOutcome("error", f"{problem} The call may have taken effect.")
        return ToolOutcome("error", f"{problem} The call did not run.")
