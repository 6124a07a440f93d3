"""A trial: the record of a run whose workspace is a copy, in a folder of its own below the data folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from ....actions.workspace.content_cache import digest_of, write_whole
from ....actions.workspace.copies.folder_copy import remove_tree
from ....actions.workspace.copies.namespace import CopyMount, is_mounted
from ....actions.workspace.paths import format_path
from ....state.conversation.content import Record
from ....state.errors import UsageError
from ....state.process.crashpoints import reach
from ....state.process.identity import is_process_gone, make_runner_name
from ....state.session import SessionSettings
from . import VARIABLE as VARIABLE
from . import trials_folder as trials_folder

MOUNT_NAME = "sandbur-trial-"
"""The start of the names of a trial's overlays."""
TrialKind = Literal["overlay", "reflink", "copy"]
TrialState = Literal["running", "ended", "applied"]
_RECORD = "trial.json"
_LOCK = "lock"
_STORE = "store"
"""The name of the file that tells which process makes the session of the trial, and in which store."""
_UNFINISHED = ".unfinished-"
"""The start of the names of folders that are being made or removed."""


class TrialFolder(Record):
    """One folder of the workspace and the place of its copy."""

    root: str
    """The original, with links resolved."""
    name: str
    """The folder in the folder of the trial that holds its data."""
    copy_path: str = Field(default="", exclude_if=lambda path: not path)
    """The whole copy; empty for an overlay."""
    is_repository: bool = Field(default=False, exclude_if=lambda is_so: not is_so)
    """Whether it is only the git folder of the workspace, which lies elsewhere and is never applied."""


class Trial(Record):
    id: str
    """Also the id of its session."""
    task: str
    kind: TrialKind
    is_mounted: bool = True
    """Whether the copy takes the place of the original. Otherwise the run works at the path of the copy."""
    created: str
    """UTC, ISO 8601."""
    cwd: str
    """The working folder of the run, as a path of the original."""
    folders: tuple[TrialFolder, ...]
    state: TrialState = "running"
    group: str = Field(default="", exclude_if=lambda group: not group)
    """The id of the first trial of several attempts at one task; empty for a single trial."""

    @property
    def mount_name(self) -> str:
        return f"{MOUNT_NAME}{self.id}"

    def path_inside(self, path: Path) -> Path:
        """Return the path at which a run of the trial finds a file of the original.

        A path outside of the workspace stays.
        """
        if not self.is_mounted:
            for folder in self.folders:
                if path.is_relative_to(folder.root):
                    return Path(folder.copy_path) / path.relative_to(folder.root)
        return path

    def contains(self, path: Path) -> bool:
        """Return whether the copy includes a path that a run of the trial uses."""
        places = (one.root if self.is_mounted else one.copy_path for one in self.folders)
        return any(path.is_relative_to(place) for place in places)


