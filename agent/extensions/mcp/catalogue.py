"""The tools that a server lists: read within limits, and compared with those that a session recorded."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence

import mcp_types as types
from mcp import Client

from .connection import Link, ServerConnection
from .schemas import UnfitSchema, usable
from .text import one_line

MOST_TOOLS = 128
MOST_PAGES = 20
_SETTLING_S = 0.1
_DEBOUNCE_S = 2.0
"""The least number of seconds between two readings of a tool list that a server keeps changing."""


class ListedTool:
    """A tool as its server describes it, with digests of the description."""

    def __init__(self, tool: types.Tool) -> None:
        """Check the tool; raises `UnfitSchema` if its schema cannot be used."""
        self.tool = tool
        self.schema = usable(tool.input_schema)
        described = [tool.name, tool.description, tool.input_schema]
        self.digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:8]
        """The digest of the declaration. A person's approval depends on it."""
        self.form = hashlib.sha256(json.dumps([tool.name, self.schema], sort_keys=True).encode()).hexdigest()
        """The digest of the name and the schema, which a call depends on. A fallback server may describe the
        same tool in other words."""

    @property
    def hints(self) -> str:
        """Return the hints of the server about the tool, for a person to read. Nothing verifies them."""
        notes = self.tool.annotations
        if notes is None:
            return ""
        texts = [
            "only reads" if notes.read_only_hint else "",
            "destroys nothing" if notes.destructive_hint is False else "",
            "destructive" if notes.destructive_hint and not notes.read_only_hint else "",
            "may run twice" if notes.idempotent_hint else "",
        ]
        return ", ".join(filter(None, texts))


class Catalogue:
    """The tools of one server, under the names that the server gives them."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.notices: list[str] = []
        """Sentences about list entries that were left out."""
        self.has_changed = False
        """Whether the list differs from the one that sessions recorded."""
        self._current: dict[str, ListedTool] = {}
        self._announced: frozenset[str] = frozenset()
        self._link: Link | None = None
        self.is_stale = False
        """Whether the server has reported a change since the list was last read."""
        self._read_at = 0.0
        self._reading = asyncio.Lock()
        connection.on_change = self._outdate

    async def read(self) -> Sequence[ListedTool]:
        """Return the tools that the configuration selects, in the server's order.

        Raises the exceptions of `ServerConnection.ask`.
        """
        link = await self.connection.ensure_link()
        await self._read(link)
        if getattr(link.client.server_capabilities.tools, "list_changed", False):
            # Some servers add tools right after the handshake.
            await asyncio.sleep(_SETTLING_S)
            if self.is_stale:
                await self._read(link)
        self._announced, self.has_changed = self._digests(), False
        wanted = self.connection.server.table.tools
        if wanted is None:
            return tuple(self._current.values())
        missing = [name for name in wanted if name not in self._current]
        self.notices += [f"{self._who} has no tool {one_line(name, 60)}." for name in missing]
        return tuple(tool for name, tool in self._current.items() if name in wanted)

    async def describe_change(self, listed: ListedTool, link: Link) -> str:
        """Return a sentence if the tool differs from what the session recorded; otherwise an empty text."""
        async with self._reading:
            if link is not self._link or self._needs_reading():
                await self._read(link)
        now = self._current.get(listed.tool.name)
        if now is None:
            return f"{self._who} has no tool {listed.tool.name} any more. The call did not run."
        is_same = now.digest == listed.digest
        if link.server is not self.connection.server:
            is_same = now.form == listed.form
        if is_same:
            return ""
        return (
            f"{self._who} has changed its tool {listed.tool.name} since this session recorded it."
            " The call did not run. The next run uses the changed tool."
        )

    @property
    def _who(self) -> str:
        return f"The tool server {self.connection.server.name}"

    def _digests(self) -> frozenset[str]:
        return frozenset(tool.digest for tool in self._current.values())

    def _outdate(self) -> None:
        self.is_stale = True

    def _needs_reading(self) -> bool:
        return self.is_stale and asyncio.get_running_loop().time() - self._read_at >= _DEBOUNCE_S

    async def _read(self, link: Link) -> None:
        self.is_stale = False
        listed = await self._fetch_tools(link)
        self.notices.clear()
        found: dict[str, ListedTool] = {}
        for tool in listed[:MOST_TOOLS]:
            if problem := self._add_tool(tool, found):
                self.notices.append(f"{self._who}: {problem}.")
        if len(listed) > MOST_TOOLS:
            self.notices.append(
                f"{self._who} lists {len(listed):,} tools or more; the first {MOST_TOOLS} are used."
                " Select tools by name in `tools` of its configuration."
            )
        self.notices += [f"{self._who}: {note}." for note in self.connection.health.notes]
        self._current, self._link = found, link
        self.has_changed = self._digests() != self._announced
        self._read_at = asyncio.get_running_loop().time()

    def _add_tool(self, tool: types.Tool, found: dict[str, ListedTool]) -> str:
        """Add a tool to `found`; return an empty text, or a clause that says why it was left out."""
        if tool.name in found:
            return f"it lists {one_line(tool.name, 60)} twice; the first one counts"
        try:
            found[tool.name] = ListedTool(tool)
        except UnfitSchema as unfit:
            return f"its tool {one_line(tool.name, 60)} is left out: {unfit}"
        return ""

    async def _fetch_tools(self, link: Link) -> list[types.Tool]:
        if link.client.server_capabilities.tools is None:
            return []
        wanted = self.connection.server.table.tools
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self.connection.ask(_page(cursor), link.server.table.startup_timeout_s, link)
            found += [tool for tool in page.tools if wanted is None or tool.name in wanted]
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_TOOLS:
                break
        return found


def _page(cursor: str | None) -> Callable[[Client], Awaitable[types.ListToolsResult]]:
    return lambda client: client.list_tools(cursor=cursor)
