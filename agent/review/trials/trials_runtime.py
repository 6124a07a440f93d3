"""Marks the sessions of a trial, and refuses to open one of them outside of its copy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ....actions.ports import ToolSource
from ....state.session import SessionSettings
from ...extensions.extension import load
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection, SessionAdditions, SessionContext
from . import VARIABLE, trials_folder

if TYPE_CHECKING:
    from .trial import Trial

_SOURCE = ".agent.review.trials.applying.tool:ApplySource"
_FIND_OWN = ".agent.review.trials.trial:find_own_trial"
_REQUIRE_INSIDE = ".agent.review.trials.trial:require_inside"
_FIND_ISOLATED = ".agent.agents.markdown.agent_files:has_isolated_agents"
_PROMPT = (
    "This run is a trial: you work in a copy of the folder. Changes of files stay in the copy until a person"
    " applies them. Effects outside of the copy, such as requests and services, are real. Commits stay in the"
    " copy and are not applied, so do not commit unless the task says so."
)
_OVERLAY_PROMPT = (
    " The copy is an overlay, in which a folder that was there before cannot be renamed: `mv` copies it, but"
    " other programs fail, such as `git mv` with `Invalid cross-device link`. Make the new folder and move"
    " the files into it instead."
)


class TrialsRuntime(ExtensionRuntime):
    def tool_sources(
        self, session: SessionSettings, definition: Definition, needs_model: bool
    ) -> Sequence[ToolSource]:
        """Return the source of the tool that applies a trial. A session in a trial has none.

        A model gets the tool if the session has agents that work in copies.
        """
        home = self.process.settings.home
        if session.trial or session.is_workflow:
            return ()
        is_listed = self._has_isolated_agents(session, definition)
        if not (is_listed or trials_folder(home).is_dir()):
            return ()
        # Most sessions need neither the tool nor what it imports.
        return (load(_SOURCE)(home, is_listed),)

    def _has_isolated_agents(self, session: SessionSettings, definition: Definition) -> bool:
        if not (self.process.of_command and definition.has_builtin_tools):
            return False
        with suppress(ModuleNotFoundError):
            aliases = self.process.settings.aliases
            return bool(load(_FIND_ISOLATED)(Path(session.cwd), self.process.env, aliases))
        return False

    async def extend_prompt(self, cwd: Path, definition: Definition) -> PromptSection:
        if not self.process.env.get(VARIABLE):
            return PromptSection()
        trial: Trial | None = load(_FIND_OWN)(self.process.settings.home, self.process.env)
        if trial is None or not trial.contains(cwd):
            return PromptSection()
        prompt = _PROMPT + _OVERLAY_PROMPT if trial.kind == "overlay" else _PROMPT
        return PromptSection(prompt, {"trial": trial.id})

    def open_session(self, context: SessionContext) -> SessionAdditions:
        """Raises `UsageError` if a session with a model would work outside of the copy of its trial."""
        if context.has_model and context.settings.trial:
            load(_REQUIRE_INSIDE)(self.process.settings.home, context.id, context.settings)
        return SessionAdditions()
