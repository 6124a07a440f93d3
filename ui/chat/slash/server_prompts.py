"""`/mcp__SERVER__PROMPT` sends a prompt of a tool server; `/mcp` lists the prompts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....actions.tools.registry import SERVER_PREFIX
from ....actions.turn.commands import is_command
from ....agent.extensions.mcp.mcp_runtime import McpRuntime
from ....state.errors import UsageError
from ...terminal.text.sanitize import one_line
from .command import DONE, EditorContext, SlashCommand, SlashContext, SlashResult, tell

if TYPE_CHECKING:
    from ....agent.extensions.mcp.content.prompts import Prompts
    from ....agent.runtime.runtime import Runtime
    from ....agent.runtime.tool_servers import ServerPrompt
    from ....agent.session.session import Session

_LIST = "/mcp"


async def show(context: SlashContext, words: str) -> SlashResult:
    prompts = find_prompts(context.runtime, context.session)
    tell(context, *await prompt_lines(prompts))
    return DONE


async def show_in_editor(context: EditorContext, words: str) -> str:
    """Return the prompts of the session's tool servers, one on each line."""
    return "\n".join(await prompt_lines(find_prompts(context.runtime, context.session)))


def server_prompt(name: str) -> SlashCommand | None:
    """Return the command for a prompt of a server; None if the name is not one."""
    if not name.startswith(SERVER_PREFIX):
        return None

    async def run(context: SlashContext, words: str) -> SlashResult:
        """Print the prompt of a tool server, then send it."""
        message = await fetch_prompt(f"/{name} {words}", find_prompts(context.runtime, context.session))
        tell(context, message)
        await context.send(message)
        return DONE

    return SlashCommand(name, "", "", "Tool servers", run, at_question=False)


def find_prompts(runtime: Runtime, session: Session) -> Prompts | None:
    """Return the prompts of the tool servers of a session; None if it has no servers."""
    servers = runtime.extension("mcp")
    return servers.prompts(session.settings) if isinstance(servers, McpRuntime) else None


async def prompt_lines(prompts: Prompts | None) -> list[str]:
    """Return a line for each prompt: its command and its description."""
    listed: Sequence[ServerPrompt] = () if prompts is None else await prompts.list_prompts()
    return [_line(prompt) for prompt in listed] or ["No tool server of this session has prompts."]


async def fetch_prompt(text: str, prompts: Prompts | None) -> str:
    """Fetch the text of the typed prompt from its server; raises `UsageError`."""
    name, _, rest = text.strip().partition(" ")
    listed: Sequence[ServerPrompt] = () if prompts is None else await prompts.list_prompts()
    found = next((prompt for prompt in listed if prompt.command == name), None)
    if found is None or prompts is None:
        raise UsageError(f"There is no prompt {name[:80]}.", f"{_LIST} lists them.")
    rendered = await prompts.render_prompt(found, _arguments(rest, found))
    if is_command(rendered) or rendered.strip() in ("exit", "quit"):
        # Text of a server is always sent as a message, never run as a command.
        return f"The tool server {found.server} says: {rendered}"
    return rendered


def _arguments(rest: str, prompt: ServerPrompt) -> dict[str, str]:
    """Read `NAME=VALUE` and, in the order of the prompt's arguments, plain values."""
    try:
        words: Sequence[str] = shlex.split(rest)
    except ValueError:
        raise UsageError(f"{prompt.command}: a quote is not closed.") from None
    names = [one.name for one in prompt.arguments]
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in names:
            found[name] = value
            continue
        open_names = [one for one in names if one not in found]
        if not open_names:
            raise UsageError(f"{prompt.command}: `{word}` is one word too many.")
        found[open_names[0]] = word
    return found


def _line(prompt: ServerPrompt) -> str:
    words = [one.name if one.is_required else f"[{one.name}]" for one in prompt.arguments]
    return one_line(f"{' '.join([prompt.command, *words])}   {prompt.description}".rstrip())
