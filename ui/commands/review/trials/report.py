"""Prints what a trial changed and what reached outside of its copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .....actions.workspace.copies.diff_text import ChangeText, count_lines, diff_files
from .....actions.workspace.copies.difference import Difference
from .....actions.workspace.paths import format_path
from .....agent.config.settings import Settings
from .....agent.extensions.extension import load
from .....agent.review.trials.outcome import OutsideEffect
from .....agent.review.trials.trial import Trial
from ....cli.grammar import Command
from ....terminal.terminal import is_interactive, say
from ....terminal.text.sanitize import one_line
from ...chat import ChatCommand

AT_END = "What becomes of the changes?"
CHOICES = {"a": "apply them", "d": "show them", "x": "drop them", "k": "keep them for later"}
"""The answers of a person who has left the chat of a trial, by key."""
_DECIDE = ".ui.commands.review.trials.ending:decide_changes"
_LEFT = (0, 130)
"""The exit codes of a chat that a person left: by `/exit` or Ctrl-D, and by Ctrl-C."""
_MOST_FILES = 20
_MOST_EFFECTS = 10
_SIGNS = {"added": "A", "changed": "M", "removed": "D"}


def report_outcome(
    trial: Trial,
    differences: Sequence[Difference],
    effects: Sequence[OutsideEffect],
    asks: bool = False,
) -> None:
    """Print the outcome on stderr, with the commands that decide about it; with `asks`, a question follows
    instead."""
    for line in outcome_lines(trial, differences, effects):
        say(line)
    has_changes = any(differences)
    if not (asks and has_changes):
        report_commands(trial, any(one.files for one in differences))


def report_commands(trial: Trial, has_files: bool = True) -> None:
    """Print the commands that decide about a trial on stderr."""
    if has_files:
        say(f"  sandbur try diff {trial.id}    show the changes")
        say(f"  sandbur try apply {trial.id}   apply them to the folder")
    say(f"  sandbur try drop {trial.id}    remove the copy")


def outcome_lines(
    trial: Trial, differences: Sequence[Difference], effects: Sequence[OutsideEffect]
) -> Iterator[str]:
    """Yield what a trial changed, and the calls that may have had an effect outside of its copy."""
    changes = [change for one in differences for change in diff_files(one)]
    if changes:
        yield f"Trial {trial.id} changed {count_lines(changes)}:"
        yield from file_lines(changes, _MOST_FILES)
    else:
        yield f"Trial {trial.id} changed no files."
    yield from note_lines(differences)
    if effects:
        yield "Outside of the copy, these calls may have had an effect:"
        for effect in effects[:_MOST_EFFECTS]:
            yield f"  {one_line(effect.title)} ({one_line(effect.reason)})"
        if len(effects) > _MOST_EFFECTS:
            yield f"  and {len(effects) - _MOST_EFFECTS} more"


def file_lines(changes: Sequence[ChangeText], most: int) -> Iterator[str]:
    """Yield a line for each changed file."""
    for change in changes[:most]:
        file = change.size.file
        yield f"  {_SIGNS[file.kind]} {format_path(file.path)}  {one_line(change.size.text)}".rstrip()
    if len(changes) > most:
        yield f"  and {len(changes) - most} more files"


def note_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """Yield lines about what is not part of the changes."""
    for difference in differences:
        for one in difference.skipped[:_MOST_FILES]:
            yield f"  not applied: {format_path(one.path)} ({one.reason})"
        for notice in difference.notices:
            yield one_line(notice)


def can_decide(command: Command, exit_code: int) -> bool:
    """Return whether the command was a chat that a person has left, and who is there to decide."""
    is_headless = not isinstance(command, ChatCommand) or command.print or command.output_format != "text"
    return exit_code in _LEFT and not is_headless and is_interactive()


async def decide_at_end(command: Command, settings: Settings, trial: Trial) -> None:
    """Ask a person what becomes of the changes; only this loads what draws a question."""
    await load(_DECIDE)(command, settings, trial)
