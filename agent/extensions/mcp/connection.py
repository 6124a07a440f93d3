"""The connection to one tool server. Its client belongs to one task, which reconnects after growing
delays."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import httpx2
from mcp import Client, MCPError
from pydantic import ValidationError

from ....state.lazy_dataclass import dataclass
from .configuration.servers import McpServer, MissingVariable, fill_variables
from .server_requests.questions import CallClock, Host
from .text import one_line
from .transport.border import CheckedStream
from .transport.oauth import NeedsSignIn, sign_in
from .transport.stdio import ErrorLog, program, server_environment
from .transport.web import address

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

AnswerT = TypeVar("AnswerT")
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.5, 30.0
_PATIENCE_S = 2.0
"""How long a call waits for the next try to reach the server, in seconds."""
_ENDING_S = 12.0
_LAST_WORDS_S = 1.0
_MOST_CALLS = 8
"""The most calls to one server at the same time."""
CONNECTION_CLOSED, REQUEST_TIMEOUT = -32000, -32001
"""The codes of the MCP library for its own errors. Servers use them, too, for any error of their own."""
_OWN_CLOSED, _OWN_TIMEOUT = re.compile("Connection closed|SSE stream "), re.compile("Request '.+' timed out")
"""The beginnings of the library's own messages."""
_LOGGERS = ("mcp", "client")
"""The names of the MCP library's loggers."""

State = Literal["idle", "up", "down", "closed"]


class ServerDown(Exception):
    """The server cannot be reached; nothing was sent to the server."""


class ServerLost(Exception):
    """The server was lost after the request was sent and before the answer arrived."""


class NoAnswer(Exception):
    """The server did not answer in time and was asked to cancel the request."""


class ServerRefused(Exception):
    """The server answered with an error or with an invalid message."""


@dataclass(slots=True)
class Link:
    """One client, from its connection to its end."""

    client: Client
    server: McpServer
    """The connected server. It is the fallback if the first server cannot be reached."""
    stop: asyncio.Event
    owner: asyncio.Task[None]


@dataclass(slots=True)
class ServerHealth:
    """The health of a server."""

    state: State = "idle"
    problem: str = ""
    """Why the server cannot be used, as a clause; empty if it can."""
    failures: int = 0
    """The number of failures since the server last answered."""
    version: str = ""
    """The version of the protocol."""
    notes: list[str] = field(default_factory=list[str])
    """Clauses about the parts of the server's answers that were left out."""


