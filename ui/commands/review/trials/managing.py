"""`sandbur try list`, `diff` and `drop`."""

from __future__ import annotations

import os
import pydoc
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .....actions.workspace.copies.diff_text import diff_files
from .....actions.workspace.copies.difference import Difference
from .....agent.config.load import load_settings
from .....agent.config.settings import Settings
from .....agent.review.trials.applying.record import ApplyRecord, find_undone
from .....agent.review.trials.outcome import read_differences, remove_without_session
from .....agent.review.trials.trial import (
    Trial,
    TrialPlace,
    find_trial,
    find_trial_id,
    list_trials,
    remove_unfinished,
)
from .....state.errors import UsageError
from .....state.store.store import Store
from ....cli.open_session import read_overrides
from ....terminal.line_question import confirm
from ....terminal.terminal import encode, is_interactive, put, say
from ....terminal.text.sanitize import expose, one_line
from ....terminal.text.times import local_time
from .report import file_lines, note_lines

if TYPE_CHECKING:
    from .command import TryCommand


async def list_all(command: TryCommand) -> int:
    """Print the trials, the newest first."""
    settings = _settings(command)
    remove_unfinished(settings.home)
    remove_without_session(settings)
    found = update_states(settings, list_trials(settings.home))
    if command.json:
        for trial in found:
            put(encode(_describe(settings, trial)))
        return 0
    for trial in found:
        put(trial_line(settings.home, trial))
    if not found:
        say('There is no trial. Begin one: sandbur try "..."')
    return 0


def update_states(settings: Settings, found: list[Trial]) -> list[Trial]:
    """Return trials with their present states: a session may have taken back what it applied."""
    if not any(trial.state == "applied" for trial in found):
        return found
    store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    try:
        return find_undone(store, settings.home, found)
    finally:
        store.close()


def trial_line(home: Path, trial: Trial) -> str:
    """Return a trial on one line, without control characters."""
    state = _state(home, trial)
    return (
        f"{trial.id}  {local_time(trial.created)}  {trial.kind:<8} {state:<11} {one_line(trial.cwd)}"
        f"  {one_line(trial.task)}".rstrip()
    )


def _describe(settings: Settings, trial: Trial) -> dict[str, Any]:
    fields = ("id", "task", "kind", "created", "cwd", "group")
    return {**{name: getattr(trial, name) for name in fields}, "state": _state(settings.home, trial)}


def _state(home: Path, trial: Trial) -> str:
    """Return the state of a trial; one whose process was killed is interrupted."""
    if trial.state != "running":
        return trial.state
    return "running" if TrialPlace(home, trial.id).is_in_use else "interrupted"


async def show_diff(command: TryCommand) -> int:
    """Print the changes of a trial as unified diffs, page by page in a terminal."""
    settings, trial = _find(command)
    found = read_differences(TrialPlace(settings.home, trial.id), trial, command.ignored)
    if command.json:
        for one in found:
            put(encode(_describe_difference(one)))
        return 0
    lines = [line for one in found for line in diff_lines(one)]
    lines += note_lines(found)
    text = "\n".join(lines) or f"Trial {trial.id} changed no files."
    if sys.stdout.isatty() and is_interactive():
        pydoc.pager(f"{text}\n")
    else:
        put(text)
    return 0


def diff_lines(difference: Difference) -> Iterator[str]:
    """Yield the changes of one folder as text without control characters."""
    changes = list(diff_files(difference))
    if changes:
        yield f"{difference.root}:"
        yield from file_lines(changes, len(changes))
    for change in changes:
        yield ""
        yield from map(expose, change.text.split("\n"))


def _describe_difference(difference: Difference) -> dict[str, Any]:
    files = [
        {
            "path": change.size.file.path,
            "kind": change.size.file.kind,
            "added_lines": change.size.added,
            "removed_lines": change.size.removed,
            "before": change.size.file.before,
            "after": change.size.file.after,
            "note": change.size.note,
        }
        for change in diff_files(difference)
    ]
    skipped = [asdict(one) for one in difference.skipped]
    root = os.fspath(difference.root)
    return {"root": root, "files": files, "skipped": skipped, "notices": list(difference.notices)}


async def drop(command: TryCommand) -> int:
    """Remove a trial with its copy, after a question in a terminal."""
    settings = _settings(command)
    trial_id = find_trial_id(settings.home, command.trial, settings.cwd)
    place = TrialPlace(settings.home, trial_id)
    record = ApplyRecord.load(place.folder)
    is_applied = record is not None and record.state != "undone" and bool(record.calls)
    if not command.yes and is_interactive():
        if is_applied:
            say("Its changes are applied. They stay, and `sandbur try undo` cannot take them back any more.")
        is_agreed = confirm(f"Remove trial {trial_id} with all of its changes?")
        if not is_agreed:
            say("The trial stays.")
            return 3
    try:
        place.remove()
    except OSError as error:
        raise UsageError(
            f"Not all of trial {trial_id} can be removed: {error.strerror}.", "Run the command again."
        ) from None
    say(f"Trial {trial_id} is removed.")
    if record is not None and is_applied:
        say(f"What it applied stays. /undo takes it back in: sandbur -r {record.calls[0][0]}")
    return 0


def _find(command: TryCommand) -> tuple[Settings, Trial]:
    settings = _settings(command)
    return settings, find_trial(settings.home, command.trial, settings.cwd)


def _settings(command: TryCommand) -> Settings:
    return load_settings(read_overrides(command), os.environ)
