"""Serves Burr's tracking UI and the page of waiting decisions on the store."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fastapi import APIRouter, FastAPI, HTTPException
from uvicorn import Config, Server

from ...agent.config.load import load_settings
from ...agent.config.settings import Overrides
from ...state.errors import ConfigError, UsageError
from ...state.store.store import Store
from ..cli.listener import address_of, is_loopback, listen
from ..cli.open_session import read_overrides
from ..terminal.drive import StopSignals, exit_code
from ..terminal.terminal import put, say
from .access_guard import Guard
from .command import UiCommand
from .decision_routes import add_decisions

if TYPE_CHECKING:
    from ...agent.history.tracking.burr_backend import StoreBackend


_TOKEN = "SANDBUR_UI_TOKEN"
_LEAST_TOKEN_CHARS = 16


class Token(NamedTuple):
    text: str | None
    """None if no token is required."""
    is_new: bool = False


def token_for(listener: socket.socket, env: Mapping[str, str], is_wanted: bool = True) -> Token:
    """Return the access token; local requests need it, too, because other people may use this machine.

    If `is_wanted` is false, the token is None. Raises `UsageError` if other machines could then connect, and
    `ConfigError` if the token of the environment could be guessed.
    """
    if not is_wanted:
        if not is_loopback(listener):
            raise UsageError("--no-token would let the whole network in.", "Leave --host or --no-token out.")
        return Token(None)
    if given := env.get(_TOKEN, "").strip():
        if (
            len(given) < _LEAST_TOKEN_CHARS
            or not given.isascii()
            or not given.replace("-", "_").isidentifier()
        ):
            raise ConfigError(
                f"{_TOKEN} has to be {_LEAST_TOKEN_CHARS} or more letters, digits, - or _, a letter first.",
                "Without it, Sandbur makes a token.",
            )
        return Token(given)
    return Token(secrets.token_urlsafe(32), is_new=True)


async def serve(command: UiCommand) -> int:
    """Serve the tracking UI until a signal arrives; return the exit code of the signal."""

    settings = load_settings(read_overrides(command), os.environ)
    with listen(command.host, command.port, "ui") as listener:
        token = token_for(listener, os.environ, not command.no_token)

        app, backend = tracking_app(settings.store, settings.tenant)
        try:
            # Each session uses its own folder, regardless of -C.
            add_page(app, backend.store, {**read_overrides(command), "cwd": None})
            server = _server(Guard(app, token.text, listener.getsockname()[1]))
            _tell(address_of(listener), token, command.no_open)
            return await _until_stopped(server, listener)
        finally:
            backend.close()


async def serve_beside(store_url: str, tenant: str) -> str:
    """Serve the tracking UI in a thread until this process ends; return the address with the token."""

    listener = listen("127.0.0.1", 0, "ui")
    token = token_for(listener, {})
    before = dict(os.environ)
    app, _ = await asyncio.to_thread(tracking_app, store_url, tenant)

    # Commands of the agent must not inherit the server's variables.
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    server = _server(Guard(app, token.text, listener.getsockname()[1]))
    threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True).start()
    return f"{address_of(listener)}?token={token.text}"


class QuietServer(Server):
    """A server that does not handle signals: `StopSignals` does, because the exit code depends on them."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _server(app: object) -> Server:
    # Internal errors of the server are bugs, so they go to the log for bugs.
    errors = logging.getLogger("uvicorn.error")
    errors.propagate = False
    errors.handlers[:] = logging.getLogger("sandbur").handlers
    return QuietServer(
        Config(
            app,  # pyright: ignore[reportArgumentType]
            log_config=None,
            access_log=False,
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
    )


async def _until_stopped(server: Server, listener: socket.socket) -> int:

    def stop() -> None:
        server.should_exit = True

    with StopSignals(stop) as signals:
        await server.serve(sockets=[listener])
    return exit_code(signals.received) if signals.received is not None else 1


def _tell(address: str, token: Token, no_open: bool) -> None:
    whole = f"{address}?token={token.text}" if token.text is not None else address
    put(f"Tracking UI: {whole if token.is_new else address}")
    if token.text is not None and not token.is_new:
        say("The page needs the token of SANDBUR_UI_TOKEN: add ?token=... to the address.")
    say("Ctrl-C ends the server.")
    if not no_open and _has_display(os.environ):
        # On some systems `open` returns only when the browser ends.
        threading.Thread(target=webbrowser.open, args=(whole,), daemon=True).start()


def _has_display(env: Mapping[str, str]) -> bool:
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


BACKEND = "sandbur.agent.history.tracking.burr_backend.StoreBackend"
EXAMPLES = (
    "email-assistant",
    "multi-modal-chatbot",
    "streaming-fastapi",
    "deep-researcher",
    "hello-world-counter",
)
_UNWANTED = ("/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json")
"""Pages of FastAPI that load scripts from the network."""


def tracking_app(store_url: str, tenant: str) -> tuple[FastAPI, StoreBackend]:
    """Return Burr's application for a store of Sandbur, and the backend that reads the store."""
    os.environ |= {"BURR_BACKEND_IMPL": BACKEND, "BURR_STORE": store_url, "BURR_TENANT": tenant}
    # Burr logs to stdout unless a handler exists.
    logging.getLogger().addHandler(logging.NullHandler())
    with _without_examples():
        from burr.tracking.server import run
    # The URL may contain a password, which programs started by this process must not inherit.
    del os.environ["BURR_STORE"]

    app = run.create_burr_ui_app(serve_static=True)
    routes = app.router.routes
    routes[:] = [route for route in routes if getattr(route, "path", "") not in _UNWANTED]

    @app.api_route("/api/{path:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def unknown(path: str) -> None:
        raise HTTPException(404, "There is nothing here.")

    # Burr's last route matches every address, so the new route has to come before it.
    routes.insert(-2, routes.pop())
    return app, cast("StoreBackend", run.backend)


def add_page(app: FastAPI, store: Store, overrides: Overrides) -> None:
    """Add the page of waiting decisions before Burr's pages, which begin at `/projects`."""

    routes = app.router.routes
    before = len(routes)
    add_decisions(app, store, overrides)
    routes[:] = [*routes[before:], *routes[:before]]


@contextmanager
def _without_examples() -> Generator[None]:
    """Replace the example applications of Burr's server with empty modules during the context.

    Otherwise Burr would import all of them with their dependencies, and serve their routes, which call
    models.
    """

    names = [f"burr.examples.{name}.server" for name in EXAMPLES]
    for name in names:
        module: Any = ModuleType(name)
        module.router = APIRouter()
        sys.modules.setdefault(name, module)
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