class TrialPlace:
    """The folder of one trial. It exists as long as the trial is neither dropped nor deleted."""

    def __init__(self, home: Path, trial_id: str) -> None:
        """`home` is the data folder."""
        self.home = home
        self.folder = trials_folder(home) / trial_id

    @property
    def lock(self) -> Path:
        return self.folder / _LOCK

    def load(self) -> Trial:
        """Return the record; raises `UsageError` if there is none, or if it is damaged."""
        try:
            found = Trial.model_validate_json((self.folder / _RECORD).read_bytes())
            if found.id != self.folder.name:
                raise ValueError("the record of another trial")
            return found
        except FileNotFoundError:
            raise UsageError(
                f"There is no trial {self.folder.name}.", "`sandbur try list` lists the trials."
            ) from None
        except (OSError, ValueError):
            raise UsageError(
                f"The record of trial {self.folder.name} cannot be read.",
                f"Remove the trial: sandbur try drop {self.folder.name}",
            ) from None

    def save(self, trial: Trial) -> None:
        write_whole(self.folder / _RECORD, trial.model_dump_json().encode())

    def note_store(self, url: str) -> None:
        """Note that this process begins the session of the trial in the store with this URL."""
        write_whole(self.folder / _STORE, f"{make_runner_name()}\n{_digest(url)}".encode())

    def may_lack_session(self, url: str) -> bool:
        """Return whether the process that made the trial is gone, and the store with this URL has its session
        if any has."""
        with suppress(OSError, ValueError):
            maker, store = self.folder.joinpath(_STORE).read_text().split("\n")
            return store == _digest(url) and is_process_gone(maker) and not self.is_in_use
        return False

    def part(self, folder: TrialFolder, name: str) -> Path:
        """Return a path in the data of one folder: `upper`, `work`, `base`, `manifest`, `copied`
        or `links`."""
        return self.folder / folder.name / name

    def mounts(self, trial: Trial) -> list[CopyMount]:
        """Return what a process mounts in order to work in the trial; nothing if it works elsewhere."""
        if not trial.is_mounted:
            return []
        if trial.kind != "overlay":
            return [CopyMount("bind", Path(one.root), Path(one.copy_path)) for one in trial.folders]
        return [
            CopyMount("overlay", Path(one.root), self.part(one, "upper"), self.part(one, "work"))
            for one in trial.folders
        ]

    def is_inside(self, trial: Trial) -> bool:
        """Return whether this process works in the copy."""
        if not trial.is_mounted:
            return all(Path(one.copy_path).is_dir() for one in trial.folders)
        return all(is_mounted(trial.mount_name, mount) for mount in self.mounts(trial))

    @property
    def is_in_use(self) -> bool:
        """Whether a process works in the trial now."""
        try:
            with self.hold():
                return False
        except UsageError:
            return True

    @contextmanager
    def hold(self) -> Generator[None]:
        """Keep other processes out of the trial; raises `UsageError` if one is in it, or if it cannot be
        locked.
        """
        try:
            lock = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (FileNotFoundError, NotADirectoryError):
            # The folder is gone, so there is nothing to lock.
            yield
            return
        except OSError as error:
            raise UsageError(
                f"Trial {self.folder.name} cannot be locked: {error.strerror or error}.",
                f"Make {format_path(self.lock)} writable.",
            ) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"Another process works in trial {self.folder.name}.", "Wait for it, or end it."
                ) from None
            yield
        finally:
            os.close(lock)

    def remove(self) -> None:
        """Remove the trial with its copy. A kill in the middle leaves a folder for `remove_unfinished`."""
        with self.hold():
            copies = copies_folder(self.home) / self.folder.name
            aside = self.folder.with_name(f"{_UNFINISHED}{self.folder.name}")
            if aside.exists():
                remove_tree(aside)
            with suppress(FileNotFoundError):
                self.folder.rename(aside)
            reach("trial_set_aside")
            for place in (copies, aside):
                if os.path.lexists(place):
                    remove_tree(place)
            with suppress(OSError):
                copies.parent.rmdir()


def _digest(url: str) -> str:
    return digest_of(url.encode("utf-8", "surrogateescape"))


def copies_folder(home: Path) -> Path:
    """Return the folder of the copies that are no overlays: beside the data folder, which tools may not
    change."""
    return home.with_name(f"{home.name}-copies")


def unfinished_place(home: Path, trial_id: str) -> Path:
    """Return the folder in which a trial is made before it gets its own name."""
    return trials_folder(home) / f"{_UNFINISHED}{trial_id}"


def list_trials(home: Path) -> list[Trial]:
    """Return the trials whose records can be read, the newest first."""
    found: list[Trial] = []
    for name in _list_names(home):
        with suppress(UsageError):
            found.append(TrialPlace(home, name).load())
    return sorted(found, key=lambda trial: (trial.created, trial.id), reverse=True)


def _list_names(home: Path) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from sorted(
            path.name
            for path in trials_folder(home).iterdir()
            if not path.name.startswith(_UNFINISHED) and path.is_dir()
        )


