"""Runs the agent of a program in a copy of its folder; loaded by `Agent.try_`."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ....actions.workspace.copies.diff_text import diff_files
from ....state.conversation.messages import encodable
from ....state.errors import UsageError
from ...config.load import load_settings, store_files
from ...config.settings import Settings
from ...sdk.runs.trial_runs import AgentTrial, TrialChange
from .applying.tool import NAME
from .isolation import translate_rules
from .making import TrialRequest, make_trial
from .outcome import end_trial
from .trial import VARIABLE, Trial, TrialPlace

if TYPE_CHECKING:
    from ...sdk.agent import Agent

_MB = 1_000_000


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
    with place.hold():
        result = await inside.run(message, output=output, **cast("Any", {**options, "session_id": trial_id}))
        found = await asyncio.to_thread(end_trial, place, made)
    changes = [
        TrialChange(one.root / change.size.file.path, change.size.file.kind, change.text)
        for one in found
        for change in diff_files(one)
    ]
    return AgentTrial(agent, result, changes, NAME, place.remove)


def _make(settings: Settings, trial_id: str, message: Any, max_copy_mb: int | None) -> Trial:
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    task = encodable(message) if isinstance(message, str) else ""
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
