"""`/skill`: lists the skills, or puts one into the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....agent.config.paths import text_folders
from ....agent.extensions.skills.catalogue import FoundSkills, Skill, find_skills
from ....state.errors import UsageError
from ...terminal.text.sanitize import one_line
from .command import DONE, EditorAnswer, EditorContext, SlashContext, SlashOffer, SlashResult, tell

_NONE = "There are no skills here."


async def use_skill(context: SlashContext, words: str) -> SlashResult:
    """List the skills, or add one to the conversation with its task."""
    found = _find_skills(context)
    name, _, task = words.partition(" ")
    if not name:
        known = [f"{skill.name:<24} {skill.description}" for skill in found.skills.values()]
        tell(context, *map(one_line, known or [_NONE]), *found.notices)
        return DONE
    skill = _find_skill(name, found)
    if context.asks:
        raise UsageError("A skill waits until the question is answered.")
    tell(context, f"Skill {skill.name}: {skill.description}")
    await context.send(_message(skill, task))
    return DONE


async def use_skill_in_editor(context: EditorContext, words: str) -> EditorAnswer:
    """Return the list of skills, or the events of a message with one of them."""
    found = _find_skills(context)
    name, _, task = words.partition(" ")
    if not name:
        known = [f"- `{one.name}` {one.description}" for one in found.skills.values()]
        return "\n".join(known or [_NONE])
    return context.session.send(_message(_find_skill(name, found), task))


def _find_skills(context: SlashContext | EditorContext) -> FoundSkills:
    return find_skills(Path(context.session.settings.cwd), context.runtime.env)


def _find_skill(name: str, found: FoundSkills) -> Skill:
    skill = found.skills.get(name)
    if skill is None:
        raise UsageError(f"There is no skill {name[:64]}.", "/skill lists them.")
    return skill


def _message(skill: Skill, task: str) -> str:
    return f"{skill.text()}\n\n---\n{task.strip() or 'Work by this skill from now on.'}"


def list_skill_choices(context: SlashContext | None) -> Iterator[SlashOffer]:
    if context is None or not _skill_folders(context):
        return

    for skill in _find_skills(context).skills.values():
        yield SlashOffer(one_line(skill.name), one_line(skill.description[:80]))


def _skill_folders(context: SlashContext) -> Sequence[Path]:
    return text_folders("skills", Path(context.session.settings.cwd), context.runtime.env)
