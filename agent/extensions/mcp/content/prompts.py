"""Prompts of tool servers as slash commands of the chat: `/mcp__server__prompt`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import mcp_types as types
from mcp import Client

from .....state.errors import UsageError
from ....runtime.tool_servers import PromptArgument, ServerPrompt
from ..connection import NoAnswer, ServerConnection, ServerDown, ServerLost, ServerRefused
from ..results import read_blocks
from ..text import one_line, plain

_MOST_PAGES = 10
MOST_PROMPTS = 100
_MOST_CHARS = 50_000


class Prompts:
    """The prompts of all tool servers of a session."""

    def __init__(self, connections: Mapping[str, ServerConnection]) -> None:
        self._connections = connections

    async def list_prompts(self) -> Sequence[ServerPrompt]:
        """Return the prompts of every server that answers."""
        found = await asyncio.gather(*map(_list_server_prompts, self._connections.values()))
        return [prompt for prompts in found for prompt in prompts]

    async def render_prompt(self, prompt: ServerPrompt, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt. Raises `UsageError` if an argument is missing or the server fails."""
        missing = [one.name for one in prompt.arguments if one.is_required and one.name not in arguments]
        if missing:
            raise UsageError(f"{prompt.command} needs {missing[0]}.", f"Add {missing[0]}=VALUE to it.")
        connection = self._connections[prompt.server]
        try:
            result = await connection.ask(
                lambda client: client.get_prompt(prompt.name, dict(arguments)),
                connection.server.table.timeout_s,
            )
        except (ServerDown, ServerLost, NoAnswer, ServerRefused) as problem:
            raise UsageError(f"{prompt.command}: the tool server {prompt.server}: {problem}.") from None
        texts = [text for message in result.messages for text in read_blocks([message.content])[0]]
        return plain("\n\n".join(texts), _MOST_CHARS)


async def _list_server_prompts(connection: ServerConnection) -> list[ServerPrompt]:
    found: list[ServerPrompt] = []
    try:
        link = await connection.ensure_link()
        if link.client.server_capabilities.prompts is None:
            return []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await connection.ask(_page(cursor), connection.server.table.startup_timeout_s, link)
            found += [_prompt(connection.server.name, one) for one in page.prompts]
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_PROMPTS:
                break
    except (ServerDown, ServerLost, NoAnswer, ServerRefused):
        # A server that does not answer is reported by the tool source.
        return found
    return found[:MOST_PROMPTS]


def _page(cursor: str | None) -> Callable[[Client], Awaitable[types.ListPromptsResult]]:
    return lambda client: client.list_prompts(cursor=cursor)


def _prompt(server: str, prompt: types.Prompt) -> ServerPrompt:
    arguments = tuple(
        PromptArgument(one.name, one_line(one.description or ""), bool(one.required))
        for one in prompt.arguments or ()
    )
    return ServerPrompt(server, prompt.name, one_line(prompt.description or prompt.title or ""), arguments)
