"""The tools of all configured tool servers, as a tool source for the sessions of a process."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ....actions.ports import Model, Tool, UserInput
from ....actions.tools.registry import SERVER_PREFIX
from ....state.errors import ConfigError, UsageError
from ....state.lazy_dataclass import dataclass
from ...config.settings import Settings
from ...runtime.tool_servers import OnElicitation
from .catalogue import Catalogue, ListedTool
from .configuration.servers import McpServer
from .connection import NoAnswer, ServerConnection, ServerDown, ServerHealth, ServerLost, ServerRefused
from .content.program import ProgramServers
from .content.prompts import Prompts
from .content.resources import resource_tools
from .server_requests.inquiry import ANSWER, AnswerQuestion, Inquiries
from .server_requests.questions import Host, ask_program, ask_user
from .server_requests.sampling import Sampler
from .tool import McpTool
from .transport.oauth import ShowAddress

SLOW_S = 4.0
"""A longer wait for a server at the start of a session is reported, in seconds."""
_MOST_NAME_CHARS = 64
"""The longest tool name that all providers accept."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools and notices of one server for a session."""

    tools: tuple[Tool, ...] = ()
    notices: tuple[str, ...] = ()
    problem: str = ""
    """Why the server is left out; empty if it is available."""
    may_ask: bool = False
    """Whether the server can end a call with a question for the person."""


class McpSource:
    """Starts the servers concurrently when tools are first requested; a server that fails is left out with a
    notice."""

    name = "mcp"

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        env: Mapping[str, str],
        logs: Path,
        host: Host | None = None,
        slow_s: float = SLOW_S,
    ) -> None:
        """`logs` is the folder for the standard error of servers. A wait of more than `slow_s` seconds is
        reported."""
        self._slow_s = slow_s
        self._waited_s: dict[str, float] = {}
        self._was_read_again = False
        self._notices: list[str] = []
        self._connections: dict[str, ServerConnection] = {}
        self._offered: dict[str, Offered] = {}
        self._opening = asyncio.Lock()
        self._catalogues: dict[str, Catalogue] = {}
        for name, server in servers.items():
            if not server.table.disabled:
                chain = _with_fallback(server, servers, self._notices)
                self._connections[name] = ServerConnection(chain, env, logs, host or Host())
        self._inquiries = Inquiries(logs / "questions")
        self.prompts = Prompts(self._connections)

    async def tools(self) -> Sequence[Tool]:
        """Return the tools of every server that is ready in time; each server is asked once.

        Raises `ConfigError` if a required server fails. The next session then tries again.
        """
        async with self._opening:
            missing = [name for name in self._connections if self._needs_asking(name)]
            self._was_read_again = self._was_read_again or any(name in self._offered for name in missing)
            found = dict(
                zip(missing, await asyncio.gather(*map(self._connect_in_time, missing)), strict=True)
            )
            refused = [name for name in missing if found[name].problem and self._is_required(name)]
            self._offered |= {name: offered for name, offered in found.items() if name not in refused}
            for name in refused:
                raise ConfigError(
                    f"The tool server {name} is required and cannot be used: {found[name].problem}.",
                    "Make the server work, or remove `required` from its configuration.",
                )
        tools: dict[str, Tool] = {}
        for offered in self._in_order():
            for tool in offered.tools:
                tools.setdefault(tool.spec.name, tool)
        if any(offered.may_ask for offered in self._in_order()):
            known = {name: tool for name, tool in tools.items() if isinstance(tool, McpTool)}
            tools[ANSWER] = AnswerQuestion(self._inquiries, known)
        return tuple(tools.values())

    def _needs_asking(self, name: str) -> bool:
        catalogue = self._catalogues.get(name)
        return name not in self._offered or (catalogue is not None and catalogue.is_stale)

    @property
    def may_have_changed(self) -> bool:
        """Return whether any server has reported a change of its list of tools."""
        return self._was_read_again or any(catalogue.is_stale for catalogue in self._catalogues.values())

    def notices(self) -> Sequence[str]:
        found_notices = [notice for offered in self._in_order() for notice in offered.notices]
        changed = [
            f"The tool server {name} has changed its list of tools. The next run uses the new list."
            for name, catalogue in self._catalogues.items()
            if catalogue.has_changed
        ]
        return (*self._notices, *self._report_slowest(), *found_notices, *changed)

    def for_program(self) -> ProgramServers:
        """Return the interface to the servers for programs."""
        return ProgramServers(self)

    def _is_required(self, name: str) -> bool:
        return self._connections[name].server.table.required

    def health(self) -> Mapping[str, ServerHealth]:
        """Return the health of each server."""
        return {name: connection.health for name, connection in self._connections.items()}

    async def aclose(self) -> None:
        """End all servers concurrently."""
        await asyncio.gather(*(connection.aclose() for connection in self._connections.values()))

    def connection_of(self, server: str) -> ServerConnection:
        """Return the connection to a server; raises `UsageError` for an unknown one."""
        if server not in self._connections:
            known = ", ".join(self._connections) or "none"
            raise UsageError(f"There is no tool server {server!r}.", f"The servers are: {known}.")
        return self._connections[server]

    def list_server_tools(self) -> Sequence[McpTool]:
        """Return the tools of all servers, under their names in sessions."""
        return [tool for offered in self._in_order() for tool in offered.tools if isinstance(tool, McpTool)]

    def _in_order(self) -> list[Offered]:
        return [self._offered[name] for name in self._connections if name in self._offered]

    async def _connect_in_time(self, name: str) -> Offered:
        began = time.monotonic()
        try:
            return await self._make_offer(self._connections[name])
        finally:
            self._waited_s[name] = time.monotonic() - began

    def _report_slowest(self) -> list[str]:
        """Return a notice about the server that delayed the session start most, if the delay was long."""
        name = max(self._waited_s, key=self._waited_s.__getitem__, default="")
        waited_s = self._waited_s.get(name, 0.0)
        if waited_s <= self._slow_s:
            return []
        return [
            f"The session waited {waited_s:.0f} s for the tool server {name} to start."
            " `startup_timeout_s` limits this wait."
        ]

    async def _make_offer(self, connection: ServerConnection) -> Offered:
        name = connection.server.name
        catalogue = self._catalogues.setdefault(name, Catalogue(connection))
        try:
            definitions = await catalogue.read()
            link = await connection.ensure_link()
            readers = await resource_tools(connection, link)
        except (ServerDown, ServerLost, NoAnswer, ServerRefused) as problem:
            return Offered(notices=(f"The tool server {name} is left out: {problem}.",), problem=str(problem))
        tools = self._name_tools(definitions, catalogue)
        may_ask = bool(tools) and link.client.protocol_version in MODERN_PROTOCOL_VERSIONS
        return Offered((*tools, *readers), tuple(catalogue.notices), may_ask=may_ask)

    def _name_tools(self, definitions: Sequence[ListedTool], catalogue: Catalogue) -> list[McpTool]:
        """Return the tools under their names for models. A name that is already in use is reported."""
        found: dict[str, McpTool] = {}
        server = catalogue.connection.server.name
        for definition in definitions:
            name = tool_name(server, definition.tool.name)
            if name in found:
                catalogue.notices.append(
                    f"The tool server {server} has two tools whose names would become {name}."
                )
                continue
            found[name] = McpTool(name, definition, catalogue, self._inquiries)
        return list(found.values())


