"""Slash commands in an editor: built-in ones, Markdown files, and the prompts of tool servers."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from ...actions.ports.events import Event
from ...actions.tools.registry import SERVER_PREFIX
from ...actions.turn.commands import is_command, parse_command
from ...agent.extensions.extension import load
from ...agent.extensions.prompt_commands import PromptCommand, find_commands
from ...agent.runtime.tool_servers import ServerPrompt
from ...state.conversation.messages import UserContent
from ..chat.slash.command import EditorAnswer, EditorContext
from ..chat.slash.server_prompts import fetch_prompt, find_prompts
from ..chat.slash.table import editor_entries

CONTINUE = "/continue"
_LEAVING = ("exit", "quit")


async def list_available(context: EditorContext) -> list[AvailableCommand]:
    """Return the commands of a session, including the prompts of its tool servers."""
    prompts = find_prompts(context.runtime, context.session)
    listed = () if prompts is None else await prompts.list_prompts()
    hints = {"mode": "|".join(context.offered_modes)}
    return [
        *(_command(one.name, one.summary, hints.get(one.name, one.usage)) for one in editor_entries()),
        *(_command(one.name, one.description, one.argument_hint) for one in _files(context).values()),
        *(_of_server(prompt) for prompt in listed),
    ]


def _files(context: EditorContext) -> Mapping[str, PromptCommand]:
    """Return the commands that are markdown files of the person and the project."""
    found = find_commands(Path(context.session.settings.cwd), context.runtime.env)
    taken = {*_LEAVING, *(name for one in editor_entries() for name in (one.name, *one.aliases))}
    return {name: one for name, one in found.commands.items() if name not in taken}


def _command(name: str, description: str, hint: str = "") -> AvailableCommand:
    given = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=description, input=given)


def _of_server(prompt: ServerPrompt) -> AvailableCommand:
    words = (one.name if one.is_required else f"[{one.name}]" for one in prompt.arguments)
    described = prompt.description or f"a prompt of the tool server {prompt.server}"
    return _command(prompt.command[1:], described, " ".join(words))


class CommandAnswered(Exception):
    """Raised if a command is answered without a run; the message is the answer."""


def find_file_model(content: UserContent, context: EditorContext) -> str:
    """Return the model that the Markdown file of a command names; an empty text means the session's model."""
    typed = parse_command(content) if isinstance(content, str) else None
    file = None if typed is None else _files(context).get(typed[0])
    return "" if file is None else file.model


async def events_of(message: UserContent, context: EditorContext) -> AsyncIterator[Event]:
    """Return the events of a message or a command; raises `CommandAnswered` and `UsageError`."""
    typed = parse_command(message) if isinstance(message, str) else None
    if typed is None or not isinstance(message, str):
        return context.session.send(message)
    name, words = typed
    if name.lower() in _LEAVING:
        raise CommandAnswered("The editor closes its sessions; the messages of this one stay in the store.")
    entry = next((one for one in editor_entries() if name.lower() in (one.name, *one.aliases)), None)
    if entry is not None:
        answer: EditorAnswer = await load(entry.editor)(context, words)
        if isinstance(answer, str):
            raise CommandAnswered(answer)
        return answer
    if name.lower().startswith(SERVER_PREFIX):
        prompts = find_prompts(context.runtime, context.session)
        return context.session.send(await fetch_prompt(message, prompts))
    if (file := _files(context).get(name)) is not None:
        text = file.message(words)
        # The content of a file is always a message, even if it looks like a command.
        return context.session.send(f"The command {file.name} says: {text}" if is_command(text) else text)
    return context.session.send(message)


async def go_on(context: EditorContext, words: str) -> EditorAnswer:
    """Continue the session where it was interrupted."""
    if context.session.next_action == "prompt":
        return "Nothing was interrupted here."
    return context.session.carry_on()
