"""Evaluations: agents and models solve the tasks of a suite, and are measured and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...extensions.extension import CommandEntry, Extension

if TYPE_CHECKING:
    from pathlib import Path


def evaluations_folder(home: Path) -> Path:
    """Return the folder of the workspaces of runs: beside the data folder, which tools may not change."""
    return home.with_name(f"{home.name}-evaluations")


EXTENSION = Extension(
    name="evaluation",
    about="suites of tasks that models and agents solve, measured and compared",
    page="evaluation.md",
    folders=("agent/review/evaluation", "ui/commands/review/evaluation"),
    forget_session=".agent.review.evaluation.runs.run_place:remove_of_session",
    commands=(
        CommandEntry(
            name="eval",
            home=".ui.commands.review.evaluation.command:EvalCommand",
            summary="let models and agents solve the tasks of a suite, and compare them",
            after="try",
        ),
    ),
)
