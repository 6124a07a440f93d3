"""Finds skills: folders with a `SKILL.md` that describes a kind of work and how to do it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ....state.errors import ConfigError
from ..markdown_files import TextFolder, list_files, split_front_matter

FILE_NAME = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_NAME, _MOST_DESCRIPTION = 64, 1024
_MOST_SKILLS = 100


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    body: str
    allowed_tools: str
    """The tools that the skill names. The list is only displayed; the policy decides about each call."""
    within: TextFolder
    place: str
    """The path of the skill's folder within `folder`."""

    @property
    def folder(self) -> Path:
        return self.within.path / self.place

    def text(self) -> str:
        """Return the text that the model reads when it uses the skill; its first line protects it from
        compression."""
        tools = (
            f"It says that it uses: {self.allowed_tools}. The rules of this session decide about each call."
        )
        head = [
            f"[Skill {self.name}]",
            f"Its folder: {self.folder}",
            *([tools] if self.allowed_tools else []),
        ]
        return "\n".join([*head, "", self.body])


class FoundSkills(NamedTuple):
    skills: Mapping[str, Skill]
    untrusted: tuple[TextFolder, ...]
    notices: tuple[str, ...]


def find_skills(cwd: Path, env: Mapping[str, str]) -> FoundSkills:
    """Return the skills that are active in a folder; of two with the same name, the nearer one counts."""
    notices: list[str] = []
    read = partial(_read, notices)
    found, untrusted = list_files("skill", f"*/{FILE_NAME}", cwd, env, _MOST_SKILLS, read, notices)
    return FoundSkills(found, untrusted, tuple(notices))


def _read(notices: list[str], folder: TextFolder, name: str) -> tuple[str, Skill] | None:
    place = name.removesuffix(f"/{FILE_NAME}")
    if "/" in place:
        return None  # a file of another skill
    read = split_front_matter(folder.text(name))
    skill_name = read.line("name", _MOST_NAME) or place
    description = read.line("description", _MOST_DESCRIPTION)
    if not description:
        raise ConfigError(f"{folder.path / name} has no description.")
    if skill_name != place or not _NAME.fullmatch(skill_name):
        notices.append(
            f"{folder.path / name}: the name {skill_name!r} should be that of its folder, of a-z, 0-9 and -."
        )
        skill_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", skill_name).strip("-") or place
    return skill_name, Skill(
        skill_name, description, read.body, read.line("allowed-tools", 500), folder, place
    )
