"""Lets middleware rewrite the messages, calls and answers that a session records, before the user's hooks."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from ....actions.ports import ToolOutcome
from ....actions.ports.advice import Advice, CallAdvice, PromptAdvice
from ....state.calls import HookVerdict, PendingCall
from ....state.conversation.messages import Message, ToolUse, UserContent, parse_json_object
from ....state.errors import MiddlewareError, SandburError
from .layer import await_if_needed, failure, name_of
from .lifecycle import Lifecycle, is_overridden
from .middleware import Middleware, ProposedCall

ValueT = TypeVar("ValueT")
REWRITES = (
    "rewrite_message", "add_context", "rewrite_call", "rewrite_answer", "rewrite_observed", "after_observed",
)  # fmt: skip
"""The methods of middleware that `RewritingAdvice` calls."""
_NO_CALL_ADVICE = CallAdvice()


async def rewrite(
    layers: Sequence[Middleware], method: str, value: ValueT, kind: type[Any], lifecycle: Lifecycle
) -> ValueT:
    """Return the value after each layer rewrote it, in the order of `layers`; raises `SandburError`.

    `kind` is the type that each layer has to return.
    """
    with lifecycle.in_session():
        for each in layers:
            value = await _rewrite_once(each, method, value, kind)
    return value


async def _rewrite_once(layer: Middleware, method: str, value: ValueT, kind: type[Any]) -> ValueT:
    try:
        changed = await await_if_needed(getattr(layer, method)(value))
    except Exception as error:  # the middleware is code of a person
        if isinstance(error, SandburError):
            raise
        raise failure(layer, method, error) from error
    if not isinstance(changed, kind):
        raise MiddlewareError(
            f"The middleware {name_of(layer)} returned {type(changed).__name__} from {method},"
            f" not a {kind.__name__}.",
            "It has to return the value that it was given, or a changed one.",
        )
    return cast(ValueT, changed)


class RewritingAdvice:
    """Calls the rewriting middleware first and the user's own hooks second. It implements
    `actions.ports.advice.Advice`."""

    def __init__(self, inner: Advice | None, layers: Sequence[Middleware], lifecycle: Lifecycle) -> None:
        """`layers` begin with the outermost one."""
        self._inner = inner
        self._lifecycle = lifecycle
        self._layers = {
            method: [each for each in layers if is_overridden(each, method)] for method in REWRITES
        }

    @property
    def stop_reason(self) -> str:
        return "" if self._inner is None else self._inner.stop_reason

    @property
    def comments_results(self) -> bool:
        return self._inner is not None and self._inner.comments_results

    def judges(self, reply: Message) -> bool:
        rewrites = bool(reply.tool_uses and self._list_enabled("rewrite_call"))
        return rewrites or (self._inner is not None and self._inner.judges(reply))

    def give_up(self) -> None:
        if self._inner is not None:
            self._inner.give_up()

    async def rewrite_message(self, message: UserContent) -> UserContent:
        layers = self._list_enabled("rewrite_message")
        return await rewrite(layers, "rewrite_message", message, Sequence, self._lifecycle)

    async def rewrite_answer(self, text: str) -> str:
        # An answer passes the layers from the inside out: the outermost one is last.
        layers = self._list_enabled("rewrite_answer")[::-1]
        return await rewrite(layers, "rewrite_answer", text, str, self._lifecycle)

    async def rewrite_observed(self, text: str) -> str:
        layers = self._list_enabled("rewrite_observed")
        return await rewrite(layers, "rewrite_observed", text, str, self._lifecycle)

    async def after_observed(self, text: str) -> None:
        for problem in await self._lifecycle.tell("after_observed", text):
            self._lifecycle.session.notify(problem)

    async def on_prompt(self, text: str) -> PromptAdvice:
        advice = PromptAdvice() if self._inner is None else await self._inner.on_prompt(text)
        layers = self._list_enabled("add_context")
        if advice.refusal or not layers:
            return advice
        with self._lifecycle.in_session():
            added = [await _rewrite_once(each, "add_context", text, str) for each in layers]
        return PromptAdvice(context="\n".join(filter(None, (advice.context, *added))))

    async def before_call(self, use: ToolUse) -> CallAdvice:
        """Rewrite the arguments, then ask the user's hooks about the rewritten call."""
        try:
            changed = await self._rewrite_call(use)
        except SandburError as error:
            return CallAdvice(HookVerdict(decision="deny", reason=error.message))
        if changed is not None:
            use = use.model_copy(update={"arguments": changed, "masked": False})
        advice = _NO_CALL_ADVICE if self._inner is None else await self._inner.before_call(use)
        if changed is None or advice.arguments is not None:
            return advice
        verdict = (advice.verdict or HookVerdict()).model_copy(update={"edited": True})
        return CallAdvice(verdict, changed)

    async def on_question(self, call: PendingCall) -> HookVerdict | None:
        return None if self._inner is None else await self._inner.on_question(call)

    async def after_call(self, call: PendingCall, outcome: ToolOutcome, duration_ms: int) -> str:
        return "" if self._inner is None else await self._inner.after_call(call, outcome, duration_ms)

    async def on_answer(self, text: str, is_second: bool) -> str:
        return "" if self._inner is None else await self._inner.on_answer(text, is_second)

    async def before_compression(self) -> None:
        if self._inner is not None:
            await self._inner.before_compression()

    async def after_compression(self, summary: str) -> None:
        if self._inner is not None:
            await self._inner.after_compression(summary)

    async def _rewrite_call(self, use: ToolUse) -> str | None:
        """Return the JSON text of the rewritten arguments, or None if they stay. Raises `SandburError`."""
        layers, arguments = self._list_enabled("rewrite_call"), parse_json_object(use.arguments)
        if not layers or arguments is None:
            return None
        given = ProposedCall(use.tool, use.call_id, arguments)
        call = await rewrite(layers, "rewrite_call", given, ProposedCall, self._lifecycle)
        if (call.name, call.call_id) != (use.tool, use.call_id):
            raise MiddlewareError(
                f"A middleware returned another call than {use.tool}: only arguments may change."
            )
        try:
            changed = json.dumps(dict(call.arguments), ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise MiddlewareError(
                f"A middleware gave {use.tool} arguments that are not JSON: {error}."
            ) from None
        # The arguments are parsed again, because a middleware may have changed the given object in place.
        return None if parse_json_object(changed) == parse_json_object(use.arguments) else changed

    def _list_enabled(self, method: str) -> list[Middleware]:
        return [each for each in self._layers[method] if each.is_enabled]
