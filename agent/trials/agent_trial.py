"""A trial of a program's agent: its result, what it changed in the copy, and how to apply or drop it."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, cast

from ...actions.ports.events import RunFinished, ToolFinished
from ...actions.workspace.copies.diff_text import diff_files
from ...actions.workspace.copies.difference import ChangeKind, Difference
from ...state.errors import UsageError
from ..config.load import load_settings, store_files
from ..config.settings import Settings
from ..sdk.runs.result import OutputT, RunResult
from .applying.tool import NAME
from .isolation import translate_rules
from .making import TrialRequest, make_trial
from .outcome import end_trial
from .trial import VARIABLE, Trial, TrialPlace

if TYPE_CHECKING:
    from ..sdk.agent import Agent

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class TrialChange:
    """A file that a trial added, changed or removed."""

    path: Path
    """The absolute path of the original."""
    kind: ChangeKind
    diff: str
    """A unified diff, or one line about a change that is not one of text."""


class AgentTrial(Generic[OutputT]):
    """A run in a copy of the folder. The copy stays until `drop`, or until its session is deleted."""

    def __init__(
        self, agent: Agent[Any], home: Path, trial: Trial, result: RunResult[OutputT], found: list[Difference]
    ) -> None:
        """`agent` is the agent in the original folder, `home` the data folder."""
        self._agent = agent
        self._place = TrialPlace(home, trial.id)
        self.id = trial.id
        """The id of the trial, for `sandbur try`; also that of its session."""
        self.result = result
        """The result of the run in the copy."""
        self.difference = tuple(
            TrialChange(one.root / change.size.file.path, change.size.file.kind, change.text)
            for one in found
            for change in diff_files(one)
        )
        """The changed files when the run had ended."""

    async def apply(self, *, merge: bool = False, skip_conflicts: bool = False) -> str:
        """Write the changes to the original folder, as one recorded call; return what was done.

        A file that another program changed meanwhile is a conflict. Nothing is written then, unless `merge`
        joins the changes or `skip_conflicts` leaves such files out. The rules of the agent hold. Raises
        `UsageError` if something was not written; the message says what.
        """
        arguments = {"trial": self.id, "merge": merge, "skip_conflicts": skip_conflicts}
        result: ToolFinished | None = None
        end: RunFinished | None = None
        async with self._agent.session() as session:
            run = session.opened.run_tool(NAME, json.dumps(arguments), f"Apply trial {self.id}")
            async for event in run:
                result = event if isinstance(event, ToolFinished) else result
                end = event if isinstance(event, RunFinished) else end
        if end is not None and end.status == "needs_approval":
            reason = end.pending[0].reason if end.pending else ""
            raise UsageError(
                f"The apply needs an approval: {reason}.", f"Approve it: agent.approve({end.session_id!r})"
            )
        if result is None or result.outcome != "ok":
            why = "" if end is None or end.error is None else end.error.message
            raise UsageError(result.content if result is not None else f"Nothing was written. {why}".strip())
        return result.content

    async def drop(self) -> None:
        """Remove the copy with its changes; raises `UsageError` if a process works in it."""
        await asyncio.to_thread(self._place.remove)


async def run_trial(
    agent: Agent[Any],
    env: Mapping[str, str],
    message: Any,
    output: Any,
    max_copy_mb: int | None,
    options: Mapping[str, Any],
) -> AgentTrial[Any]:
    """Make a copy of the folder of an agent and run the agent in it. `env` are its environment variables.

    Raises `UsageError` if no copy can be made. If the run raises, the trial stays.
    """
    if options.get("session_id"):
        raise UsageError("A trial begins a session of its own.", "Leave `session_id` out.")
    given: Mapping[str, Any] = agent.definition.overrides
    settings = load_settings(given, env, of_project=False)
    trial_id = str(uuid.uuid4())
    made = await asyncio.to_thread(_make, settings, trial_id, message, max_copy_mb)
    inside = _make_agent_inside(agent, settings, made, env)
    place = TrialPlace(settings.home, trial_id)
    result = await inside.run(message, output=output, **cast("Any", {**options, "session_id": trial_id}))
    found = await asyncio.to_thread(end_trial, place, made)
    return AgentTrial(agent, settings.home, made, result, found)


def _make(settings: Settings, trial_id: str, message: Any, max_copy_mb: int | None) -> Trial:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    task = message if isinstance(message, str) else ""
    most = settings.of("trial_copy_mb") if max_copy_mb is None else max_copy_mb
    request = TrialRequest(
        trial_id, task, settings.cwd, tuple(settings.add_dirs), most * _MB, may_overlay=False, may_mount=False
    )
    return make_trial(settings.home, request, store_files(settings.store)).trial


def _make_agent_inside(
    agent: Agent[Any], settings: Settings, trial: Trial, env: Mapping[str, str]
) -> Agent[Any]:
    """Return the agent with the copies as its folders, and with rules that hold in them."""
    folders = [os.fspath(trial.path_inside(Path(os.path.realpath(one)))) for one in settings.add_dirs]
    rules = {key: getattr(settings, key) for key in ("allow", "ask", "deny")}
    return agent.clone(
        cwd=os.fspath(trial.path_inside(Path(trial.cwd))),
        add_dirs=tuple(folders),
        env={**env, VARIABLE: trial.id},
        **cast("Any", translate_rules(rules, (settings.cwd, *settings.add_dirs), trial)),
    )
