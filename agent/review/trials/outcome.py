"""What a trial changed in its copy, and what it did outside."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ....actions.tools.registry import SERVER_PREFIX, traits_of
from ....actions.tools.shell.read_only import is_read_only
from ....actions.workspace.copies.changed_paths import ChangedPaths, compare_copy, has_new_commits, read_layer
from ....actions.workspace.copies.comparison import COMMITS, KeptOriginals, build_difference
from ....actions.workspace.copies.copied_links import CopiedLinks
from ....actions.workspace.copies.difference import Difference, SkippedChange
from ....actions.workspace.copies.manifest import Manifest
from ....state.conversation.messages import ToolUse, parse_json_object
from ....state.errors import SandburError
from ....state.lazy_dataclass import dataclass
from ....state.store.recording import list_call_moves, list_tool_uses
from ....state.store.store import Store
from ...config.settings import Settings
from ...history.sub_agents import list_children
from ...history.timeline import title_call
from ...session.secrets import masker_for_display
from .trial import Trial, TrialFolder, TrialPlace, list_trials


def remove_without_session(settings: Settings) -> None:
    """Remove the trials whose session had not begun when their process was killed: nothing ran in them."""
    places = [TrialPlace(settings.home, trial.id) for trial in list_trials(settings.home)]
    places = [place for place in places if place.may_lack_session(settings.store)]
    if not places:
        return
    store = Store.open(settings.store, settings.tenant, None, settings.durability, settings.home)
    try:
        for place in places:
            if not store.index.exists(place.folder.name):
                with suppress(SandburError, OSError):
                    place.remove()
    finally:
        store.close()


def read_differences(place: TrialPlace, trial: Trial, includes_ignored: bool = False) -> list[Difference]:
    """Return the difference of each folder of a trial, also of one that runs or was killed.

    Raises `UsageError` if a record of the trial is damaged.
    """
    found = [
        _read_difference(place, trial, folder, includes_ignored)
        for folder in trial.folders
        if not folder.is_repository
    ]
    if found and any(_has_commits(place, trial, one) for one in trial.folders if one.is_repository):
        notices = tuple(dict.fromkeys((COMMITS, *found[0].notices)))
        found[0] = replace(found[0], notices=notices)
    return found


def _has_commits(place: TrialPlace, trial: Trial, folder: TrialFolder) -> bool:
    """Return whether the trial moved a branch, a tag or HEAD of a repository that lies elsewhere."""
    manifest = Manifest.load(place.part(folder, "manifest"))
    paths, _ = _read_changed(place, trial, folder, manifest)
    return has_new_commits(paths, manifest.root, is_repository=True)


def _read_difference(
    place: TrialPlace, trial: Trial, folder: TrialFolder, includes_ignored: bool
) -> Difference:
    manifest = Manifest.load(place.part(folder, "manifest"))
    paths, skipped = _read_changed(place, trial, folder, manifest)
    kept = KeptOriginals.load(place.part(folder, "base"))
    return build_difference(manifest, paths, skipped, kept, includes_ignored)


def _read_changed(
    place: TrialPlace, trial: Trial, folder: TrialFolder, manifest: Manifest
) -> tuple[ChangedPaths, list[SkippedChange]]:
    if trial.kind == "overlay":
        return read_layer(place.part(folder, "upper"), manifest)
    copied = Manifest.load(place.part(folder, "copied"))
    # A copy in the place of the original keeps the targets of links.
    links = None if trial.is_mounted else CopiedLinks(copied.root, manifest, place.part(folder, "links"))
    return compare_copy(copied, manifest, links)


def read_folder_modes(place: TrialPlace, trial: Trial) -> dict[Path, int]:
    """Return the modes of the folders of the originals at the beginning, by absolute path.

    Raises `UsageError` if a record of the trial is damaged.
    """
    found: dict[Path, int] = {}
    for folder in trial.folders:
        if not folder.is_repository:
            manifest = Manifest.load(place.part(folder, "manifest"))
            for path, status in manifest.entries.items():
                if stat.S_ISDIR(status.mode):
                    found[manifest.root / path] = status.mode
    return found


def end_trial(place: TrialPlace, trial: Trial) -> list[Difference]:
    """Keep the contents of the originals of changed files, for a later merge, and mark the trial as ended.

    Return the differences. On a full disk, the trial stays unmarked and counts as interrupted.
    """
    keep_originals(place, trial)
    now = place.load()
    if now.state == "running":
        with suppress(OSError):
            place.save(now.model_copy(update={"state": "ended"}))
    return read_differences(place, trial)


def keep_originals(place: TrialPlace, trial: Trial) -> None:
    """Keep the contents of the originals of changed files, as far as they are what they were."""
    found = read_differences(place, trial, includes_ignored=True)
    folders = [folder for folder in trial.folders if not folder.is_repository]
    for folder, difference in zip(folders, found, strict=True):
        with suppress(OSError):
            KeptOriginals.load(place.part(folder, "base")).keep(difference)


@dataclass(frozen=True, slots=True)
class OutsideEffect:
    """A call that may have had an effect outside of the copy."""

    title: str
    """The tool and its subject, masked."""
    reason: str
    """Where it may have had an effect, as a clause."""


def find_outside_effects(store: Store, session_id: str) -> list[OutsideEffect]:
    """Return the calls of a session and its sub-agents that reached beyond the copy, in their order."""
    found: list[OutsideEffect] = []
    waiting = [session_id]
    while waiting:
        one = waiting.pop(0)
        with suppress(SandburError):
            found += _find_in_session(store, one)
            waiting += (child.id for child in list_children(store, one))
    return found


def _find_in_session(store: Store, session_id: str) -> Iterator[OutsideEffect]:
    settings = store.index.settings(session_id)
    masker = masker_for_display(settings.cwd)
    started = {move.call_id for move in list_call_moves(store.database, session_id) if move.move == "started"}
    for use in list_tool_uses(store.database, session_id):
        if use.call_id in started and (reason := _why_outside(use, settings.sandbox, settings.allow_net)):
            yield OutsideEffect(masker.text(title_call(use)), reason)


def _why_outside(use: ToolUse, sandbox: str, domains: tuple[str, ...]) -> str:
    """Return where a call may have had an effect besides the copy, or an empty text."""
    if use.tool.startswith(SERVER_PREFIX):
        return "a tool server"
    traits = traits_of(use.tool)
    if traits.reaches:
        return "the network"
    if not traits.runs_commands:
        return ""
    command = (parse_json_object(use.arguments) or {}).get(traits.subject)
    if isinstance(command, str) and is_read_only(command):
        return ""
    if sandbox == "off":
        return "a command without a sandbox: network, services, other folders"
    return f"a command with a network: {', '.join(domains)}" if domains else ""
