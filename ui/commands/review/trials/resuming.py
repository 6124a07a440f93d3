"""Resumes the session of a trial: runs the same command line in a process that works in the copy."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .....agent.config.load import load_settings
from .....agent.config.settings import Settings
from .....agent.review.trials.trial import VARIABLE, Trial, TrialPlace
from .....state.errors import SandburError
from .....state.store.sessions.listing import FolderFilter
from .....state.store.store import Store
from ....cli.open_session import read_overrides
from ....terminal.terminal import say
from ....terminal.text.sanitize import one_line
from .managing import update_states
from .report import can_decide, decide_at_end
from .running import finish_run, run_inside

if TYPE_CHECKING:
    from ....cli.grammar import Command


def resume_inside(home: Path, command: Command) -> None:
    """Run the command in the copy if the session that it opens belongs to a trial; then raise `SystemExit`.

    Raises `SandburError` if the copy cannot be entered.
    """
    folder = Path(command.overrides.get("cwd") or ".").absolute()
    settings: Settings | None = None
    trial_id = ""
    # The command itself reports what is wrong with its settings or its session.
    with suppress(SandburError):
        settings = load_settings({**read_overrides(command), "cwd": folder}, os.environ)
        trial_id = _find_trial_id(command, settings, folder)
    place = TrialPlace(home, trial_id or "none")
    if settings is None or not place.folder.is_dir():
        return
    [trial] = update_states(settings, [place.load()])
    is_inside = os.environ.get(VARIABLE) == trial.id and place.is_inside(trial)
    if trial.state == "applied" or is_inside:
        return
    say(f"Trial {trial.id}: files change only in a copy of {one_line(str(trial.cwd))}.")
    raise SystemExit(asyncio.run(_run_to_end(command, settings, place, trial)))


async def _run_to_end(command: Command, settings: Settings, place: TrialPlace, trial: Trial) -> int:
    """Run the command in the copy, and report what the trial changed; ask a person who left a chat."""
    code = await run_inside(place, trial, command.line)
    asks = can_decide(command, code)
    if finish_run(settings, place, trial, getattr(command, "quiet", False), asks) and asks:
        await decide_at_end(command, settings, trial)
    return code


def _find_trial_id(command: Command, settings: Settings, folder: Path) -> str:
    """Return the id of the trial that the session of a command works in, or an empty text."""
    named = getattr(command, "session", None) or getattr(command, "resume", None)
    store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    try:
        if named:
            return store.index.settings(store.find(named)).trial
        if getattr(command, "continue_newest", False):
            here = store.roots(FolderFilter(os.fspath(folder.resolve())))
            found = next((session for session in here if not session.is_foreign), None)
            return "" if found is None else store.index.settings(found.id).trial
    finally:
        store.close()
    return ""
