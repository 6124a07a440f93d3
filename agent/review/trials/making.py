"""Makes the copy of a workspace for a trial: an overlay, shared blocks, or a plain copy, in this order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ....actions.workspace.atomic_write import sync_folder
from ....actions.workspace.copies.folder_copy import FolderCopy, remove_tree
from ....actions.workspace.copies.manifest import Manifest
from ....actions.workspace.copies.namespace import why_not
from ....actions.workspace.paths import format_path, make_private
from ....state.conversation.messages import encodable
from ....state.errors import UsageError
from ....state.lazy_dataclass import dataclass
from ....state.process.clock import now
from ....state.process.crashpoints import reach
from .trial import Trial, TrialFolder, TrialPlace, copies_folder, lock_making, trials_folder, unfinished_place

_GIT = ".git"
_MOST_GIT_FILE_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """The properties of a new trial."""

    id: str
    task: str
    cwd: Path
    add_dirs: tuple[Path, ...] = ()
    max_bytes: int | None = None
    """The most bytes of a copy that shares no blocks; None: no limit."""
    group: str = ""
    may_overlay: bool = True
    store: str = ""
    """The URL of the store that gets the session of the trial, if the session begins after the copy."""
    may_mount: bool = True
    """Whether the copy may take the place of the original in a process of its own."""


@dataclass(frozen=True, slots=True)
class MadeTrial:
    trial: Trial
    notices: tuple[str, ...]
    """Sentences about the kind of the copy, and about what is not in it."""


def make_trial(home: Path, request: TrialRequest, private: Sequence[Path] = ()) -> MadeTrial:
    """Make the copy and its record. `home` is the data folder, `private` are the files of the store.

    Raises `TooLarge` if a plain copy would exceed `max_bytes`, and `UsageError` if no copy can be made. Then
    nothing is left.
    """
    roots = find_roots((request.cwd, *request.add_dirs))
    _require_outside(home, private, roots)
    _require_utf8(home, request, roots)
    folder = unfinished_place(home, request.id)
    place = TrialPlace(home, folder.name)
    try:
        make_private(folder.parent)
        with ExitStack() as held:
            with lock_making(home, waits=True):
                folder.mkdir(mode=0o700)
                held.enter_context(place.hold())
            made = _fill(place, request, roots)
            place.save(made.trial)
            if request.store:
                place.note_store(request.store)
            reach("trial_copied")
            folder.rename(trials_folder(home) / request.id)
    except OSError as error:
        _clear(home, request.id)
        raise UsageError(
            f"A copy of {format_path(request.cwd)} cannot be made in {format_path(home)}:"
            f" {error.strerror or error}.",
            "Make room there, or set SANDBUR_HOME to another place.",
        ) from None
    except BaseException:
        _clear(home, request.id)
        raise
    sync_folder(trials_folder(home))
    reach("trial_made")
    return made


def _clear(home: Path, trial_id: str) -> None:
    for left in (copies_folder(home) / trial_id, unfinished_place(home, trial_id)):
        if left.exists():
            remove_tree(left)


def find_roots(folders: Sequence[Path]) -> list[TrialFolder]:
    """Return the folders to copy: the given ones, without those inside of others, and git folders elsewhere
    that commands in them would write."""
    real = list(dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders))
    roots = [one for one in real if not any(one != other and one.is_relative_to(other) for other in real)]
    found = [TrialFolder(root=os.fspath(root), name=str(at)) for at, root in enumerate(roots)]
    repositories: list[Path] = []
    for git in (one for root in roots for one in _find_git_folders(root)):
        if not any(git.is_relative_to(place) for place in (*roots, *repositories)):
            repositories.append(git)
            name = str(len(found))
            found.append(TrialFolder(root=os.fspath(git), name=name, is_repository=True))
    return found


def _find_git_folders(root: Path) -> list[Path]:
    """Return the git folders that a command in `root` uses: the one of the repository, and that of a linked
    work tree's main repository."""
    for folder in (root, *root.parents):
        git = folder / _GIT
        if git.is_dir():
            return [Path(os.path.realpath(git))]
        if git.is_file():
            linked = _read_path(git, "gitdir:", folder)
            shared = linked and _read_path(linked / "commondir", "", linked)
            return [one for one in (shared, linked) if one is not None and one.is_dir()]
    return []


def _read_path(file: Path, mark: str, base: Path) -> Path | None:
    """Return the real path that a small file of git names after `mark`."""
    try:
        with file.open("rb") as content:
            text = os.fsdecode(content.read(_MOST_GIT_FILE_BYTES)).strip()
    except OSError:
        return None
    return Path(os.path.realpath(base / text.removeprefix(mark).strip())) if text.startswith(mark) else None


