"""Slash commands in an editor: those that change a session, and the prompts of tool servers."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

from acp.schema import AvailableCommand, AvailableCommandInput, UnstructuredCommandInput

from ...actions.ports.events import Event
from ...actions.tools.registry import SERVER_PREFIX
from ...actions.turn.commands import is_command, parse_command, parse_mode_command
from ...agent.extensions.mcp.prompts import ServerPrompt
from ...agent.extensions.prompt_commands import PromptCommand, find_commands
from ...agent.extensions.skills.catalogue import find_skills
from ...agent.runtime.runtime import Runtime
from ...agent.session.session import Session
from ...state.application import ExecutionMode
from ...state.conversation.messages import UserContent
from ...state.errors import UsageError
from ..chat.slash.server_prompts import fetch_prompt, find_prompts, prompt_lines

CONTINUE = "/continue"


async def available(
    runtime: Runtime, session: Session, modes: tuple[ExecutionMode, ...]
) -> list[AvailableCommand]:
    """Return the commands of a session, including the prompts of its tool servers."""
    prompts = find_prompts(runtime, session)
    listed = () if prompts is None else await prompts.list_prompts()
    written_here = _files(runtime, session)
    return [
        _command("mode", "change what runs unasked", "|".join(modes)),
        _command("model", "go on with another model", "PROVIDER/MODEL"),
        _command("compact", "put a summary in the place of the older messages", "what to keep"),
        _command(CONTINUE[1:], "go on where the session was interrupted"),
        _command("help", "list the commands"),
        _command("skill", "work by a skill; without a name: which there are", "NAME task"),
        *(_command(one.name, one.description, one.argument_hint) for one in written_here.values()),
        *(_of_server(prompt) for prompt in listed),
    ]


_OWN = ("mode", "model", "compact", "continue", "help", "skill", "exit", "quit", "mcp")


def _files(runtime: Runtime, session: Session) -> Mapping[str, PromptCommand]:
    """Return the commands that are markdown files of the person and the project."""
    found = find_commands(Path(session.settings.cwd), runtime.env)
    return {name: one for name, one in found.commands.items() if name not in _OWN}


def _command(name: str, description: str, hint: str = "") -> AvailableCommand:
    given = AvailableCommandInput(root=UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=description, input=given)


def _of_server(prompt: ServerPrompt) -> AvailableCommand:
    words = (one.name if one.is_required else f"[{one.name}]" for one in prompt.arguments)
    described = prompt.description or f"a prompt of the tool server {prompt.server}"
    return _command(prompt.command[1:], described, " ".join(words))


class CommandAnswered(Exception):
    """A command was answered, and nothing runs; the message is the answer."""


class ModelAsked(NamedTuple):
    """Another model, for the session from now on or for one answer."""

    name: str
    is_for_good: bool


def model_for(content: UserContent, runtime: Runtime, session: Session) -> ModelAsked | None:
    """Return the model that a message selects: by `/model NAME`, or by its Markdown file."""
    typed = parse_command(content) if isinstance(content, str) else None
    if typed is None:
        return None
    name, words = typed
    if name.lower() == "model":
        if not words:
            raise CommandAnswered(
                f"The model is {session.ports.model.name}. Another one: `/model PROVIDER/MODEL`"
            )
        return ModelAsked(words, True)
    file = _files(runtime, session).get(name)
    return ModelAsked(file.model, False) if file is not None and file.model else None


async def events_of(
    text: UserContent, runtime: Runtime, session: Session, modes: tuple[ExecutionMode, ...]
) -> AsyncIterator[Event]:
    """Return the events of a message or a command; raises `CommandAnswered` and `UsageError`."""
    if not isinstance(text, str) or not is_command(text):
        return session.send(text)
    command = text.split()[0].lower()
    if command == CONTINUE:
        if session.next_action == "prompt":
            raise CommandAnswered("Nothing was interrupted here.")
        return session.carry_on()
    if command in ("/exit", "/quit"):
        raise CommandAnswered("The editor closes its sessions; the messages of this one stay in the store.")
    if command == "/help":
        listed = await available(runtime, session, modes)
        raise CommandAnswered("\n".join(f"- `/{one.name}` {one.description}" for one in listed))
    if command == "/mcp" or command.startswith(f"/{SERVER_PREFIX}"):
        return await _send_prompt(text, runtime, session)
    if command == "/skill":
        return session.send(_by_skill(text, runtime, session))
    if (file := _files(runtime, session).get(text.split()[0][1:])) is not None:
        message = file.message(text.strip().partition(" ")[2].strip())
        # The content of a file is always a message, even if it looks like a command.
        return session.send(f"The command {file.name} says: {message}" if is_command(message) else message)
    mode = parse_mode_command(text)
    if mode is not None and mode not in modes:
        raise UsageError(f"The mode {mode} is not offered here.", "Start it with: sandbur acp --mode yolo")
    return session.send(text)


def _by_skill(text: str, runtime: Runtime, session: Session) -> str:
    """Return a skill with its task; raises `CommandAnswered` with the list of skills."""
    found = find_skills(Path(session.settings.cwd), runtime.env).skills
    name, _, task = text.strip().partition(" ")[2].strip().partition(" ")
    if not name:
        known = [f"- `{one.name}` {one.description}" for one in found.values()]
        raise CommandAnswered("\n".join(known or ["There are no skills here."]))
    skill = found.get(name)
    if skill is None:
        raise UsageError(f"There is no skill {name[:64]}.", "/skill lists them.")
    return f"{skill.text()}\n\n---\n{task.strip() or 'Work by this skill from now on.'}"


async def _send_prompt(text: str, runtime: Runtime, session: Session) -> AsyncIterator[Event]:
    prompts = find_prompts(runtime, session)
    if text.strip() == "/mcp":
        raise CommandAnswered("\n".join(await prompt_lines(prompts)))
    return session.send(await fetch_prompt(text, prompts))