def _with_fallback(
    server: McpServer, servers: Mapping[str, McpServer], notices: list[str]
) -> tuple[McpServer, ...]:
    fallback = server.table.fallback
    if fallback is None:
        return (server,)
    if fallback not in servers or fallback == server.name:
        notices.append(f"The fallback of the tool server {server.name} is not another server: {fallback}.")
        return (server,)
    return server, servers[fallback]


def tool_name(server: str, tool: str) -> str:
    """Return `mcp__server__tool`, changed to the characters and the length that every provider accepts."""
    name = f"{SERVER_PREFIX}{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) <= _MOST_NAME_CHARS:
        return name
    return f"{name[: _MOST_NAME_CHARS - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


def open_source(
    settings: Settings,
    env: Mapping[str, str],
    connect: Callable[[], Model] | None,
    on_elicitation: OnElicitation | None = None,
    show_sign_in: ShowAddress | None = None,
    user_input: UserInput | None = None,
) -> tuple[McpSource, Sampler | None]:
    """Return the configured servers, and the sampler that calls a model for them; None without `connect`.

    `connect` creates the model. `on_elicitation`, or `user_input` without it, answers questions of servers.
    `show_sign_in` begins a new sign-in where a server requires one.
    """
    sampler = None if connect is None else Sampler(connect)
    host = Host(
        roots=(settings.cwd, *settings.add_dirs),
        samples=sampler,
        asks_person=ask_program(on_elicitation) or ask_user(user_input),
        show_sign_in=show_sign_in,
    )
    return McpSource(settings.of("mcp_servers"), env, settings.home / "mcp", host), sampler
