"""One tool of a tool server as a tool of sessions."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types
from mcp import Client

from ....actions.ports import ToolContext, ToolOutcome, ToolSpec, ToolTraits
from ....state.calls import Effect
from ....state.process.crashpoints import reach
from .catalogue import Catalogue, ListedTool
from .connection import NoAnswer, ServerDown, ServerLost, ServerRefused
from .results import outcome_of
from .schemas import Arguments
from .server_requests.inquiry import Inquiries, Inquiry, Responses, ask_client, describe_inquiry, responses_of
from .text import one_line, plain

Answered = tuple[Inquiry, dict[str, dict[str, Any]]]
"""A question of a server, and the answers: key of a request -> field name -> value."""
MOST_DESCRIPTION_CHARS = 4000
_TIMES_LONGER = 10
"""A call that reports progress may take this many times its time limit."""
_TELL_EVERY_S = 0.2


def effect_by_hints(tool: types.Tool) -> Effect:
    """Return the effect class of a tool according to the server's hints."""
    notes = tool.annotations
    if notes is None:
        return "effect"
    if notes.read_only_hint:
        return "read"
    return "idempotent" if notes.idempotent_hint else "effect"


class McpTool:
    """A tool of a server. Each call returns an outcome, even if the server fails."""

    def __init__(self, name: str, definition: ListedTool, catalogue: Catalogue, inquiries: Inquiries) -> None:
        self._catalogue = catalogue
        self._inquiries = inquiries
        self._connection = connection = catalogue.connection
        self._definition = definition
        tool, server = definition.tool, connection.server
        description = plain(tool.description or tool.title or "", MOST_DESCRIPTION_CHARS)
        self.spec = ToolSpec(name, description or f"A tool of the server {server.name}.", definition.schema)
        self._arguments = Arguments(name, definition.schema)
        self.effect: Effect = effect_by_hints(tool) if server.table.trust_hints else "effect"
        self.traits = ToolTraits(description=_describe_tool(server.name, definition))

    @property
    def server(self) -> str:
        """Return the name of the server."""
        return self._connection.server.name

    @property
    def name_there(self) -> str:
        """Return the name of the tool at its server."""
        return self._definition.tool.name

    def parse(self, arguments: str) -> dict[str, Any]:
        return self._arguments.parse_arguments(arguments)

    def effect_of(self, arguments: Any) -> Effect:
        return self.effect

    def subject(self, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON, because only the server knows their meaning."""
        return json.dumps(arguments, ensure_ascii=False, sort_keys=True)

    def paths(self, arguments: Any) -> Sequence[str]:
        return ()

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return await self._call_with_retry(lambda: self._call_server(arguments, context))

    async def go_on(
        self, inquiry: Inquiry, contents: dict[str, dict[str, Any]], context: ToolContext
    ) -> ToolOutcome:
        """Continue a call whose server asked a question, now with the person's answer."""
        return await self._call_with_retry(
            lambda: self._call_server(inquiry.arguments, context, (inquiry, contents))
        )

    async def _call_with_retry(self, work: Callable[[], Awaitable[ToolOutcome]]) -> ToolOutcome:
        """Call the server. Retry once if the connection was lost and a repetition is harmless."""
        try:
            return await work()
        except ServerLost as lost:
            if self.effect == "effect":
                return self._unknown(f"went away while this ran ({lost})")
            try:
                return await work()
            except ServerLost as again:
                return self._make_error(f"went away twice while this ran ({lost}; {again})")

    async def _call_server(
        self, arguments: dict[str, Any], context: ToolContext, answered: Answered | None = None
    ) -> ToolOutcome:
        """Call the server once; raises `ServerLost`."""
        progress = CallProgress(context, self._connection.server.table.timeout_s)
        try:
            link = await self._connection.ensure_link()
            if problem := await self._catalogue.describe_change(self._definition, link):
                return ToolOutcome("error", problem)

            async def question(client: Client) -> types.CallToolResult | types.InputRequiredResult:
                reach("mcp_call")
                name = self._definition.tool.name
                given: tuple[Responses, str | None] = ({}, None)
                if answered is not None:
                    given = await responses_of(client, *answered), answered[0].result.request_state
                return await ask_client(client, name, arguments, progress, self._connection.has_person, given)

            with self._connection.pause_at_questions(progress):
                result = await progress.watch_work(self._connection.ask(question, progress.longest_s, link))
            if isinstance(result, types.InputRequiredResult):
                return self._inquire(arguments, result)
            return outcome_of(result)
        except ServerDown as down:
            return self._make_error(f"cannot be reached, and this was not run: {down}")
        except NoAnswer as late:
            server = self._connection.server.name
            return ToolOutcome(
                "timeout",
                f"The tool server {server} was asked to cancel the call: {late}. It may have taken effect.",
            )
        except ServerRefused as refusal:
            return self._make_error(f"refused: {refusal}")

    def _inquire(self, arguments: dict[str, Any], result: types.InputRequiredResult) -> ToolOutcome:
        """Store the server's question for the person, and return an outcome that describes it to the
        model."""
        required = result.model_dump_json(by_alias=True, exclude_none=True)
        inquiry = Inquiry(tool=self.spec.name, arguments=arguments, required=required)
        name = self._inquiries.keep(inquiry)
        return ToolOutcome("ok", describe_inquiry(self._connection.server.name, name, inquiry))

    def _make_error(self, clause: str) -> ToolOutcome:
        return ToolOutcome("error", f"The tool server {self._connection.server.name} {clause}.")

    def _unknown(self, clause: str) -> ToolOutcome:
        return ToolOutcome(
            "unknown",
            f"The tool server {self._connection.server.name} {clause}. It may or may not have taken effect."
            " It was not run again: verify its effect before you repeat it.",
        )


class CallProgress:
    """Reports the progress of a running call. Each report restarts the call's time limit."""

    def __init__(self, context: ToolContext, quiet_s: float) -> None:
        self.longest_s = quiet_s * _TIMES_LONGER
        self._quiet_s = quiet_s
        self._context = context
        self._next_telling = 0.0
        self._deadline: asyncio.Timeout | None = None
        self._is_paused = False

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        now = time.monotonic()
        if not self._is_paused:
            self.restart()
        if now >= self._next_telling:
            self._next_telling = now + _TELL_EVERY_S
            of = f"/{total:g}" if total else ""
            self._context.emit(f"{progress:g}{of} {one_line(message or '')}".rstrip() + "\n")

    def pause(self) -> None:
        """Pause the time limit, because the call waits for a person."""
        self._is_paused = True
        self._set_deadline(None)

    def restart(self) -> None:
        """Let the time limit begin again now."""
        self._is_paused = False
        self._set_deadline(asyncio.get_running_loop().time() + self._quiet_s)

    def _set_deadline(self, when: float | None) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(when)

    async def watch_work(self, work: Any) -> Any:
        """Return the result of `work`. Raises `NoAnswer` after `quiet_s` seconds without a message."""
        try:
            async with asyncio.timeout(self._quiet_s) as self._deadline:
                return await work
        except TimeoutError:
            raise NoAnswer(f"it sent no message for {self._quiet_s:g} s") from None
        finally:
            self._deadline = None


def _describe_tool(server: str, definition: ListedTool) -> str:
    hints = f"; the server states: {definition.hints}" if definition.hints else ""
    return f"a tool of the server {server}{hints} (definition {definition.digest})"
