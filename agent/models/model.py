"""A language model over a wire format. One call is one streamed request, with retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from ...actions.ports import Discarded, Formatter, ModelEvent, ModelRequest, Reply, TokenCounter
from ...actions.ports.events import Notice
from ...state.application import Usage
from ...state.conversation.attachments import AttachedFile
from ...state.conversation.messages import Message, Wire
from ...state.errors import ContextFull, CredentialsError, ModelError, Overloaded
from ...state.lazy_dataclass import dataclass
from .counting.count_requests import (
    CountRequest,
    make_anthropic_count,
    make_gemini_count,
    make_responses_count,
)
from .counting.provider_counter import ProviderTokenCounter
from .failures import Rejected, Transient
from .prices.pricing import PriceOf
from .providers import Endpoint
from .requests import Bodies, Body, Dialect, Draft, ReplyReader
from .transport.events import Response, StreamTimeouts, read_events

_LONG_S = 2 * 3600


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_tries: int = 5
    max_total_s: float = 60
    """The longest total wait in seconds, counted from the first failure. If a `retry-after` is longer, the
    call fails at once."""
    first_delay_s: float = 1.0
    """The first delay in seconds. It doubles with every failure; the actual wait is a random part of the
    delay."""
    max_delay_s: float = 20


class Tries:
    """Counts the tries of one model call, and decides whether there is another."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._first_failure: float | None = None

    def after(self, failure: Transient) -> tuple[float, str]:
        """Return the wait in seconds and a notice about it. Raise the final error if there is no further
        try."""
        now = time.monotonic()
        self._first_failure = self._first_failure or now
        self._failures += 1
        max_tries = min(self._policy.max_tries, failure.max_tries or self._policy.max_tries)
        if self._failures >= max_tries:
            tries = "1 try" if self._failures == 1 else f"{self._failures} tries"
            raise self._final(failure, f"gave up after {tries}")
        wait_s = self._wait_s(failure)
        if now - self._first_failure + wait_s > self._policy.max_total_s:
            if failure.retry_after_s is None:
                raise self._final(failure, f"gave up after {round(now - self._first_failure)} s")
            raise self._final(failure, f"it asks to wait {format_wait(wait_s)}", "Try again then.")
        return wait_s, (
            f"{failure.what}, trying again in {format_seconds(wait_s)} ({self._failures + 1} of {max_tries})"
        )

    def _wait_s(self, failure: Transient) -> float:
        ceiling = self._policy.first_delay_s * 2 ** (self._failures - 1)
        jittered = random.uniform(0, min(ceiling, self._policy.max_delay_s))
        if failure.retry_after_s is None:
            return jittered
        return failure.retry_after_s + min(jittered, 0.1 * failure.retry_after_s)

    def _final(self, failure: Transient, end: str, hint: str = "") -> ModelError:
        what = failure.what[:1].upper() + failure.what[1:]
        error = failure.lasting(f"{what}; {end}.", hint or failure.hint)
        if isinstance(error, Overloaded):
            error.retry_after_s = failure.retry_after_s
        return error


def format_seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 120:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} minutes"


def format_wait(seconds: float) -> str:
    """Format a wait in words; a long wait as the local date and time of its end."""
    if seconds < _LONG_S:
        return format_seconds(seconds)
    now = datetime.now(UTC)
    # The limit is two days before the last possible date, so that every time zone can represent the date.
    most_s = (datetime.max.replace(tzinfo=UTC) - now).total_seconds() - 2 * 86_400
    end = now + timedelta(seconds=min(seconds, most_s))
    return f"until {end.astimezone():%Y-%m-%d %H:%M}"


@dataclass(frozen=True, slots=True)
class TryLimits:
    """Time limits of one try, in seconds."""

    idle_s: float
    """The longest time without data from the server, counted from the request on."""
    total_s: float = 1800


