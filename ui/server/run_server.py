"""`sandbur serve`: opens the store and the agents, and serves until a signal comes."""

import asyncio
import logging
import os
import resource
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from uvicorn import Server

from ...agent.config.data_folder import make_private
from ...agent.config.load import load_settings
from ...agent.config.settings import Settings
from ...agent.extensions.extension import load
from ...agent.extensions.registry import list_shipped_models
from ...agent.fleet.worker_process import WorkerOrder, WorkerProcess
from ...agent.models.connect import find_endpoint
from ...agent.sdk.agent import Agent
from ...agent.sdk.loading import open_agent
from ...agent.sdk.shipped_tools import workspace_tools
from ...state.errors import UsageError
from ...state.store.access_tokens import PREFIX, AuditTrail, TokenTable
from ...state.store.sessions.session_rows import list_unfinished_tenants
from ...state.store.store import Store
from ..cli.listener import address_of, is_loopback, listen
from ..cli.open_session import read_overrides, tell_notice
from ..terminal.drive import StopSignals, exit_code
from ..terminal.terminal import put, say
from .access.connections import BoundedConfig, Connections
from .access.guard import ServerGuard
from .access.token_book import ForeignTokens, TokenBook
from .app import make_app
from .command import ServeCommand
from .facades.openai.errors import OpenAiErrors
from .own_workers import OwnWorkers
from .routes.table import ROUTES
from .service import MOST_STREAMS, Service
from .session_runner import SessionRunner
from .streams.session_feed import SessionFeeds

_STREAMS_END_S, _LOOK_S = 3.0, 0.05
_DEFAULT_AGENT = "default"
_WANTED_FILES = 8192
_OTHER_FILES = 200
"""The open files of a server besides its connections: those of the store, of runs and of their commands."""
_ACCEPTED_AT_ONCE = 32
"""How many new connections may come before older ones are closed; their files are among the others."""
_WAITING_CONNECTIONS = 1024
"""How many connections may wait in the system until they are accepted."""


