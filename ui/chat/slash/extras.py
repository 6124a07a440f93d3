"""Commands beside those of the table: markdown files of the person and the project, and skills."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....agent.config.paths import text_folders
from ....state.errors import UsageError
from ...terminal.text.sanitize import one_line
from .choices import with_model
from .command import DONE, SlashCommand, SlashContext, SlashOffer, SlashResult, tell
from .table import COMMANDS

if TYPE_CHECKING:
    from ....agent.extensions.prompt_commands import PromptCommand

YOURS = "Your commands"


def more_commands(cwd: Path, env: Mapping[str, str]) -> tuple[Sequence[SlashCommand], Sequence[str]]:
    """Return the commands that files bring, and notices; one of the table goes before one of its name."""
    if not text_folders("commands", cwd, env):
        return (), ()
    from ....agent.extensions.prompt_commands import find_commands

    found = find_commands(cwd, env)
    taken = {name for one in COMMANDS for name in (one.name, *one.aliases)}
    clashes = [one for one in found.commands.values() if one.name.lower() in taken]
    notices = [f"{one.file}: Sandbur has a command /{one.name}. The file is left out." for one in clashes]
    commands = tuple(_made(one) for one in found.commands.values() if one not in clashes)
    return commands, (*found.notices, *notices)


def _made(prompt: PromptCommand) -> SlashCommand:
    async def run(context: SlashContext, words: str) -> SlashResult:
        """Send what the file says."""
        said = prompt.message(words, has_run=True)
        if prompt.allowed_tools:
            tell(
                context,
                f"The command uses {one_line(prompt.allowed_tools)}; your rules decide about each call.",
            )
        for command in prompt.runs(words):
            if not await _has_run(context, command):
                raise UsageError(f"/{prompt.name} is not sent: what it wants to know first did not run.")
        tell(context, said)
        if not prompt.model:
            await context.send(said)
            return DONE

        async with with_model(context, prompt.model):
            await context.send(said)
        return DONE

    usage, summary = one_line(prompt.argument_hint), one_line(prompt.description)
    return SlashCommand(prompt.name, usage, summary, YOURS, run, at_question=False)


async def _has_run(context: SlashContext, command: str) -> bool:
    """Run what a file says before its message is sent; return whether it did run."""
    await context.follow(context.session.run_command(command, "command"))
    session = context.session
    last = session.state.chat_history.last
    if session.next_action != "prompt" or last is None or not last.is_user_command:
        return False
    return last.tool_results[0].outcome != "denied"


async def use_skill(context: SlashContext, words: str) -> SlashResult:
    """List the skills, or put one into the conversation, with what is to be done by it."""
    from ....agent.extensions.skills.catalogue import find_skills

    session = context.session
    found = find_skills(Path(session.settings.cwd), context.runtime.env)
    name, _, task = words.partition(" ")
    if not name:
        known = [f"{skill.name:<24} {skill.description}" for skill in found.skills.values()]
        tell(context, *map(one_line, known or ["There are no skills here."]), *found.notices)
        return DONE
    skill = found.skills.get(name)
    if skill is None:
        raise UsageError(f"There is no skill {name[:64]}.", "/skill lists them.")
    if context.asks:
        raise UsageError("A skill waits until the question is answered.")
    tell(context, f"Skill {skill.name}: {skill.description}")
    await context.send(f"{skill.text()}\n\n---\n{task.strip() or 'Work by this skill from now on.'}")
    return DONE


def offered_skills(context: SlashContext | None) -> Iterator[SlashOffer]:
    if context is None or not _skill_folders(context):
        return
    from ....agent.extensions.skills.catalogue import find_skills

    found = find_skills(Path(context.session.settings.cwd), context.runtime.env)
    for skill in found.skills.values():
        yield SlashOffer(one_line(skill.name), one_line(skill.description[:80]))


def _skill_folders(context: SlashContext) -> Sequence[Path]:
    return text_folders("skills", Path(context.session.settings.cwd), context.runtime.env)