@dataclass(slots=True)
class _Try:
    """One request, and the parts of its answer that have arrived."""

    reader: ReplyReader
    patience: StreamTimeouts
    is_answered: bool = False
    """Whether the server accepted the request: it answered with status 200."""
    has_begun: bool = False
    """Whether a part of the answer has arrived."""

    @property
    def is_whole(self) -> bool:
        return self.reader.patience_s is not None

    def is_discarded(self, failure: Exception) -> bool:
        """Return whether this failure discards an answer that the provider may charge for."""
        was_cut = isinstance(failure, Transient) and not failure.is_refusal
        return self.is_answered and (self.has_begun or was_cut)


class Transport(Protocol):
    """Sends encoded requests to a model server."""

    async def post(self, path: str, content: bytes) -> Response:
        """Send a request and return the unread response; raises `Transient` or a `SandburError`."""
        ...

    async def aclose(self) -> None: ...


class WireModel:
    """A model of a provider. It implements `actions.ports.Model`."""

    def __init__(
        self,
        endpoint: Endpoint,
        dialect: Dialect,
        transport: Transport,
        *,
        context_window: int,
        limits: TryLimits,
        retry: RetryPolicy,
        price: PriceOf | None,
        count_transport: Transport | None = None,
    ) -> None:
        """`count_transport` sends requests for token counts. None: the provider has no endpoint for
        counts."""
        self.name = endpoint.name
        self.wire = endpoint.profile.wire
        self.context_window = context_window
        self._endpoint = endpoint
        self._dialect = dialect
        self._transport = transport
        self._count_transport = count_transport
        self._limits = limits
        self._retry = retry
        self._price = price
        self._bodies = Bodies(dialect)
        self._without: frozenset[str] = frozenset()
        """The optional fields that this server has rejected."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        tries = Tries(self._retry)
        while True:
            has_emitted = False
            body = self._bodies.build(request, self._without)
            patience = StreamTimeouts(self._limits.idle_s, self._limits.total_s)
            attempt = _Try(self._dialect.reply(self._endpoint), patience)
            try:
                async with aclosing(self._attempt(body, attempt)) as events:
                    async for event in events:
                        has_emitted = True
                        yield event
                return
            except (Transient, ModelError) as error:
                failure = error
            if (changed := self._leave_out_rejected(failure, request, body)) is not None:
                if changed:
                    yield Notice(changed)
                continue
            if attempt.is_discarded(failure):
                yield Discarded(self._usage_of_discarded(attempt))
            if not isinstance(failure, Transient):
                raise failure
            wait_s, announcement = tries.after(failure)
            if has_emitted:
                yield Notice("The partial answer above is discarded.", "discarded")
            yield Notice(announcement, "retry")
            await asyncio.sleep(wait_s)

    def use_formatter(self, formatter: Formatter) -> None:
        """Let a program's formatter decide how messages are sent. This implements `TakesFormatter`."""
        self._dialect.use_formatter(formatter)
        self._bodies.start_over()

    def make_provider_counter(self) -> TokenCounter | None:
        """Return a counter that asks the provider, or None if the provider has no endpoint for counts."""
        profile, model = self._endpoint.profile, self._endpoint.model
        if self._count_transport is None:
            return None
        if profile.name == "gemini":
            return ProviderTokenCounter(self._count_transport, partial(make_gemini_count, model=model))
        make = make_anthropic_count if profile.wire == "messages" else make_responses_count

        def make_count(request: ModelRequest) -> CountRequest:
            return make(self._bodies.build(request, self._without).content)

        return ProviderTokenCounter(self._count_transport, make_count)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()
        if self._count_transport is not None and self._count_transport is not self._transport:
            await self._count_transport.aclose()

    async def _attempt(self, body: Body, attempt: _Try) -> AsyncGenerator[ModelEvent]:
        """Yield the deltas of one try, then its reply."""
        response = await self._post(body, attempt.patience)
        attempt.is_answered = True
        try:
            async with aclosing(self._deltas(response, attempt)) as deltas:
                async for delta in deltas:
                    yield delta
        except Transient:
            # A complete reply counts, even if the connection fails after its end.
            if not attempt.is_whole:
                raise
        finally:
            await response.aclose()
        yield self._reply(attempt.reader.draft())

    async def _post(self, body: Body, patience: StreamTimeouts) -> Response:
        try:
            async with asyncio.timeout_at(patience.until):
                return await self._transport.post(self._dialect.path, body.content)
        except TimeoutError:
            raise Transient(f"{self._endpoint.provider} does not answer") from None

    async def _deltas(self, response: Response, attempt: _Try) -> AsyncGenerator[ModelEvent]:
        reader, patience = attempt.reader, attempt.patience
        async with aclosing(read_events(response, self._endpoint, patience)) as events:
            async for name, data in events:
                if data is None:
                    reader.mark_done()
                else:
                    for delta in reader.read(name, data):
                        yield delta
                attempt.has_begun = True
                if reader.patience_s is not None:
                    # The connection can be used again only if the response is read to its end.
                    patience.shorten(reader.patience_s)

    def _reply(self, draft: Draft) -> Reply:
        wire = None
        if draft.wire is not None:
            wire = Wire(provider=self._endpoint.provider, model=self._endpoint.model, body=draft.wire)
        message = Message(role="assistant", origin="model", blocks=draft.blocks, wire=wire)
        return Reply(message, draft.finish, self._add_price(draft.usage, llm_calls=1))

    def _usage_of_discarded(self, attempt: _Try) -> Usage:
        usage = attempt.reader.usage
        if attempt.is_whole:
            return self._add_price(usage, llm_calls=0)
        return Usage(
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=usage.cache_read_tokens or 0,
            cache_write_tokens=usage.cache_write_tokens or 0,
            cost_usd=None,
        )

    def _add_price(self, usage: Usage, llm_calls: int) -> Usage:
        usage = usage.model_copy(update={"llm_calls": llm_calls})
        cost = self._price(usage) if self._price is not None else None
        return usage.model_copy(update={"cost_usd": cost})

    def _leave_out_rejected(
        self, failure: Transient | ModelError, request: ModelRequest, body: Body
    ) -> str | None:
        """Leave out the part of the request that the server rejects.

        Return a notice, which may be empty, or None if nothing was left out.
        """
        left_out = self._adapt(failure, request, body) if isinstance(failure, Rejected) else None
        if left_out == "effort":
            return f"{self.name} does not take this effort, so it goes on without it."
        return "" if left_out is not None else self._without_files(failure, body) or None

    def _adapt(self, rejected: Rejected, request: ModelRequest, body: Body) -> str | None:
        """Leave out the field that the server rejects; return the name of the field, or None if there is
        none."""
        for field, pattern in self._dialect.optional_fields.items():
            if not pattern.search(rejected.detail):
                continue
            if field == "wire" and body.replays_wire:
                self._bodies.rebuild_all(request)
                return field
            is_sent = self._dialect.sends(field, request, self._without)
            if field != "wire" and is_sent and field not in self._without:
                self._without |= {field}
                return field
        return None

    def refusal_of(self, file: AttachedFile) -> str:
        """Return why the model does not get this file; empty if it does. This implements `ReadsFiles`."""
        return self._dialect.files.refusal_of(file)

    def _without_files(self, failure: Transient | ModelError, body: Body) -> str:
        """Leave out the files that the server rejects; return a notice, or an empty text if files are not the
        reason."""
        if isinstance(failure, ContextFull | CredentialsError) or (
            isinstance(failure, Transient) and not failure.is_refusal
        ):
            return ""
        detail = failure.detail if isinstance(failure, Rejected) else str(failure)
        files = self._dialect.files
        turned_down = files.note_rejection(detail, body.sent)
        if not turned_down:
            return ""
        self._bodies.start_over()
        return files.notice(turned_down, detail)
