"""Finds skills: folders with a `SKILL.md` that describes a kind of work and how to do it."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ....actions.turn.flows.triggers import Triggers, make_triggers
from ....state.errors import ConfigError
from ....state.lazy_dataclass import dataclass
from ..markdown_files import FrontMatterEntry, Marked, TextFolder, list_files, split_front_matter, unquote

FILE_NAME = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_NAME, _MOST_DESCRIPTION = 64, 1024
_MOST_SKILLS = 100
_TRIGGERS = ("exact", "prefix", "phrase", "regex")
_NO_TRIGGERS = Triggers()


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    body: str
    allowed_tools: str
    """The tools that the skill names. The list is only displayed; the policy decides about each call."""
    within: TextFolder
    place: str
    """The skill's folder within `folder`."""
    triggers: Triggers = _NO_TRIGGERS
    """Messages that choose the skill before the model is asked."""
    entries: tuple[FrontMatterEntry, ...] = ()
    """The keys of its file."""
    runs_as_agent: bool = False
    """Whether a sub-agent does its work; else the model reads its text."""

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
        raise ConfigError(f"{folder.path / name} has no description.", "Add a line: description: ...")
    if skill_name != place or not _NAME.fullmatch(skill_name):
        notices.append(
            f"{folder.path / name}: the name {skill_name!r} should be that of its folder, of a-z, 0-9 and -."
        )
        skill_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", skill_name).strip("-") or place
    try:
        triggers = _read_triggers(read)
    except ValueError as problem:
        notices.append(f"{folder.path / name}: {problem}. Its triggers are left out.")
        triggers = _NO_TRIGGERS
    return skill_name, Skill(
        skill_name,
        description,
        read.body,
        read.line("allowed-tools", 500),
        folder,
        place,
        triggers,
        read.entries,
        _runs_as_agent(read),
    )


def _runs_as_agent(read: Marked) -> bool:
    """Return whether a skill asks for a sub-agent: by `context: fork`, or by a key that only one can have.

    `allowed-tools` alone is advice, as in the format of agentskills.io.
    """
    if context := read.line("context", _MOST_NAME):
        return context == "fork"
    model = read.line("model", _MOST_NAME)
    return bool(read.fields.get("agent") or read.fields.get("tools") or model not in ("", "inherit"))


def _read_triggers(read: Marked) -> Triggers:
    """Return the triggers of the front matter: a list of `exact: TEXT`, `prefix: TEXT`, `regex: TEXT`.

    Raises `ValueError` for one that cannot be used.
    """
    found: dict[str, list[str]] = {kind: [] for kind in _TRIGGERS}
    line = read.fields.get("triggers", "")
    for item in read.lists.get("triggers", (line,) if line else ()):
        kind, colon, text = item.partition(":")
        if not colon or kind.strip() not in found:
            raise ValueError(
                f"the trigger {item[:60]!r} begins with none of {', '.join(_TRIGGERS)} and a colon"
            )
        found[kind.strip()].append(unquote(text.strip()))
    return make_triggers(found["exact"], found["prefix"], found["phrase"], found["regex"])