def _require_outside(home: Path, private: Sequence[Path], roots: Sequence[TrialFolder]) -> None:
    """Raise `UsageError` if the data of Sandbur lies in a folder to copy, or the folder in that data."""
    data = [Path(os.path.realpath(path)) for path in (home, copies_folder(home), *private)]
    for root in (Path(one.root) for one in roots):
        for path in data:
            if path.is_relative_to(root):
                raise UsageError(
                    f"{format_path(path)} lies in {format_path(root)}: a copy of this folder would take the"
                    " records of Sandbur along.",
                    "Work in a folder below it, or set SANDBUR_HOME to a folder elsewhere.",
                )
            if root.is_relative_to(path):
                raise UsageError(f"The folder {format_path(root)} belongs to Sandbur.", "Work elsewhere.")


def _require_utf8(home: Path, request: TrialRequest, roots: Sequence[TrialFolder]) -> None:
    """Raise `UsageError` if the record of the trial, which is JSON, could not hold one of the paths."""
    for path in (os.path.realpath(request.cwd), os.fspath(home), *(one.root for one in roots)):
        if encodable(path) != path:
            raise UsageError(
                f"No trial can be made: the name of the folder {format_path(path)} is not valid UTF-8.",
                "Rename the folder, or work elsewhere.",
            )


def _fill(place: TrialPlace, request: TrialRequest, roots: list[TrialFolder]) -> MadeTrial:
    """Make the copies of all folders, of one kind."""
    manifests = [Manifest.take(Path(one.root)) for one in roots]
    for folder, manifest in zip(roots, manifests, strict=True):
        place.part(folder, "").mkdir(mode=0o700)
        manifest.save(place.part(folder, "manifest"))
    trial = Trial(
        id=request.id, task=request.task, kind="overlay", created=now(), group=request.group,
        cwd=os.path.realpath(request.cwd), folders=tuple(roots),
    )  # fmt: skip
    why = _prepare_overlays(place, trial) if request.may_overlay else "no overlay was asked for"
    if not why:
        return MadeTrial(trial, ("The copy is an overlay: only what the run changes takes room.",))
    return _copy(place, trial, manifests, request, why)


def _prepare_overlays(place: TrialPlace, trial: Trial) -> str:
    """Make the layers of the overlays. Return why they cannot be mounted, or an empty text."""
    for folder in trial.folders:
        upper = place.part(folder, "upper")
        upper.mkdir()
        place.part(folder, "work").mkdir(mode=0o700)
        # The upper layer gives the merged folder its mode and times.
        shutil.copystat(folder.root, upper)
        status = Path(folder.root).stat()
        with suppress(PermissionError):
            os.chown(upper, status.st_uid, status.st_gid)
    why = why_not(place.mounts(trial))
    if why:
        for folder in trial.folders:
            remove_tree(place.part(folder, "upper"))
            remove_tree(place.part(folder, "work"))
    return why


def _copy(
    place: TrialPlace, trial: Trial, manifests: list[Manifest], request: TrialRequest, why: str
) -> MadeTrial:
    copies = copies_folder(place.home) / trial.id
    make_private(copies.parent)
    copies.mkdir(mode=0o700)
    folders: list[TrialFolder] = []
    for folder in trial.folders:
        inside = copies / folder.name
        inside.mkdir(mode=0o700)
        name = Path(folder.root).name or "root"
        folders.append(folder.model_copy(update={"copy_path": os.fspath(inside / name)}))
    trial = trial.model_copy(update={"kind": "copy", "folders": tuple(folders)})
    for folder in folders:
        Path(folder.copy_path).mkdir()
    is_mounted = request.may_mount and not why_not(place.mounts(trial))
    notices: list[str] = []
    kinds: set[str] = set()
    for folder, manifest in zip(folders, manifests, strict=True):
        if folder.is_repository and not is_mounted:
            notices.append(
                f"The repository {folder.root} is not in the copy: commits and other git commands that write"
                " change the original."
            )
            continue
        copy = _make_copy(folder, manifest, request, is_mounted)
        copy.make(manifest).save(place.part(folder, "copied"))
        kinds.add(copy.kind or "copy")
        if copy.unread:
            notices.append(
                f"{len(copy.unread)} files are not in the copy because they cannot be read, such as"
                f" {format_path(copy.unread[0])}."
            )
    kept = tuple(one for one in folders if is_mounted or not one.is_repository)
    kind = "reflink" if kinds == {"reflink"} else "copy"
    trial = trial.model_copy(update={"is_mounted": is_mounted, "kind": kind, "folders": kept})
    return MadeTrial(trial, (_describe_copy(trial, why), *notices))


def _make_copy(
    folder: TrialFolder, manifest: Manifest, request: TrialRequest, is_mounted: bool
) -> FolderCopy:
    copy = FolderCopy(Path(folder.root), Path(folder.copy_path), keeps_links=is_mounted)
    if request.max_bytes is None:
        copy.max_bytes, copy.max_files = manifest.size + 1_000_000_000, len(manifest.entries) + 1
    else:
        copy.max_bytes = request.max_bytes
    return copy


def _describe_copy(trial: Trial, why: str) -> str:
    kind = "a copy that shares blocks" if trial.kind == "reflink" else "a plain copy"
    where = "" if trial.is_mounted else f", at {trial.path_inside(Path(trial.cwd))}"
    return f"The copy is {kind}{where}, and no overlay: {why}."
