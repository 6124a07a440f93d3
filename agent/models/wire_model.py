"""A language model behind a wire format: one call is one streamed request, tried again where that helps."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actions.events import Notice
from actions.model_port import ModelEvent, ModelRequest, Reply
from agent.models.body import Bodies, Body
from agent.models.dialect import Dialect, Draft, ReplyReader
from agent.models.endpoint import Endpoint
from agent.models.failures import Rejected, Transient
from agent.models.profiles import WireFormat
from agent.models.reading import Patience, read_events
from agent.models.retry import RetryPolicy, Tries
from agent.models.transport import Transport
from state.messages import Message, Wire
from state.usage import Usage

if TYPE_CHECKING:
    from httpx2 import Response

PriceOf = Callable[[Usage], float | None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one try."""

    idle_s: float
    """Longest silence, from the request on."""
    total_s: float = 1800


class WireModel:
    """Implements `actions.ports.Model`."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        transport: Transport,
        *,
        context_window: int,
        limits: Limits,
        retry: RetryPolicy,
        price: PriceOf | None,
    ) -> None:
        self._endpoint = endpoint
        self._dialect = dialect
        self._transport = transport
        self._context_window = context_window
        self._limits = limits
        self._retry = retry
        self._price = price
        self._bodies = Bodies(dialect)
        self._without: frozenset[str] = frozenset()
        """Optional fields that this server turned out not to take."""

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def wire(self) -> WireFormat:
        return self._endpoint.profile.wire

    @property
    def context_window(self) -> int:
        return self._context_window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        tries = Tries(self._retry)
        while True:
            has_shown = False
            body = self._bodies.build(request, self._without)
            try:
                async with aclosing(self._attempt(body)) as events:
                    async for event in events:
                        has_shown = True
                        yield event
                return
            except Rejected as rejected:
                if not self._adapt(rejected, request, body):
                    raise
                continue
            except Transient as failure:
                wait_s, announcement = tries.after(failure)
            if has_shown:
                yield Notice("The partial answer above is discarded.")
            yield Notice(announcement)
            await asyncio.sleep(wait_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _attempt(self, body: Body) -> AsyncGenerator[ModelEvent]:
        """Yield the deltas and the reply of one try."""
        reader = self._dialect.reader()
        patience = Patience(self._limits.idle_s, self._limits.total_s)
        response = await self._post(body, patience)
        try:
            async with aclosing(self._deltas(response, reader, patience)) as deltas:
                async for delta in deltas:
                    yield delta
        except Transient:
            # What comes after the end does not matter: a reply that is whole counts.
            if reader.patience_s is None:
                raise
        finally:
            await response.aclose()
        yield self._reply(reader.draft())

    async def _post(self, body: Body, patience: Patience) -> "Response":
        try:
            async with asyncio.timeout_at(patience.until):
                return await self._transport.post(self._dialect.path, body.content)
        except TimeoutError:
            raise Transient(f"{self._endpoint.provider} does not answer") from None

    async def _deltas(
        self, response: "Response", reader: ReplyReader, patience: Patience
    ) -> AsyncGenerator[ModelEvent]:
        async with aclosing(read_events(response, self._endpoint, patience)) as events:
            async for name, data in events:
                if data is None:
                    reader.done()
                else:
                    for delta in reader.read(name, data):
                        yield delta
                if reader.patience_s is not None:
                    # The connection can only be used again if it was read to its end.
                    patience.shorten(reader.patience_s)

    def _reply(self, draft: Draft) -> Reply:
        wire = None
        if draft.wire is not None:
            wire = Wire(provider=self._endpoint.provider, model=self._endpoint.model, body=draft.wire)
        message = Message(role="assistant", origin="model", blocks=draft.blocks, wire=wire)
        usage = Usage(
            llm_calls=1,
            input_tokens=draft.tokens.input,
            output_tokens=draft.tokens.output,
            cache_read_tokens=draft.tokens.cache_read,
            cache_write_tokens=draft.tokens.cache_write,
            cost_usd=None,
        )
        cost = self._price(usage) if self._price is not None else None
        return Reply(message, draft.finish, usage.model_copy(update={"cost_usd": cost}))

    def _adapt(self, rejected: Rejected, request: ModelRequest, body: Body) -> bool:
        """Leave out what the server says it does not take; return whether that is worth another request."""
        for field, pattern in self._dialect.optional_fields.items():
            if not pattern.search(rejected.detail):
                continue
            if field == "wire" and body.replays_wire:
                self._bodies.rebuild_all(request)
                return True
            is_sent = field != "tool_choice" or request.forced_tool is not None
            if field != "wire" and is_sent and field not in self._without:
                self._without |= {field}
                return True
        return False
