"""What all requests of a server share: the store, the agents and their runs, the streams, the tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...agent.sdk.agent import Agent
from ...state.store.access_tokens import AuditTrail
from ...state.store.store import Store
from .access.token_book import TokenBook
from .answers import RequestRefused
from .metrics import Metrics
from .session_runner import SessionRunner
from .streams.session_feed import SessionFeeds

MOST_STREAMS = 2000


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
    metrics: Metrics = field(default_factory=Metrics)
    document: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The OpenAPI document."""
    open_turns: set[str] = field(default_factory=set[str])
    """The sessions with which a request of a facade works."""
    mcp: asyncio.Future[Any] | None = None
    """What answers requests of MCP; None before the first one."""
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list[Callable[[], Awaitable[None]]])
    """What ends with the server."""
    _stores: dict[str, Store] = field(default_factory=dict[str, Store])

    def store_of(self, tenant: str) -> Store:
        """Return the store with the sessions of a tenant, and of nobody else."""
        if tenant not in self._stores:
            self._stores[tenant] = Store(self.store.database, self.store.url, tenant)
        return self._stores[tenant]

    def require_stream_place(self) -> None:
        """Raise `RequestRefused` if the server has as many streams as it can carry."""
        if self.feeds.is_draining:
            raise RequestRefused(503, "draining", "The server ends.", "Connect again in a moment.")
        if self.feeds.stream_count >= MOST_STREAMS:
            raise RequestRefused(503, "too_many_streams", f"The server has {MOST_STREAMS} streams already.")

    @property
    def gauges(self) -> dict[str, tuple[str, float]]:
        """The numbers that are read when somebody asks for the metrics."""
        return {
            "sandbur_streams": ("Open event streams.", self.feeds.stream_count),
            "sandbur_running_sessions": ("Sessions that run in this process.", self.runner.running_count),
        }
