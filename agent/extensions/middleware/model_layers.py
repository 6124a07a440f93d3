"""A model with middleware around it. Text streams to the person while the middleware waits for the reply."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace

from ....actions.ports import Discarded, Model, ModelEvent, ModelRequest, Reply
from ....actions.ports.events import Notice, TextDelta
from ....actions.turn.model_call import WrappedModel, require_reply
from ....state.errors import MiddlewareError
from ....state.lazy_dataclass import dataclass
from ....state.process.cancellation import wait_until_done
from .layer import Layer, name_of
from .lifecycle import Lifecycle
from .middleware import Middleware


class LayeredModel(WrappedModel):
    """A model whose calls pass through middleware."""

    def __init__(self, model: Model, layers: Sequence[Middleware], lifecycle: Lifecycle) -> None:
        """`layers` begin with the outermost one."""
        super().__init__(model)
        self._layers = layers
        self._lifecycle = lifecycle
        self._asked = _Asked(model.name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        layers = [each for each in self._layers if each.is_enabled]
        if not layers and not self._lifecycle.watches("before_reasoning", "after_reasoning"):
            async for event in self._model.stream(request):
                yield event
            return
        exchange = _Exchange(self._model, layers, self._lifecycle, self._asked)
        task = asyncio.ensure_future(exchange.run(request))
        task.add_done_callback(lambda _: exchange.put(None))
        try:
            while (event := await exchange.get()) is not None:
                yield event
        finally:
            task.cancel()
            await wait_until_done(task)
        if task.cancelled():
            raise MiddlewareError("A middleware cancelled the model call that it waits for.")
        failed = task.exception()
        for event in exchange.rest(None if failed is not None else task.result()):
            yield event
        if failed is not None:
            raise failed


@dataclass(slots=True)
class _Asked:
    """Keeps the model that was called last."""

    name: str


class _Exchange:
    """One model call on its way through the layers, to the model and back."""

    def __init__(
        self, model: Model, layers: Sequence[Middleware], lifecycle: Lifecycle, asked: _Asked
    ) -> None:
        self._model = model
        self._asked = asked
        self._layers = layers
        self._lifecycle = lifecycle
        self._events: deque[ModelEvent | None] = deque()
        self._arrived = asyncio.Event()
        self._emitted: list[str] = []
        """The pieces of the newest answer that were streamed to the person."""
        self._replies: list[Reply] = []
        self._was_asked = self._is_asking = False

    def put(self, event: ModelEvent | None) -> None:
        """Add an event to the stream; None marks its end."""
        self._events.append(event)
        self._arrived.set()

    async def get(self) -> ModelEvent | None:
        while not self._events:
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()

    async def run(self, request: ModelRequest) -> Reply:
        with self._lifecycle.in_session():
            self._notify_failures(await self._lifecycle.tell("before_reasoning", request))
            reply = await self._call_layer(0, request)
            self._notify_failures(await self._lifecycle.tell("after_reasoning", reply))
            return reply

    def _notify_failures(self, problems: Iterable[str]) -> None:
        for problem in problems:
            self.put(Notice(problem))

    def rest(self, reply: Reply | None) -> Iterator[ModelEvent]:
        """Yield the events after the last delta, including the usage of replies that no layer returned."""
        counted = next((one for one in self._replies if reply is not None and one.usage == reply.usage), None)
        for one in self._replies:
            if one is not counted:
                yield Discarded((one.usage + one.discarded).model_copy(update={"llm_calls": 0}))
        if reply is None:
            return
        if self._replies and counted is None:
            reply = replace(reply, usage=reply.usage.model_copy(update={"llm_calls": 1}))
        is_own = all(one.message is not reply.message for one in self._replies[-1:])
        if is_own and (text := reply.message.text) != "".join(self._emitted):
            yield from self._void()
            yield TextDelta(text)
        yield reply

    async def _call_layer(self, index: int, request: ModelRequest) -> Reply:
        if index == len(self._layers):
            return await self._ask(request)
        middleware = self._layers[index]

        async def inner(layer: Layer[ModelRequest, Reply], given: ModelRequest) -> Reply:
            if layer.times > 1 and self._was_asked:
                for notice in self._void():
                    self.put(notice)
                self.put(Notice(f"The middleware {name_of(middleware)} asks the model again.", "retry"))
            return await self._call_layer(index + 1, given)

        reply = await Layer(middleware, middleware.wrap_model_call, inner, Reply).run(request)
        if (reply.message.role, reply.message.origin) != ("assistant", "model"):
            raise MiddlewareError(
                f"The middleware {name_of(middleware)} returned a reply that is not a message of a model.",
                "Make one with Middleware.reply(TEXT).",
            )
        return reply

    def _void(self) -> Iterator[Notice]:
        """Yield a notice that withdraws the displayed text, if there is any."""
        if self._emitted:
            yield Notice("The partial answer above is discarded.", "discarded")
        self._emitted = []

    async def _ask(self, request: ModelRequest) -> Reply:
        if self._is_asking:
            raise MiddlewareError(
                "A middleware asks the model twice at once.", "Let it await one `next` before the other."
            )
        self._is_asking = self._was_asked = True
        model = request.model or self._model
        if model.name not in (self._asked.name, self._model.name):
            self.put(Notice(f"Asking {model.name} in place of {self._model.name}."))
        self._asked.name = model.name
        try:
            return await self._answer(model.name, model.stream(request))
        finally:
            self._is_asking = False

    async def _answer(self, model: str, events: AsyncIterator[ModelEvent]) -> Reply:
        reply: Reply | None = None
        async for event in events:
            if isinstance(event, Reply):
                reply = event
                continue
            if isinstance(event, TextDelta):
                self._emitted.append(event.delta)
            elif isinstance(event, Notice) and event.kind == "discarded":
                self._emitted = []
            self.put(event)
        self._replies.append(answer := require_reply(reply, model))
        return answer
