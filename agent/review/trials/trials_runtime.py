"""Marks the sessions of a trial, and refuses to open one of them outside of its copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ....actions.ports import ToolSource
from ....state.errors import UsageError
from ....state.session import SessionSettings
from ...extensions.extension import load
from ...runtime.agent_definition import Definition
from ...runtime.extension_runtime import ExtensionRuntime, PromptSection, SessionAdditions, SessionContext
from .trial import VARIABLE, Trial, TrialPlace, trials_folder

_SOURCE = ".agent.review.trials.applying.tool:ApplySource"
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
        trial = find_own_trial(self.process.settings.home, self.process.env)
        if trial is None or not trial.contains(cwd):
            return PromptSection()
        prompt = _PROMPT + _OVERLAY_PROMPT if trial.kind == "overlay" else _PROMPT
        return PromptSection(prompt, {"trial": trial.id})

    def open_session(self, context: SessionContext) -> SessionAdditions:
        """Raises `UsageError` if a session with a model would work outside of the copy of its trial."""
        if context.has_model and context.settings.trial:
            require_inside(self.process.settings.home, context.id, context.settings)
        return SessionAdditions()


def find_own_trial(home: Path, env: Mapping[str, str]) -> Trial | None:
    """Return the trial in whose copy this process works, or None."""
    place = TrialPlace(home, env.get(VARIABLE) or "none")
    if not place.folder.is_dir():
        return None
    trial = place.load()
    return trial if place.is_inside(trial) else None


def require_inside(home: Path, session_id: str, settings: SessionSettings) -> Trial:
    """Return the trial of a session if this process works in its copy, and so does the session.

    Raises `UsageError` otherwise.
    """
    place = TrialPlace(home, settings.trial)
    if not place.folder.is_dir():
        raise UsageError(
            f"Session {session_id} worked in trial {settings.trial}, whose copy is gone.",
            "Begin a new session.",
        )
    trial = place.load()
    if trial.state == "applied":
        raise UsageError(
            f"Session {session_id} worked in trial {trial.id}, which is applied.", "Begin a new session."
        )
    if not place.is_inside(trial):
        raise UsageError(
            f"Session {session_id} works in a copy of {trial.cwd}, and this process is not in that copy.",
            f"Open it with: sandbur -r {session_id}",
        )
    for folder in (settings.cwd, *settings.add_dirs):
        if not trial.contains(Path(folder)):
            raise UsageError(
                f"The folder {folder} is not in the copy of trial {trial.id}.",
                "Leave the folder out, or begin a new trial with it.",
            )
    return trial
