"""Finds out, before a command resumes a session, whether there are trials at all; loads nothing otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....agent.extensions.extension import load

if TYPE_CHECKING:
    from pathlib import Path

    from ....cli.grammar import Command

_RESUME = ".ui.commands.review.trials.resuming:resume_inside"


def enter_trial_of(home: Path, command: Command) -> None:
    """Run the command in the copy of a trial if its session belongs to one; then raise `SystemExit`."""
    if (home / "trials").is_dir():
        load(_RESUME)(home, command)
