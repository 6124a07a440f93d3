"""Burr's tracking server with our backend, and without what Burr adds for its own demonstration."""

import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from fastapi import FastAPI

    from agent.tracking.backend import StoreBackend

BACKEND = "agent.tracking.backend.StoreBackend"
EXAMPLES = (
    "email-assistant",
    "multi-modal-chatbot",
    "streaming-fastapi",
    "deep-researcher",
    "hello-world-counter",
)
_UNWANTED = ("/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json")
"""They load their scripts from the network."""


def tracking_app(store_url: str, tenant: str) -> "tuple[FastAPI, StoreBackend]":
    """Return Burr's application on a store of ours, and the backend that it reads."""
    os.environ |= {"BURR_BACKEND_IMPL": BACKEND, "BURR_STORE": store_url, "BURR_TENANT": tenant}
    # Burr logs to stdout unless somebody was there before.
    logging.getLogger().addHandler(logging.NullHandler())
    with _without_examples():
        from burr.tracking.server import run
    # Its password is nothing for the programs that are started from here.
    del os.environ["BURR_STORE"]
    from fastapi import HTTPException

    app = run.create_burr_ui_app(serve_static=True)
    routes = app.router.routes
    routes[:] = [route for route in routes if getattr(route, "path", "") not in _UNWANTED]

    @app.api_route("/api/{path:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def unknown(path: str) -> None:
        raise HTTPException(404, "There is nothing here.")

    # The last one of Burr's answers every address with the page.
    routes.insert(-2, routes.pop())
    return app, cast("StoreBackend", run.backend)


@contextmanager
def _without_examples() -> Generator[None]:
    """Let Burr's server import empty modules in place of its example applications.

    It imports them all, with what they need, and serves their routes: chats that call models.
    """
    from fastapi import APIRouter

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
