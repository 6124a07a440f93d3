"""Chooses a skill by its triggers, before the model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....actions.ports.message_router import RoutedMessage
from ....actions.turn.flows.linear_regex import StepBudget
from ....state.application import FlowMatch
from .catalogue import Skill, find_skills


class SkillRouter:
    """Implements `actions.ports.MessageRouter`: the first skill with a trigger that matches is chosen."""

    def __init__(self, cwd: Path, env: Mapping[str, str], names: Sequence[str]) -> None:
        """`names` are the skills of the session, in the order of its prompt."""
        self._cwd = cwd
        self._env = env
        self._names = names
        self._skills: tuple[Skill, ...] | None = None

    async def route(self, text: str) -> RoutedMessage | None:
        if self._skills is None:
            found = (await asyncio.to_thread(find_skills, self._cwd, self._env)).skills
            skills = (found[name] for name in self._names if name in found)
            self._skills = tuple(skill for skill in skills if skill.triggers)
        budget = StepBudget()
        for skill in self._skills:
            if (match := await skill.triggers.match(text, budget)) is not None:
                return RoutedMessage(
                    FlowMatch(name=skill.name, kind="skill", why=match.why), text=skill.text()
                )
        return None
