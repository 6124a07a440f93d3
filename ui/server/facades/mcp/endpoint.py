"""The route of MCP: hands each request to the session manager of the package `mcp`.

It is stateless: a client may send each request to another server. The package is loaded by the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .....state.errors import ConfigError
from .....state.process.installation import make_install_command
from ...routes.route import ApiRequest, ApiRoute
from ...service import Service
from .session_runs import CURRENT_REQUEST, SessionRuns

Handle = Callable[[Scope, Receive, Send], Awaitable[None]]


class McpResponse(Response):
    """Lets the session manager read the request and answer it."""

    def __init__(self, handle: Handle, request: ApiRequest) -> None:
        super().__init__()
        self._handle = handle
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The tasks of the manager that serve this request begin with a copy of this context.
        CURRENT_REQUEST.set(self._request)
        await self._handle(scope, receive, send)


async def answer_mcp(request: ApiRequest) -> Response:
    """Answer one message of MCP."""
    service = request.service
    if service.mcp is None:
        service.mcp = asyncio.ensure_future(_start(service))
    return McpResponse(await asyncio.shield(service.mcp), request)


async def _start(service: Service) -> Handle:
    """Start the session manager, which ends with the server; raises `ConfigError` without its package."""
    try:
        from ....commands.mcp.run_tools import make_session_manager
    except ModuleNotFoundError as missing:
        service.mcp = None
        raise ConfigError(
            f"The package {missing.name} is not installed.", f"Install it with: {make_install_command('mcp')}"
        ) from None
    manager = make_session_manager(SessionRuns())
    started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()

    async def hold() -> None:
        # The task group of the manager has to be left by the task that entered it.
        async with manager.run():
            started.set_result(None)
            await ending.wait()

    task = asyncio.ensure_future(hold())

    async def close() -> None:
        ending.set()
        await asyncio.wait([task])

    service.closers.append(close)
    await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    return manager.handle_request


_MESSAGE = {
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "method": {"type": "string"},
        "params": {"type": ["object", "null"]},
    },
    "required": ["jsonrpc", "method"],
}
_DESCRIBED: Mapping[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _MESSAGE}}},
    "responses": {
        "200": {
            "description": "The answer of JSON-RPC.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        "202": {"description": "A notification was taken."},
        **{
            status: {"description": about}
            for status, about in (
                ("400", "The request is not valid."),
                ("406", "The client does not accept JSON and event streams."),
                ("413", "The body is too large."),
                ("415", "The body is not JSON."),
            )
        },
    },
}
MCP_ROUTES = (
    ApiRoute("POST", "/mcp", "answer_mcp", "MCP: one message of the streamable HTTP transport", "read",
          answer_mcp, protocol="MCP", described=_DESCRIBED),
)  # fmt: skip
