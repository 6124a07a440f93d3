"""Commands beside those of the table: of installed packages, and of markdown files."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ....agent.config.paths import text_folders
from ....agent.extensions.prompt_commands import find_commands
from ....state.errors import UsageError
from ...terminal.text.sanitize import one_line
from .command import DONE, SlashCommand, SlashContext, SlashResult, command_of, tell
from .table import COMMANDS, package_entries

if TYPE_CHECKING:
    from ....agent.extensions.prompt_commands import PromptCommand

YOURS = "Your commands"


def more_commands(cwd: Path, env: Mapping[str, str]) -> tuple[Sequence[SlashCommand], Sequence[str]]:
    """Return the commands of packages and files, and notices. Commands of the table take precedence."""
    taken = {name for one in COMMANDS for name in (one.name, *one.aliases)}
    installed = [command_of(entry) for entry in package_entries() if entry.home]
    if not text_folders("commands", cwd, env):
        return installed, ()

    found = find_commands(cwd, env)
    taken |= {one.name for one in installed}
    clashes = [one for one in found.commands.values() if one.name.lower() in taken]
    notices = [f"{one.file}: Sandbur has a command /{one.name}. The file is left out." for one in clashes]
    commands = tuple(_make(one) for one in found.commands.values() if one not in clashes)
    return (*installed, *commands), (*found.notices, *notices)


def _make(prompt: PromptCommand) -> SlashCommand:
    async def run(context: SlashContext, words: str) -> SlashResult:
        """Send the message of the file."""
        message = prompt.message(words, has_run=True)
        if prompt.allowed_tools:
            tell(
                context,
                f"The command uses {one_line(prompt.allowed_tools)}; your rules decide about each call.",
            )
        for command in prompt.runs(words):
            if not await _has_run(context, command):
                raise UsageError(f"/{prompt.name} is not sent: a shell command of its file did not run.")
        tell(context, message)
        if not prompt.model:
            await context.send(message)
            return DONE

        async with _with_model(context, prompt.model):
            await context.send(message)
        return DONE

    usage, summary = one_line(prompt.argument_hint), one_line(prompt.description)
    return SlashCommand(prompt.name, usage, summary, YOURS, run, at_question=False)


@asynccontextmanager
async def _with_model(context: SlashContext, name: str) -> AsyncGenerator[None]:
    """Change the model inside the context, and restore the earlier model at its end."""
    change = next(one for one in COMMANDS if one.name == "model")
    before = context.session.settings.model
    await change.run(context, name)
    try:
        yield
    finally:
        if context.session.settings.model != before:
            await change.run(context, before)


async def _has_run(context: SlashContext, command: str) -> bool:
    """Run the shell commands of a file before its message is sent; return whether they ran."""
    await context.follow(context.session.run_command(command, "command"))
    session = context.session
    last = session.state.chat_history.last
    if session.next_action != "prompt" or last is None or not last.is_user_command:
        return False
    return last.tool_results[0].outcome != "denied"
