"""Trials: runs whose workspace is a copy, and what they changed in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.setting import Setting
from ...extensions.extension import CommandEntry, Extension, SlashEntry

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "SANDBUR_TRIAL"
"""The environment variable with the id of the trial that a process works in."""


def trials_folder(home: Path) -> Path:
    return home / "trials"


EXTENSION = Extension(
    name="trials",
    about="runs in a copy of the workspace, whose changes a person applies or drops",
    page="try.md",
    folders=("agent/review/trials", "ui/commands/review/trials"),
    settings=(
        Setting(
            "trial_copy_mb",
            2000,
            "count",
            variable="SANDBUR_TRIAL_COPY_MB",
            about="how many MB a trial copies without a question where a copy can share nothing",
            after="plan_notebook",
        ),
        Setting(
            "trials_at_once",
            3,
            "count",
            variable="SANDBUR_TRIALS_AT_ONCE",
            about="how many attempts of `sandbur try -n` run at the same time; others wait",
            after="trial_copy_mb",
        ),
    ),
    runtime=".agent.review.trials.trials_runtime:TrialsRuntime",
    # Every session may apply trials, have agents that work in copies, or begin in one.
    is_used=lambda settings, session: True,
    before_resume=".ui.commands.review.trials.entering:enter_trial_of",
    forget_session=".agent.review.trials.trial:remove_of_session",
    commands=(
        CommandEntry(
            name="try",
            home=".ui.commands.review.trials.command:TryCommand",
            summary="run a task in a copy of the folder, and apply or drop what it changed",
            after="fork",
        ),
    ),
    slash=(
        SlashEntry(
            name="try",
            usage="TASK|list|diff|apply|drop",
            summary="run a task in a copy of the folder; apply or drop what it changed",
            home=".ui.commands.review.trials.slash:try_task",
            group="Session",
            after="fork",
            complete=".ui.commands.review.trials.slash:list_try_choices",
            waits=True,
        ),
    ),
    doctor=".ui.commands.review.trials.findings:find_problems",
)