class ServerConnection:
    """Starts a server, or connects to it, on first use. Any number of tasks may send requests
    concurrently."""

    def __init__(self, servers: Sequence[McpServer], env: Mapping[str, str], logs: Path, host: Host) -> None:
        """`servers` are the server and its fallbacks, in order. `logs` is the folder for their standard
        error."""
        self.server = servers[0]
        self.health = ServerHealth()
        self.on_change: Callable[[], None] = _do_nothing
        """Called after the server reported that its tools changed."""
        self._servers = servers
        self._env = env
        self._logs = logs
        self._host = host
        self._link: Link | None = None
        self._starting = asyncio.Lock()
        self._slots = asyncio.Semaphore(_MOST_CALLS)
        self._not_before = 0.0
        self._owners: set[asyncio.Task[None]] = set()

    @property
    def has_person(self) -> bool:
        """Return whether a person can answer a question of the server now."""
        return self._host.has_person

    def pause_at_questions(self, clock: CallClock) -> AbstractContextManager[None]:
        """Pause the clock of a call while the server asks the person."""
        return self._host.pause_at_questions(self.server.name, clock)

    async def ensure_link(self) -> Link:
        """Return a connected client; raises `ServerDown`."""
        async with self._starting:
            if self._link is not None and not self._link.stop.is_set():
                return self._link
            if self.health.state == "closed":
                raise ServerDown("the session is closed")
            await self._wait_for_turn()
            self._link = await self._connect()
            self.health.state, self.health.problem = "up", ""
            return self._link

    async def ask(
        self, question: Callable[[Client], Awaitable[AnswerT]], timeout_s: float, link: Link | None = None
    ) -> AnswerT:
        """Return the answer of the server; raises `ServerDown`, `ServerLost`, `NoAnswer`, `ServerRefused`."""
        link = link or await self.ensure_link()
        try:
            async with self._slots, asyncio.timeout(timeout_s):
                answer = await question(link.client)
        except TimeoutError:
            raise NoAnswer(f"it did not answer within {timeout_s:g} s") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and (link.stop.is_set() or _OWN_CLOSED.match(error.message)):
                raise await self._report_loss(link, "it ended") from None
            raise _translate_error(error, timeout_s) from None
        except (ValidationError, RuntimeError, ValueError, LookupError, TypeError) as error:
            if link.stop.is_set():
                raise await self._report_loss(link, "it ended") from None
            raise ServerRefused(f"its answer does not fit the protocol: {one_line(str(error))}") from None
        except (httpx2.HTTPError, OSError, BaseExceptionGroup) as error:
            raise await self._report_loss(link, _describe_error(error)) from None
        self.health.failures = 0
        return answer

    async def aclose(self) -> None:
        """Close the connection and end the server. The wait for the end is limited."""
        self.health.state = "closed"
        if self._link is not None:
            self._link.stop.set()
        if self._owners:
            _, late = await asyncio.wait(self._owners, timeout=_ENDING_S)
            for owner in late:
                owner.cancel()

    async def _report_loss(self, link: Link, why: str) -> ServerLost:
        """Drop a client that no longer works; return an error with the reason."""
        if not link.stop.is_set():
            link.stop.set()
            self._fail(why)
        await asyncio.wait({link.owner}, timeout=_LAST_WORDS_S)
        return ServerLost(self.health.problem or why)

    def _fail(self, why: str) -> None:
        health = self.health
        health.failures += 1
        health.problem = why
        if health.state != "closed":
            health.state = "down"
        delay = min(_FIRST_DELAY_S * 2 ** (health.failures - 2), _LONGEST_DELAY_S)
        self._not_before = _now() + (delay if health.failures > 1 else 0)

    async def _wait_for_turn(self) -> None:
        left = self._not_before - _now()
        if left > _PATIENCE_S:
            raise ServerDown(f"{self.health.problem}; the next try is in {left:.0f} s")
        if left > 0:
            await asyncio.sleep(left)

    async def _connect(self) -> Link:
        problems: list[str] = []
        for server in self._servers:
            try:
                return await self._start(server)
            except ServerDown as down:
                problems.append(f"{server.name}: {down}" if problems else str(down))
        self._fail("; ".join(problems))
        raise ServerDown(self.health.problem)

    async def _start(self, server: McpServer) -> Link:
        """Start the server and return a client of it, not of a fallback; raises `ServerDown`."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        stop, why = asyncio.Event(), list[str]()
        owner = asyncio.create_task(self._hold_open(server, ready, stop, why))
        self._owners.add(owner)
        owner.add_done_callback(self._handle_end)
        try:
            await asyncio.wait(
                {ready, owner}, timeout=server.table.startup_timeout_s, return_when="FIRST_COMPLETED"
            )
        finally:
            if not ready.done():
                owner.cancel()
        if ready.done():
            link = Link(ready.result(), server, stop, owner)
            self.health.version = link.client.protocol_version
            return link
        if not owner.done():
            await asyncio.wait({owner}, timeout=_ENDING_S)
            raise ServerDown(f"it did not get ready within {server.table.startup_timeout_s:g} s")
        bug = None if owner.cancelled() else owner.exception()
        raise ServerDown(why[0] if why else "it ended" if bug is None else _describe_error(bug))

    async def _hold_open(
        self, server: McpServer, ready: asyncio.Future[Client], stop: asyncio.Event, why: list[str]
    ) -> None:
        """Open a client, keep it open until `stop` is set, and close it in this same task, as the library
        requires."""
        log = ErrorLog(self._logs / f"{server.name}.log")

        def report_end(clause: str) -> None:
            why.append(clause)
            if ready.done() and not stop.is_set():
                stop.set()
                self._fail(why[0])

        try:
            async with self._client(server, log, report_end) as client:
                ready.set_result(client)
                watch = asyncio.ensure_future(self._watch(client))
                try:
                    await stop.wait()
                finally:
                    watch.cancel()
                    await asyncio.wait({watch})
        except NeedsSignIn as needed:
            why.append(str(needed))
        except MissingVariable as missing:
            why.append(f"its configuration names the variable {missing}, which is not set")
        finally:
            if ready.done() and not stop.is_set():
                stop.set()
                self._fail(why[0] if why else "it ended")
            if why and (last_words := log.last_words()):
                why[0] += last_words
                self.health.problem += last_words if ready.done() else ""

    @asynccontextmanager
    async def _client(
        self, server: McpServer, log: ErrorLog, ended: Callable[[str], None]
    ) -> AsyncGenerator[Client]:
        table = server.table
        client = Client(
            cast(Any, self._transport(server, log, ended)),
            mode=table.protocol,
            read_timeout_seconds=table.startup_timeout_s,
            cache=None,
            message_handler=self._handle_message,
            elicitation_callback=self._host.elicitation_of(server),
            sampling_callback=self._host.sampling_of(server),
            list_roots_callback=self._host.roots_of(server),
        )
        with _mute_logs():
            async with client:
                yield client

    @asynccontextmanager
    async def _transport(
        self, server: McpServer, log: ErrorLog, ended: Callable[[str], None]
    ) -> AsyncGenerator[TransportStreams]:
        opened = self._streams(server, log, ended)
        async with opened as (reading, writing):
            yield CheckedStream(reading, self._note), writing

    def _streams(self, server: McpServer, log: ErrorLog, ended: Callable[[str], None]) -> Any:
        table, env = server.table, self._env
        if table.command is None:
            headers = {name: fill_variables(text, env) for name, text in table.headers.items()}

            kind, url = "sse" if table.kind == "sse" else "http", fill_variables(table.url or "", env)
            auth = None
            if table.auth == "oauth":
                auth = sign_in(server.name, url, self._logs, self._host.show_sign_in)
            return address(kind, url, headers, auth)

        command = [fill_variables(text, env) for text in (table.command, *table.args)]
        given = {name: fill_variables(text, env) for name, text in table.env.items()}
        cwd = server.folder / fill_variables(table.cwd, env) if table.cwd else server.folder
        return program(command, cwd, server_environment(env, given), log.open_file(), ended)

    def _handle_end(self, owner: asyncio.Task[None]) -> None:
        self._owners.discard(owner)
        if not owner.cancelled():
            # `exception()` marks the exception as retrieved, or else asyncio logs it. The caller has received
            # it.
            owner.exception()

    def _note(self, clause: str) -> None:
        if clause not in self.health.notes and len(self.health.notes) < 20:
            self.health.notes.append(one_line(clause))

    async def _handle_message(self, message: Any) -> None:
        """Handle a notification from a server with an older protocol version."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.on_change()

    async def _watch(self, client: Client) -> None:
        """Wait for changes of the lists of a server with a newer protocol version."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self.on_change()
        except (MCPError, RuntimeError, OSError, TimeoutError, ValueError, httpx2.HTTPError):
            # An old server reports changes to `_handle_message`. The next call notices a lost connection.
            return


@contextmanager
def _mute_logs() -> Generator[None]:
    """Keep the MCP library's log messages about server errors off the terminal if no log handler is set
    up."""
    silence, loggers = logging.NullHandler(), [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addHandler(silence)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(silence)


def _do_nothing() -> None:
    pass


def _translate_error(error: MCPError, timeout_s: float) -> Exception:
    if error.code == REQUEST_TIMEOUT and _OWN_TIMEOUT.match(error.message):
        return NoAnswer(f"it did not answer within {timeout_s:g} s")
    return ServerRefused(one_line(str(error)) or f"error {error.code}")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _describe_error(error: BaseException) -> str:
    """Describe an error in a clause; for an exception group, its first error that has a message."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no {error.filename}"
    return one_line(str(error)) or type(error).__name__
