"""`sandbur ui`: serves Burr's tracking UI on the store until it is stopped."""

import logging
import os
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from state.errors import ConfigError
from ui.arguments import Arguments
from ui.opening import options_of
from ui.signals import StopSignals, exit_code
from ui.terminal import put, say
from ui.tracking_address import Token, address_of, listen, token_for

if TYPE_CHECKING:
    from uvicorn import Server

_NEEDED = ("fastapi", "uvicorn", "pydantic_settings", "aiofiles", "fastapi_utils")


async def serve(arguments: Arguments) -> int:
    """Serve until a signal comes; return the exit code that it means."""
    from agent.config import load_settings

    _require_packages()
    settings = load_settings(options_of(arguments), os.environ)
    with listen(arguments.host, arguments.port) as listener:
        token = token_for(listener, os.environ)
        from ui.tracking_guard import Guard
        from ui.tracking_server import tracking_app

        app, backend = tracking_app(settings.store_url, settings.tenant)
        try:
            server = _server(Guard(app, token.text, listener.getsockname()[1]))
            _tell(address_of(listener), token, arguments.no_open)
            return await _until_stopped(server, listener)
        finally:
            backend.close()


def _require_packages() -> None:
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        raise ConfigError(
            f"The tracking UI needs packages that are not installed: {', '.join(missing)}.",
            "Install them: pip install 'sandbur[ui]'",
        )


def _server(app: object) -> "Server":
    from uvicorn import Config, Server

    class QuietServer(Server):
        """Leaves signals to us: they decide the exit code."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    # What goes wrong inside is a bug, and is kept as one.
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


async def _until_stopped(server: "Server", listener: socket.socket) -> int:
    def stop() -> None:
        server.should_exit = True

    with StopSignals(stop) as signals:
        await server.serve(sockets=[listener])
    return exit_code(signals.received) if signals.received is not None else 1


def _tell(address: str, token: Token, no_open: bool) -> None:
    url = f"{address}?token={token.text}" if token.is_new else address
    put(f"Tracking UI: {url}")
    if token.text is not None and not token.is_new:
        say("It asks for the token in SANDBUR_UI_TOKEN: add ?token=... to the address.")
    say("Ctrl-C ends it.")
    if not no_open and _has_display(os.environ):
        import threading
        import webbrowser

        # Some systems wait for the browser to end.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _has_display(env: Mapping[str, str]) -> bool:
    return sys.platform == "darwin" or bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))
