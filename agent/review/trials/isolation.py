"""Copies for sub-agents: the session of a sub-agent works in a copy, and its parent gets the difference.

Such a copy is not mounted over the original, because the sub-agent works in the process of its parent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ....actions.workspace.copies.diff_text import count_lines, diff_files, list_change_texts
from ....actions.workspace.copies.difference import Difference
from ....actions.workspace.paths import format_path
from ....state.errors import SandburError, UsageError
from ....state.session import SessionSettings
from ...config.load import store_files
from ...config.settings import Settings
from .making import TrialRequest, make_trial
from .outcome import end_trial, find_outside_effects
from .trial import Trial, TrialPlace

_MB = 1_000_000
_RULES = ("allow", "ask", "deny")
_MOST_DIFF_CHARS = 12_000
"""The most characters of diffs in a result."""
_MOST_FILES = 100
_PLACE = """\
# Your copy
You work in a copy of {root}, at {cwd}. Relative paths start there. Change only files in the copy: its changes
are handed to the agent that started you, which decides about them. Requests and services are real."""


def isolate(settings: Settings, session: SessionSettings, trial_id: str, task: str) -> SessionSettings:
    """Return the settings of a session with a copy of its folders as the workspace.

    The same id gets the same copy. Raises `UsageError` if no copy can be made.
    """
    if session.trial:
        raise UsageError("The session works in a copy already, of which no further copy is made.")
    place = TrialPlace(settings.home, trial_id)
    # A process that was killed may have made the copy before the session was stored.
    trial = place.load() if place.folder.is_dir() else _make(settings, session, trial_id, task)
    root, cwd = trial.cwd, os.fspath(trial.path_inside(Path(trial.cwd)))
    prompt = session.system_prompt.replace(f"Workspace: {session.cwd};", f"Workspace: {cwd};")
    moved = {
        "cwd": cwd,
        "add_dirs": tuple(_list_added(trial, session.add_dirs)),
        "trial": trial.id,
        "system_prompt": f"{prompt}\n\n{_PLACE.format(root=root, cwd=cwd)}",
    }
    return session.model_copy(update=moved | _move_rules(session, trial.cwd, trial))


def _make(settings: Settings, session: SessionSettings, trial_id: str, task: str) -> Trial:
    request = TrialRequest(
        trial_id,
        task,
        Path(session.cwd),
        tuple(map(Path, session.add_dirs)),
        settings.of("trial_copy_mb") * _MB,
        may_overlay=False,
        may_mount=False,
    )
    return make_trial(settings.home, request, store_files(settings.store)).trial


def renew(home: Path, session: SessionSettings) -> SessionSettings:
    """Return the settings of a stored session in a copy, after the rules of its parent were added to it."""
    trial = TrialPlace(home, session.trial).load()
    places = tuple(_list_added(trial, session.add_dirs))
    return session.model_copy(update={"add_dirs": places} | _move_rules(session, trial.cwd, trial))


def hold(settings: Settings, trial_id: str) -> AbstractContextManager[None]:
    """Keep other processes out of the copy of a sub-agent; raises `UsageError` if one is in it."""
    return TrialPlace(settings.home, trial_id).hold()


def describe_changes(settings: Settings, store: Any, trial_id: str) -> str:
    """Return what a sub-agent changed in its copy, for the model of its parent; the work of the call has
    ended.
    """
    place = TrialPlace(settings.home, trial_id)
    try:
        trial = place.load()
        found = end_trial(place, trial)
        effects = find_outside_effects(store, trial_id)
    except (SandburError, OSError) as problem:
        return f"What it changed in its copy (trial {trial_id}) cannot be read: {problem}"
    lines = list(_list_changes(trial, found))
    if effects:
        lines.append("These calls may have had an effect outside of the copy:")
        lines += (f"  {effect.title} ({effect.reason})" for effect in effects[:_MOST_FILES])
    return "\n".join(lines)


def _list_changes(trial: Trial, found: Sequence[Difference]) -> Iterator[str]:
    changes = [change for one in found for change in diff_files(one)]
    if not changes:
        yield "It changed no files in its copy of the folder."
        return
    yield f"In its copy of {trial.cwd} (trial {trial.id}) it changed {count_lines(changes)}; not applied yet:"
    yield from list_change_texts(changes, _MOST_DIFF_CHARS, _MOST_FILES)
    for one in found:
        yield from (f"not part of it: {format_path(each.path)} ({each.reason})" for each in one.skipped)
    yield f"Apply it with apply_trial, if you have this tool; the user can with: sandbur try apply {trial.id}"


def _list_added(trial: Trial, folders: Iterable[str]) -> Iterator[str]:
    """Yield the copies of added folders; a folder that is in a copy already stays."""
    yield from dict.fromkeys(os.fspath(trial.path_inside(Path(os.path.realpath(one)))) for one in folders)


def _move_rules(session: SessionSettings, cwd: str, trial: Trial) -> dict[str, tuple[str, ...]]:
    """Return the rules of a session for a copy of its folders."""
    rules = {key: getattr(session, key) for key in _RULES}
    return translate_rules(rules, (session.cwd, cwd, *session.add_dirs), trial)


def translate_rules(
    rules: Mapping[str, Sequence[str]], folders: Sequence[str | Path], trial: Trial
) -> dict[str, tuple[str, ...]]:
    """Return rules by their kind. Those with an absolute path in the workspace hold for the copy, too.

    `folders` are those of the workspace as they are named.
    """
    pairs = list(_list_places(folders, trial))
    found: dict[str, tuple[str, ...]] = {}
    for key, given in rules.items():
        moved = (rule.replace(old, new) for rule in given for old, new in pairs if old in rule)
        found[key] = tuple(dict.fromkeys((*given, *moved)))
    return found


def _list_places(folders: Sequence[str | Path], trial: Trial) -> Iterator[tuple[str, str]]:
    """Yield the ways to write a folder of the workspace, each with the path of its copy."""
    home = os.path.expanduser("~")  # noqa: PTH111 -- a text is needed
    for folder in trial.folders:
        if not folder.copy_path:
            continue
        named = [os.fspath(one) for one in folders if os.path.realpath(one) == folder.root]
        for name in dict.fromkeys((folder.root, *named)):
            yield name, folder.copy_path
            if name.startswith(f"{home}/"):
                yield f"~{name.removeprefix(home)}", folder.copy_path
