"""`/skill`: lists the skills, or puts one into the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....agent.config.paths import text_folders
from ....agent.extensions.skills.catalogue import find_skills
from ....state.errors import UsageError
from ...terminal.text.sanitize import one_line
from .command import DONE, SlashContext, SlashOffer, SlashResult, tell


async def use_skill(context: SlashContext, words: str) -> SlashResult:
    """List the skills, or add one to the conversation with its task."""

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


def list_skill_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    if context is None or not _skill_folders(context):
        return

    found = find_skills(Path(context.session.settings.cwd), context.runtime.env)
    for skill in found.skills.values():
        yield SlashOffer(one_line(skill.name), one_line(skill.description[:80]))


def _skill_folders(context: SlashContext) -> Sequence[Path]:
    return text_folders("skills", Path(context.session.settings.cwd), context.runtime.env)
