"""What all requests of a server share: the store, the agents and their runs, the streams, the tokens."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any

from ...agent.sdk.agent import Agent
from ...state.errors import StoreError
from ...state.lazy_dataclass import dataclass
from ...state.maintenance.writing_check import check_writing
from ...state.store.access_tokens import AuditTrail
from ...state.store.sessions.deaths import count_parked
from ...state.store.sessions.workload import count_workload
from ...state.store.store import Store
from .access.token_book import TokenBook
from .answers import RequestRefused
from .session_runner import SessionRunner
from .streams.session_feed import SessionFeeds

MOST_STREAMS = 2000
_WRITABLE_S = 5.0
_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class Metrics:
    """The numbers of one process since its start."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._durations: Counter[float] = Counter()
        self._total_s = 0.0

    def count(self, operation: str, status: int, duration_s: float) -> None:
        """Count a request that was answered. Streams are counted at their end, without their duration."""
        self._requests[operation, status] += 1
        self._total_s += duration_s
        self._durations[next((bound for bound in _BUCKETS_S if duration_s <= bound), float("inf"))] += 1

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all numbers; `gauges` are name -> help and value of further ones."""
        lines = _describe("sandbur_requests_total", "counter", "Answered requests.")
        lines += [
            f'sandbur_requests_total{{operation="{operation}",status="{status}"}} {count}'
            for (operation, status), count in sorted(self._requests.items())
        ]
        lines += _describe("sandbur_request_seconds", "histogram", "Durations of requests.")
        below = 0
        for bound in (*_BUCKETS_S, float("inf")):
            below += self._durations[bound]
            name = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f'sandbur_request_seconds_bucket{{le="{name}"}} {below}')
        lines += [
            f"sandbur_request_seconds_sum {self._total_s:.6f}",
            f"sandbur_request_seconds_count {below}",
        ]
        own = {
            "sandbur_start_time_seconds": ("When the server started.", self._started),
            "sandbur_memory_peak_bytes": ("The most memory that the process had.", _peak_bytes()),
        }
        for name, (about, value) in {**own, **gauges}.items():
            lines += [*_describe(name, "gauge", about), f"{name} {value:.10g}"]
        return "\n".join(lines) + "\n"


def _peak_bytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _describe(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


@dataclass(slots=True)
class Service:
    """One server."""

    store: Store
    """The store with the sessions of the tenant of the settings."""
    agents: Mapping[str, Agent[Any]]
    """Name -> agent. The first one is that of sessions that name none."""
    runner: SessionRunner
    feeds: SessionFeeds
    tokens: TokenBook
    audit: AuditTrail
    cwd: str
    env: Mapping[str, str]
    most_streams: int = MOST_STREAMS
    public_url: str = ""
    """The address of the proxy before the server; empty: clients reach it directly."""
    metrics: Metrics = field(default_factory=Metrics)
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The OpenAPI document."""
    _conversation_locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    open_turns: set[str] = field(default_factory=set[str])
    """The sessions with which a request of a facade works."""
    replay_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a session is replayed."""
    mcp: asyncio.Future[Any] | None = None
    """The server for MCP requests; None before the first request."""
    _writing_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _written_until: float = 0.0
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """Functions that are called when the server ends."""
    _stores: dict[str, Store] = field(default_factory=dict[str, Store])

    def store_of(self, tenant: str) -> Store:
        """Return the store with the sessions of only this tenant."""
        if tenant not in self._stores:
            self._stores[tenant] = Store(self.store.database, self.store.url, tenant)
        return self._stores[tenant]

    def require_agent(self, name: str) -> None:
        """Raise `RequestRefused` if the server has no agent of this name."""
        if name not in self.agents:
            known = f"It has: {', '.join(self.agents)}."
            raise RequestRefused(404, "not_found", f"This server has no agent {name[:60]!r}.", known)

    def lock_conversations(self, tenant: str) -> asyncio.Lock:
        """Return what lets one message at a time of a tenant find its session and be stored there."""
        return self._conversation_locks.setdefault(tenant, asyncio.Lock())

    def require_stream_place(self) -> None:
        """Raise `RequestRefused` if the server has as many streams as it can carry."""
        if self.feeds.is_draining:
            raise RequestRefused(503, "draining", "The server ends.", "Connect again in a moment.")
        if self.feeds.stream_count >= self.most_streams:
            raise RequestRefused(
                503, "too_many_streams", f"The server has {self.most_streams} streams already."
            )

    async def require_writable(self) -> None:
        """Raise `RequestRefused` if the store cannot be written, as on a full disk.

        Anybody may ask for it, so it writes something only now and then.
        """
        async with self._writing_lock:
            if time.monotonic() < self._written_until:
                return
            try:
                await asyncio.to_thread(check_writing, self.store)
            except (StoreError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error.__cause__ or "it failed")
                raise RequestRefused(503, "store", f"The store cannot be written: {reason}.") from None
            self._written_until = time.monotonic() + _WRITABLE_S

    async def read_gauges(self) -> dict[str, tuple[str, float]]:
        """Return the numbers that are read when somebody asks for the metrics."""
        database = self.store.database
        workload = await database.offload(lambda: count_workload(database))
        parked = await database.offload(lambda: count_parked(database))
        return {
            "sandbur_sessions_waiting": ("Sessions of all tenants that wait for a worker.", workload.waiting),
            "sandbur_sessions_parked": (
                "Sessions of all tenants whose process died too often: a person has to decide.",
                parked,
            ),
            "sandbur_sessions_claimed": ("Sessions of all tenants that workers run.", workload.claimed),
            "sandbur_streams": ("Open event streams.", self.feeds.stream_count),
            "sandbur_running_sessions": ("Sessions that run in this process.", self.runner.running_count),
        }
