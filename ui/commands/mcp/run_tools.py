"""Serves MCP tools with which another agent starts, watches and resumes runs in this folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, Protocol

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field

from ....agent.runtime.version import VERSION
from ....agent.session.decisions import make_decision
from ....state.calls import CallDecision
from ....state.errors import SandburError

_Run = Annotated[str, Field(description="The run, as start_run or list_runs names it", min_length=1)]
_Call = Annotated[str, Field(description="The waiting call, as the result of the run names it", min_length=1)]

_INSTRUCTIONS = """\
Runs of Sandbur, an agent that works in the folder in which this server was started. start_run begins one,
watch_run tells what it does and how it ended. A run whose status is needs_approval waits until its person, or
a tool of this server if that was allowed, decides about a call; needs_decision: a call was cut off, and
nobody knows whether it took effect. A run that stopped early goes on with resume_run, from where it was."""


class RunControl(Protocol):
    """What the tools do. Every method raises `SandburError`, and answers with a JSON object."""

    async def start(self, prompt: str, plans_only: bool) -> dict[str, Any]: ...

    async def watch(self, run: str, after: int, wait_s: float) -> dict[str, Any]: ...

    async def list_runs(self, most: int) -> dict[str, Any]: ...

    async def resume(self, run: str, message: str) -> dict[str, Any]: ...

    async def decide(self, run: str, decision: CallDecision) -> dict[str, Any]: ...


async def serve_runs(runs: RunControl, allow_decisions: bool) -> None:
    """Serve the tools until stdin ends."""
    await make_run_server(runs, allow_decisions).run_stdio_async()


def make_run_server(runs: RunControl, allow_decisions: bool) -> MCPServer[Any]:
    """Return a server with the tools, which has no transport yet."""
    server = MCPServer("sandbur", version=VERSION, instructions=_INSTRUCTIONS, log_level="CRITICAL")
    _offer_runs(server, runs)
    if allow_decisions:
        _offer_decisions(server, runs)
    return server


def make_session_manager(runs: RunControl) -> StreamableHTTPSessionManager:
    """Return what answers requests over HTTP, without a state between them; all tools are offered."""
    server = make_run_server(runs, allow_decisions=True)
    # The server has checked host and origin.
    trusting = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(json_response=True, stateless_http=True, transport_security=trusting)
    return server.session_manager


def _offer_runs(server: MCPServer[Any], runs: RunControl) -> None:
    @server.tool()
    async def start_run(
        prompt: Annotated[str, Field(description="What to do, in words")],
        plan_only: Annotated[bool, Field(description="Only look, and change nothing")] = False,
    ) -> dict[str, Any]:
        """Start a run in the folder of this server and return its name at once; watch_run reports its
        progress.
        """
        return await _await_answer(lambda: runs.start(prompt, plan_only))

    @server.tool()
    async def watch_run(
        run: _Run,
        after: Annotated[
            int, Field(description="`next` of the last answer; 0: from the beginning", ge=0)
        ] = 0,
        wait_s: Annotated[float, Field(description="How long to wait for news, 50 at most", ge=0)] = 20.0,
    ) -> dict[str, Any]:
        """Return what a run did since, and its result once it has stopped."""
        return await _await_answer(lambda: runs.watch(run, after, wait_s))

    @server.tool()
    async def list_runs(
        most: Annotated[int, Field(description="How many, the newest first", ge=1, le=100)] = 20,
    ) -> dict[str, Any]:
        """List the runs of this folder."""
        return await _await_answer(lambda: runs.list_runs(most))

    @server.tool()
    async def resume_run(
        run: _Run, message: Annotated[str, Field(description="What to say; empty: just go on")] = ""
    ) -> dict[str, Any]:
        """Go on with a run that stopped; returns at once."""
        return await _await_answer(lambda: runs.resume(run, message))

    @server.tool()
    async def deny_call(
        run: _Run, call: _Call, reason: Annotated[str, Field(description="Sent to the model")] = ""
    ) -> dict[str, Any]:
        """Refuse a call that waits for an approval, and let the run go on."""
        return await _await_answer(lambda: runs.decide(run, make_decision(call, "deny", reason)))


def _offer_decisions(server: MCPServer[Any], runs: RunControl) -> None:
    """Add the tools that decide about calls; only a person may allow these."""

    @server.tool()
    async def approve_call(run: _Run, call: _Call) -> dict[str, Any]:
        """Let a call that waits for an approval run, exactly as it is, and let the run go on."""
        return await _await_answer(lambda: runs.decide(run, make_decision(call, "approve")))

    @server.tool()
    async def settle_call(
        run: _Run,
        call: _Call,
        outcome: Annotated[
            Literal["done", "failed", "rerun", "check"],
            Field(
                description="done: it took effect; failed: it did not; rerun: run it once more;"
                " check: the model is to find out"
            ),
        ],
        result: Annotated[str, Field(description="What the model reads about it")] = "",
    ) -> dict[str, Any]:
        """Record the outcome of a call if it is unknown, and let the run go on."""
        decision = make_decision(call, outcome, result)
        return await _await_answer(lambda: runs.decide(run, decision))


async def _await_answer(work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    """Return the result of `work`; a `SandburError` becomes a `ToolError` with its sentence."""
    try:
        return await work()
    except SandburError as error:
        raise ToolError(str(error)) from None