def find_trial(home: Path, word: str | None, cwd: Path) -> Trial:
    """Return the trial with an id or a unique start of it; without a word the newest one of a folder.

    Raises `UsageError` if there is none, or if several begin with the word.
    """
    return TrialPlace(home, find_trial_id(home, word, cwd)).load()


def find_trial_id(home: Path, word: str | None, cwd: Path) -> str:
    """Return what `find_trial` would find, also if the record of the trial is damaged."""
    if word is None:
        here = [one for one in list_trials(home) if cwd.is_relative_to(one.cwd) or one.cwd == os.fspath(cwd)]
        if not here:
            raise UsageError("This folder has no trial.", 'Begin one: sandbur try "..."')
        return here[0].id
    names = list(_list_names(home))
    matches = [name for name in names if name == word] or [name for name in names if name.startswith(word)]
    if len(matches) > 1:
        raise UsageError(f"`{word}` is the start of several trials.", "Write more of the id.")
    if not matches or not word:
        raise UsageError(f"There is no trial `{word}`.", "`sandbur try list` lists the trials.")
    return matches[0]


@contextmanager
def lock_making(home: Path, waits: bool) -> Generator[None]:
    """Lock the making of trials against `remove_unfinished`, for the time until the folder of a new trial is
    locked itself.

    Raises `BlockingIOError` without `waits` if another process has the lock.
    """
    folder = os.open(trials_folder(home), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        os.close(folder)


def remove_unfinished(home: Path) -> None:
    """Remove what a killed process left of trials that it was making or removing.

    If a process begins a trial just now, everything stays until the next call.
    """
    with suppress(FileNotFoundError, BlockingIOError):
        with lock_making(home, waits=False):
            folders = [one for one in trials_folder(home).iterdir() if one.name.startswith(_UNFINISHED)]
        for folder in folders:
            with suppress(UsageError, OSError), TrialPlace(home, folder.name).hold():
                name = folder.name.removeprefix(_UNFINISHED)
                copies = copies_folder(home) / name
                if copies.exists() and not (trials_folder(home) / name).exists():
                    remove_tree(copies)
                remove_tree(folder)


def find_orphans(home: Path, sessions: Sequence[str]) -> list[Path]:
    """Return the folders of trials whose session is not among `sessions`, without those in use."""
    known = set(sessions)
    found = [trials_folder(home) / name for name in _list_names(home) if name not in known]
    return [folder for folder in found if not TrialPlace(home, folder.name).is_in_use]


def remove_of_session(home: Path, session_id: str) -> None:
    """Remove the trial of a deleted session, if it has one that no process uses."""
    if (trials_folder(home) / session_id).is_dir():
        with suppress(UsageError, OSError):
            TrialPlace(home, session_id).remove()


def find_own_trial(home: Path, env: Mapping[str, str]) -> Trial | None:
    """Return the trial in whose copy this process works, or None."""
    place = TrialPlace(home, env.get(VARIABLE) or "none")
    if not place.folder.is_dir():
        return None
    trial = place.load()
    return trial if place.is_inside(trial) else None


def require_inside(home: Path, session_id: str, settings: SessionSettings) -> Trial:
    """Return the trial of a session if this process works in its copy, and so does the session.

    Raises `UsageError` otherwise.
    """
    place = TrialPlace(home, settings.trial)
    if not place.folder.is_dir():
        raise UsageError(
            f"Session {session_id} worked in trial {settings.trial}, whose copy is gone.",
            "Begin a new session.",
        )
    trial = place.load()
    if trial.state == "applied":
        raise UsageError(
            f"Session {session_id} worked in trial {trial.id}, which is applied.", "Begin a new session."
        )
    if not place.is_inside(trial):
        raise UsageError(
            f"Session {session_id} works in a copy of {trial.cwd}, and this process is not in that copy.",
            f"Open it with: sandbur -r {session_id}",
        )
    for folder in (settings.cwd, *settings.add_dirs):
        if not trial.contains(Path(folder)):
            raise UsageError(
                f"The folder {folder} is not in the copy of trial {trial.id}.",
                "Leave the folder out, or begin a new trial with it.",
            )
    return trial