class SignalFreeServer(Server):
    """A server that handles no signals: streams have to end before it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(_WAITING_CONNECTIONS)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(command: ServeCommand) -> int:
    """Serve until a signal comes; return its exit code."""
    settings = load_settings(read_overrides(command), os.environ)
    order = _order_workers(command, settings)
    agents = _open_agents(command, settings)
    make_private(settings.home)
    store = Store.open(settings.store, settings.tenant, tell_notice, settings.durability, settings.home)
    workers = OwnWorkers([WorkerProcess(order) for _ in range(command.workers or 0)], store.database)
    try:
        with listen(command.host, command.port, "serve") as listener:
            own_token = None if command.oidc else _make_own_token(store, is_loopback(listener))
            service = _make_service(command, settings, store, agents, own_token, workers)
            guard = ServerGuard(
                make_app(service, ROUTES),
                service.tokens,
                service.audit,
                port=listener.getsockname()[1],
                hosts=command.reached_hosts,
                requests_a_minute=command.rate_limit,
            )
            most_files = _allow_open_files()
            service.most_streams = min(MOST_STREAMS, max(most_files - 2 * _OTHER_FILES, most_files // 2))
            connections = Connections(
                max(most_files - _OTHER_FILES, most_files * 3 // 4),
                command.connections_per_address,
                command.request_timeout,
                tell_notice,
            )
            server = SignalFreeServer(_configure(OpenAiErrors(guard), connections))
            asyncio.get_running_loop().set_exception_handler(connections.handle_loop_error)
            address = address_of(listener)
            line = f"Serving {address}?token={own_token}" if own_token else f"Serving {address}"
            workers.start()
            return await _serve_until_stopped(service, server, listener, line)
    finally:
        await asyncio.to_thread(workers.end)
        store.close()


def _order_workers(command: ServeCommand, settings: Settings) -> WorkerOrder:
    """Return what each worker process of the server does. Raises `UsageError` if they cannot do it."""
    if command.workers != 0 and settings.store.startswith("memory:"):
        raise UsageError("Workers need a store that other processes open.", "Name one: --store URL")
    if files := [source for source in command.agents if ":" not in source and command.workers]:
        raise UsageError(
            f"The workers of a server run agents of programs, not the agent file {files[0]}.",
            "Make it a variable: agent = Agent.from_file(...), and name it as MODULE:NAME",
        )
    return WorkerOrder(
        settings.store, settings.tenant, str(settings.cwd), tuple(command.agents), command.runs
    )


def _open_agents(command: ServeCommand, settings: Settings) -> dict[str, Agent[Any]]:
    """Return the agents by name; without --agent, one with the tools of the command and its settings."""
    if command.agents:
        return {source: open_agent(source, settings.cwd) for source in command.agents}
    _check_model(settings)
    agent: Agent[Any] = Agent(
        settings.model,
        name=_DEFAULT_AGENT,
        tools=workspace_tools(),
        mode=settings.mode,
        allow=settings.allow,
        ask=settings.ask,
        deny=settings.deny,
        cwd=settings.cwd,
    )
    return {_DEFAULT_AGENT: agent}


def _check_model(settings: Settings) -> None:
    """Raise `UsageError` for an unknown provider, `CredentialsError` if there is no key."""
    name = settings.aliases.get(settings.model or "", settings.model)
    if name and name not in list_shipped_models():
        find_endpoint(name, os.environ, settings.providers)


def _make_own_token(store: Store, is_local: bool) -> str | None:
    """Return a token for this process if the store has none. Raises `UsageError` if others can connect."""
    if TokenTable(store.database).list_all():
        return None
    if not is_local:
        raise UsageError(
            "A server that others can reach needs a token first.",
            "Make one: sandbur serve add-token NAME --scopes read,run",
        )
    return PREFIX + secrets.token_urlsafe(32)


def _make_issuer_tokens(command: ServeCommand, settings: Settings) -> ForeignTokens | None:
    """Return what checks the tokens of the issuer that the flags name, if they name one."""
    if not command.oidc:
        return None
    # The package for signatures is loaded only here.
    rules = load(".ui.server.access.issuer_tokens:IssuerRules")(
        issuer=command.oidc,
        audience=command.oidc_audience,
        tenant_claim=command.oidc_tenant_claim,
        scopes_claim=command.oidc_scopes_claim,
        default_tenant=settings.tenant,
    )
    return load(".ui.server.access.issuer_tokens:IssuerTokens")(rules, tell_notice)


def _make_service(
    command: ServeCommand,
    settings: Settings,
    store: Store,
    agents: dict[str, Agent[Any]],
    own_token: str | None,
    workers: OwnWorkers,
) -> Service:
    feeds = SessionFeeds(store.database)
    is_embedded = command.workers == 0
    return Service(
        store=store,
        agents=agents,
        runner=SessionRunner(store, agents, feeds.publish, command.runs, tell_notice, is_embedded, workers),
        feeds=feeds,
        tokens=TokenBook(store.database, own_token, settings.tenant, _make_issuer_tokens(command, settings)),
        audit=AuditTrail(store.database),
        cwd=str(Path(settings.cwd)),
        env=os.environ,
        public_url=command.public_url.rstrip("/"),
    )


def _allow_open_files() -> int:
    """Raise the soft limit of open files, which is often lower than the number of streams; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _WANTED_FILES if soft == resource.RLIM_INFINITY else soft


def _configure(app: OpenAiErrors, connections: Connections) -> BoundedConfig:
    """Return the configuration of uvicorn, which answers 503 to further connections."""
    # Internal errors of the server are bugs, so they go to the log for bugs.
    errors = logging.getLogger("uvicorn.error")
    errors.propagate = False
    errors.handlers[:] = logging.getLogger("sandbur").handlers
    return BoundedConfig(
        app,
        connections,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        limit_concurrency=connections.most,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=64 * 1024,
    )


async def _serve_until_stopped(service: Service, server: Server, listener: Any, line: str) -> int:
    """Print the line with the address, serve, and end in order: streams, requests, runs."""
    stopping: set[asyncio.Task[None]] = set()

    def stop() -> None:
        stopping.add(asyncio.ensure_future(_stop(service, server)))

    tenants = list_unfinished_tenants(service.store.database)
    with StopSignals(stop) as signals:
        put(line)
        say("Ctrl-C ends the server; runs go on at its next start.")
        await service.runner.start([service.store_of(tenant) for tenant in tenants])
        await server.serve(sockets=[listener])
        for close in service.closers:
            await close()
        await service.runner.drain()
        await service.feeds.aclose()
    return exit_code(signals.received) if signals.received is not None else 1


async def _stop(service: Service, server: Server) -> None:
    """End the streams with their last event, then the server. Clients that do not read are disconnected."""
    service.feeds.drain()
    try:
        async with asyncio.timeout(_STREAMS_END_S):
            await service.feeds.wait_until_left()
            while _find_slow_clients(server):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        for transport in _find_slow_clients(server):
            transport.abort()
    server.should_exit = True


def _find_slow_clients(server: Server) -> list[asyncio.Transport]:
    """Return the connections of clients that have not taken yet what they were sent."""
    transports = [getattr(one, "transport", None) for one in server.server_state.connections]
    return [
        one for one in transports if isinstance(one, asyncio.Transport) and one.get_write_buffer_size() > 0
    ]
